/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/xrcmsg.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "core/process.h"
#include "core/xrc/afar.h"
#include "core/xrc/deputy.h"
#include "core/xrc/loan.h"
#include "core/xrc/xrcask.h"
#include "host/host.h"
#include "local/local.h"
#include "run/clock.h"
#include "util/compiler.h"

enum {
	MAGIC = 0x32435258,	/* "XRC2" */
	PACKET_MAX = ROCE_MAX_PACKET + 64,
	MESSAGE_MAX = sizeof(struct xrc_msg) + PACKET_MAX,
};

#define ROOM_PATIENCE VRB_MSEC

_Static_assert(sizeof(struct xrc_head) == 48, "layout of messages");
_Static_assert(HOST_TELL_PARTS == 4, "head, body, state and packet");
_Static_assert(MESSAGE_MAX <= LANE_BYTES / 2, "fits a lane");

bool xrc_party_find(struct xrc_party *p, int slot)
{
	struct host_peer facts;

	if (!host_peer(vrb.host, slot, &facts))
		return false;
	*p = (struct xrc_party){ .slot = slot, .incarnation = facts.incarnation };
	if (vrb.local)
		p->peer = local_peer_in(vrb.local, slot);
	return true;
}

void xrc_party_drop(struct xrc_party *p)
{
	if (p->peer && vrb.local)
		local_peer_put(vrb.local, p->peer);
	*p = (struct xrc_party){ .slot = HOST_NO_SLOT };
}

bool xrc_party_alive(struct xrc_party *p, uint64_t now)
{
	if (p->peer)
		return local_peer_alive(vrb.local, p->peer, now);
	return host_alive(vrb.host, p->slot, p->incarnation);
}

bool xrc_party_sent(const struct xrc_party *p, const struct xrc_msg *m)
{
	return p->slot == m->head.slot && p->incarnation == m->head.incarnation;
}

bool xrc_party_room(struct xrc_party *p)
{
	bool room;

	if (!p->peer)
		return true;
	room = lane_tx_room(local_burst_begin(p->peer), MESSAGE_MAX);
	local_burst_end(vrb.local, p->peer, false);
	return room;
}

static bool put_once(struct local_peer *peer, const struct lane_part *parts, unsigned int n,
		     uint32_t len)
{
	struct lane_head head = { .where = LANE_INLINE, .flags = LANE_MESSAGE };
	struct lane_tx *tx = local_burst_begin(peer);
	bool room = lane_tx_room(tx, len);

	if (room)
		lane_tx_put(tx, &head, parts, n);
	local_burst_end(vrb.local, peer, room);
	return room;
}

static int tell_by_lane(struct xrc_party *to, const struct lane_part *parts, unsigned int n,
			uint32_t len)
{
	uint64_t start = 0, now;

	while (!put_once(to->peer, parts, n, len)) {
		now = clock_now();
		if (!xrc_party_alive(to, now))
			return ENOENT;
		if (!start)
			start = now;
		to->deaf |= now - start >= ROOM_PATIENCE;
		if (to->deaf)
			return EAGAIN;
		sched_yield();
	}
	to->deaf = false;
	return 0;
}

static int tell_by_inbox(struct xrc_party *to, const struct lane_part *parts, unsigned int n)
{
	struct iovec iov[HOST_TELL_PARTS];

	for (unsigned int i = 0; i < n; i++)
		iov[i] = (struct iovec){ (void *)parts[i].data, parts[i].len };
	switch (host_tell(vrb.host, to->slot, to->incarnation, iov, n)) {
	case 0:
		return 0;
	case ENOENT:
		return ENOENT;
	default:
		return EAGAIN;
	}
}

int xrc_tell(struct xrc_party *to, struct xrc_head *head, const void *body, size_t body_len,
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
	return to->peer ? tell_by_lane(to, parts, n, len) : tell_by_inbox(to, parts, n);
}

/* The data may be changed by its sender meanwhile, so the copy of the head is what counts. */
static bool take_apart(const uint8_t *data, size_t len, struct xrc_msg *m)
{
	const struct xrc_head *h = &m->head;

	if (len < sizeof(*h))
		return false;
	memcpy(&m->head, data, sizeof(m->head));
	if (h->magic != MAGIC || h->qpn > ROCE_QPN_MASK || h->body > sizeof(m->body) || h->state > sizeof(m->state) ||
	    h->packet > PACKET_MAX ||
	    len != sizeof(*h) + (size_t)h->body + h->state + h->packet)
		return false;
	memcpy(m->body, data + sizeof(*h), h->body);
	memcpy(m->state, data + sizeof(*h) + h->body, h->state);
	m->packet = data + sizeof(*h) + h->body + h->state;
	return true;
}

void xrc_receive(const uint8_t *data, size_t len, struct vrb_receiver *r, uint64_t now)
{
	static struct xrc_msg m;	/* vrb.drive */

	if (!take_apart(data, len, &m))
		return;
	switch (m.head.kind) {
	case XRC_LEND:
	case XRC_REQUEST:
	case XRC_CONFIG:
	case XRC_RECALL:
		vrb_deputy_receive(&m, r, now);
		break;
	case XRC_ANSWER:
	case XRC_EVENT:
		vrb_loan_receive(&m, r, now);
		break;
	case XRC_NEWS:
		vrb_afar_receive(&m);
		break;
	case XRC_ASK:
	case XRC_REPLY:
		xrc_ask_receive(&m, now);
		break;
	default:
		break;
	}
}
