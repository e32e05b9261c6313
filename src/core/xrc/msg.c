/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/msg.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "core/base/state.h"
#include "host/host.h"
#include "local/local.h"
#include "local/peer.h"
#include "run/clock.h"
#include "util/compiler.h"

enum {
	MAGIC = 0x32435258,	/* "XRC2" */
	PACKET_MAX = ROCE_MAX_PACKET + 64,
	MESSAGE_MAX = sizeof(struct xrc_msg) + PACKET_MAX,
};

#define ROOM_TIMEOUT VRB_MSEC

_Static_assert(sizeof(struct xrc_head) == 48, "layout of messages");
_Static_assert(HOST_XRC_PARTS == 4, "head, body, state and packet");
_Static_assert((int)MESSAGE_MAX <= (int)LANE_BYTES, "fits a lane");

bool xrc_peer_find(struct xrc_peer *p, int slot)
{
	struct host_peer facts;

	if (!host_peer(vrb.host, slot, &facts))
		return false;
	*p = (struct xrc_peer){ .slot = slot, .incarnation = facts.incarnation };
	if (vrb.local)
		p->peer = local_peer_in(vrb.local, slot);
	return true;
}

void xrc_peer_drop(struct xrc_peer *p)
{
	if (p->peer && vrb.local)
		local_peer_put(vrb.local, p->peer);
	*p = (struct xrc_peer){ .slot = HOST_NO_SLOT };
}

bool xrc_peer_alive(struct xrc_peer *p, uint64_t now)
{
	if (p->peer)
		return local_peer_alive(vrb.local, p->peer, now);
	return host_alive(vrb.host, p->slot, p->incarnation);
}

bool xrc_peer_sent(const struct xrc_peer *p, const struct xrc_msg *m)
{
	return p->slot == m->head.slot && p->incarnation == m->head.incarnation;
}

bool xrc_peer_room(struct xrc_peer *p)
{
	bool room;

	if (!p->peer)
		return true;
	room = lane_tx_room(local_tx_begin(p->peer), MESSAGE_MAX);
	local_tx_end(vrb.local, p->peer, false);
	return room;
}

static bool put_once(struct local_peer *peer, const struct lane_part *parts, unsigned int n,
		     uint32_t len)
{
	struct lane_head head = { .where = LANE_INLINE, .flags = LANE_XRC };
	struct lane_tx *tx = local_tx_begin(peer);
	bool room = lane_tx_room(tx, len);

	if (room)
		lane_tx_put(tx, &head, parts, n);
	local_tx_end(vrb.local, peer, room);
	return room;
}

static int send_by_lane(struct xrc_peer *to, const struct lane_part *parts, unsigned int n,
			uint32_t len)
{
	uint64_t start = 0, now;

	while (!put_once(to->peer, parts, n, len)) {
		now = clock_now();
		if (!xrc_peer_alive(to, now))
			return ENOENT;
		if (!start)
			start = now;
		to->stalled |= now - start >= ROOM_TIMEOUT;
		if (to->stalled)
			return EAGAIN;
		sched_yield();
	}
	to->stalled = false;
	return 0;
}

static int send_by_inbox(struct xrc_peer *to, const struct lane_part *parts, unsigned int n)
{
	struct iovec iov[HOST_XRC_PARTS];

	for (unsigned int i = 0; i < n; i++)
		iov[i] = (struct iovec){ (void *)parts[i].data, parts[i].len };
	switch (host_send_xrc(vrb.host, to->slot, to->incarnation, iov, n)) {
	case 0:
		return 0;
	case ENOENT:
		return ENOENT;
	default:
		return EAGAIN;
	}
}

int xrc_send_once(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
		  const void *state, size_t state_len, const void *packet, size_t packet_len)
{
	const struct lane_part given[] = { { head, sizeof(*head) }, { body, body_len },
					   { state, state_len }, { packet, packet_len } };
	struct lane_part parts[ARRAY_SIZE(given)];
	unsigned int n = 0;
	uint32_t len = 0;

	head->magic = MAGIC;
	head->body = body_len;
	head->state = state_len;
	head->packet = packet_len;
	head->slot = host_slot(vrb.host);
	head->incarnation = host_incarnation(vrb.host);
	for (unsigned int i = 0; i < ARRAY_SIZE(given); i++) {
		len += given[i].len;
		if (given[i].len)
			parts[n++] = given[i];
	}
	return to->peer ? send_by_lane(to, parts, n, len) : send_by_inbox(to, parts, n);
}

/* `data` is shared memory that the sender can modify: validate and use only the copies. */
bool xrc_parse(struct xrc_msg *m, const uint8_t *data, size_t len)
{
	const struct xrc_head *h = &m->head;

	if (len < sizeof(*h))
		return false;
	memcpy(&m->head, data, sizeof(m->head));
	if (h->magic != MAGIC || h->qpn > ROCE_QPN_MASK || h->body > sizeof(m->body) ||
	    h->state > sizeof(m->state) || h->packet > PACKET_MAX ||
	    len != sizeof(*h) + (size_t)h->body + h->state + h->packet)
		return false;
	memcpy(m->body, data + sizeof(*h), h->body);
	memcpy(m->state, data + sizeof(*h) + h->body, h->state);
	m->packet = data + sizeof(*h) + h->body + h->state;
	return true;
}
