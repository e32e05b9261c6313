/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to neighbours: those of a connected queue pair drained into its peer's lane, datagrams one by one; near.h has the contract.
 *
 * Locks: under qp->lock; takes peer->lock for a burst, and the key table's references, below it.
 */
#include <sched.h>
#include <string.h>

#include "core/context.h"
#include "core/device.h"
#include "core/mr.h"
#include "core/near.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/tap.h"
#include "host/host.h"
#include "local/onesided.h"
#include "run/clock.h"
#include "util/compiler.h"

enum {
	FULL_LANE_US = 20,	/* a full lane is tried again after this, */
	FULL_LANE_MAX_US = 1280,	/* and each time after twice as long, up to this: its owner may be stopped */
	LONG_FULL_MS = 1000,	/* nobody empties it: after so long it is tried less often, and datagrams are lost */
	LONG_FULL_US = 20480,
	PUT_MAX = ((ROCE_MAX_PACKET + 63) & ~63) + ONESIDED_SEGS * sizeof(struct wq_seg),
	LOOK_AGAIN_MS = 10,	/* for a neighbour that a datagram to a group could not reach */
	PULL_MIN = 2048,	/* payloads from here on are left for the receiver to pull */
};

static const uint8_t no_icrc[ROCE_ICRC_LEN];

/* Where the payload of a request lies, piece by piece. The engine has checked its keys just now. */
static unsigned int payload_pieces(struct vrb_qp *qp, const struct send_wqe *w, struct wq_seg *seg)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < w->num_sge; i++) {
		const struct ibv_sge *sge = &w->sge[i];
		struct mr_entry *pin;

		if (sge->length == 0)
			continue;
		if (vrb_mem_pin(&qp->wq, sge->lkey, sge->addr, sge->length, MEM_LOCAL_READ, &seg[n],
				&pin) != REASON_NONE)
			return 0;
		vrb_mem_unpin(pin);
		n++;
	}
	return n;
}

/* The payload stays where it is. */
static void put_pull(struct vrb_qp *qp, const struct send_wqe *w, struct lane_tx *tx,
		     struct lane_head *head, const struct lane_part *packet)
{
	struct wq_seg seg[ONESIDED_SEGS];
	struct lane_part parts[] = { *packet, { seg, 0 } };

	head->where = LANE_PULL;
	head->payload = w->length;
	head->nseg = payload_pieces(qp, w, seg);
	if (head->nseg == 0)
		return;	/* the region went away since: lost, and found out by the retry */
	parts[1].len = head->nseg * sizeof(seg[0]);
	lane_tx_put(tx, head, parts, ARRAY_SIZE(parts));
}

/* The buffer has room for an ICRC behind the packet. */
static void put(struct vrb_qp *qp, struct lane_tx *tx, uint8_t *buf, uint32_t len,
		const struct roce_rider *ack)
{
	const struct send_wqe *w = roce_output_pull(&qp->roce);
	struct lane_head head = { .where = LANE_INLINE };
	struct lane_part packet = { buf, len + ROCE_ICRC_LEN };

	memset(buf + len, 0, ROCE_ICRC_LEN);
	if (ack->any) {
		head.flags = LANE_ACK;
		head.ack_psn = ack->psn;
		head.ack_aeth = (uint32_t)ack->syndrome << 24 | ack->msn;
	}
	if (unlikely(w != NULL))
		put_pull(qp, w, tx, &head, &packet);
	else
		lane_tx_put(tx, &head, &packet, 1);
}

/*
 * What the neighbour allows now; its first look at our lane comes after our first packet.  Only what goes by packets, and whole, can be
 * paced, or watched.
 */
static void note_abilities(struct vrb_qp *qp, bool watched)
{
	struct local_peer *peer = qp->near.peer;
	bool packets = qp->wq.rate_kbps != 0 || watched;

	qp->wq.direct = qp->wq.type == IBV_QPT_RC && !packets && local_peer_cma(peer);
	qp->wq.pull_min = !packets && local_peer_pulls(peer) ? PULL_MIN : 0;
}

/* A dead neighbour's pid may come to name another process: its memory is not touched any more. */
static bool has_died(struct vrb_qp *qp, uint64_t now)
{
	if (likely(local_peer_alive(vrb.local, qp->near.peer, now)))
		return false;
	qp->wq.direct = false;
	return true;
}

static bool full_for_long(const struct vrb_near *n, uint64_t now)
{
	return time_since(n->full_since, now) >= LONG_FULL_MS * VRB_MSEC;
}

static void note_room(struct vrb_near *n, bool full, bool moved, uint64_t now)
{
	n->retry = VRB_NEVER;
	if (!full || moved)
		n->full_since = n->pause = 0;
	if (likely(!full))
		return;
	if (!n->full_since)
		n->full_since = now;
	n->pause = min(max(2 * n->pause, (uint32_t)FULL_LANE_US),
		       full_for_long(n, now) ? (uint32_t)LONG_FULL_US : (uint32_t)FULL_LANE_MAX_US);
	n->retry = time_after(now, n->pause * VRB_USEC);
}

/*
 * Packets to a neighbour that died are lost as on a network: the engine must see them leave, or it would never count a retry.  To one that lives
 * they wait for room, however long it takes.
 */
bool vrb_near_collect(struct vrb_qp *qp, uint64_t now)
{
	uint8_t packet[(ROCE_MAX_PACKET + 63) & ~63];
	bool sent = false, full = false, lost = false, dead, watched;
	const struct net_path *path;
	struct roce_rider ack;
	struct lane_tx *tx;
	size_t len = 1;

	if (!vrb_near_find(qp, now))
		return false;
	watched = vrb_tap_wanted(now);
	note_abilities(qp, watched);
	dead = has_died(qp, now);
	ack.allowed = !watched && qp->wq.type == IBV_QPT_RC;	/* a sniffer sees two packets */
	tx = local_burst_begin(qp->near.peer);
	while (len && !full && roce_has_output(&qp->roce)) {
		bool room = !dead && lane_tx_room(tx, PUT_MAX);

		lost = !room && dead;
		full = !room && !lost;
		if (!full)
			len = roce_output_with(&qp->roce, packet, sizeof(packet), &path, &ack, now);
		if (!room || !len)
			continue;
		if (unlikely(watched))
			vrb_tap_tell(qp, path, packet, len, false);
		put(qp, tx, packet, len, &ack);
		sent = true;
	}
	if (sent)
		qp->near.put_at = tx->head;
	local_burst_end(vrb.local, qp->near.peer, sent);
	note_room(&qp->near, full, sent, now);
	return true;
}

bool vrb_near_packet(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, uint64_t now)
{
	struct lane_head head = { .where = LANE_INLINE };
	struct lane_part parts[] = { { packet, len }, { no_icrc, sizeof(no_icrc) } };
	uint64_t start = clock_now();
	struct lane_tx *tx;
	bool room;

	if (!vrb_near_find(qp, now))
		return false;
	if (vrb_tap_wanted(now))
		vrb_tap_tell(qp, &qp->wq.path, packet, len, false);
	do {
		tx = local_burst_begin(qp->near.peer);
		room = lane_tx_room(tx, len + sizeof(no_icrc));
		if (room)
			lane_tx_put(tx, &head, parts, ARRAY_SIZE(parts));
		local_burst_end(vrb.local, qp->near.peer, room);
		if (!room)
			sched_yield();
	} while (!room && clock_now() - start < VRB_MSEC &&
		 local_peer_alive(vrb.local, qp->near.peer, clock_now()));
	return true;
}

static struct local_peer *datagram_peer(struct vrb_qp *qp, uint32_t qpn, uint64_t now)
{
	struct near_addressee *to = &qp->near.to[(qpn ^ qpn >> 8) % NEAR_ADDRESSEES];

	if (to->peer && to->qpn == qpn && local_peer_alive(vrb.local, to->peer, now))
		return to->peer;
	if (to->peer)
		local_peer_put(vrb.local, to->peer);
	to->qpn = qpn;
	to->peer = local_peer_get(vrb.local, qpn);
	return to->peer;
}

static bool send_datagram(struct local_peer *peer, const struct net_path *path,
			  const uint8_t *packet, uint32_t len)
{
	struct lane_head head = { .where = LANE_INLINE, .flags = LANE_PATH };
	struct lane_part parts[] = {
		{ path, sizeof(*path) }, { packet, len }, { no_icrc, sizeof(no_icrc) }
	};
	struct lane_tx *tx = local_burst_begin(peer);
	bool room = lane_tx_room(tx, sizeof(*path) + len + sizeof(no_icrc));

	if (room)
		lane_tx_put(tx, &head, parts, ARRAY_SIZE(parts));
	local_burst_end(vrb.local, peer, room);
	return room;
}

/*
 * Every member of a group is a neighbour where there is no wire, and on the loopback interface (over which IPv6 has no route for
 * groups).
 */
static bool all_are_near(const struct vrb_qp *qp)
{
	return !vrb.wire || qp->ctx->dev->port.loopback;
}

/*
 * All neighbours, with references, as long as no process comes or goes; one of them that could not be reached is tried again.  The lock is a
 * leaf but for those of peers and of the local transport.
 */
static struct {
	struct lock lock;
	uint64_t generation;
	uint64_t again;		/* VRB_NEVER: all were reached */
	unsigned int n;
	struct local_peer *peer[HOST_SLOTS];
} members;

static void put_members(void)
{
	while (members.n)
		local_peer_put(vrb.local, members.peer[--members.n]);
	members.generation = 0;
}

void vrb_near_members_put(void)
{
	lock_acquire(&members.lock);
	put_members();
	lock_release(&members.lock);
}

void vrb_near_members_forget(void)
{
	members.n = 0;
	members.generation = 0;
	lock_init(&members.lock);
}

/* Must hold members.lock. */
static void find_members(uint64_t generation, uint64_t now)
{
	struct host_peer facts;

	put_members();
	members.generation = generation;
	members.again = VRB_NEVER;
	for (int slot = 0; slot < HOST_SLOTS; slot++) {
		struct local_peer *peer;

		if (!host_peer(vrb.host, slot, &facts))
			continue;
		peer = local_peer_in(vrb.local, slot);
		if (peer)
			members.peer[members.n++] = peer;
		else
			members.again = time_after(now, LOOK_AGAIN_MS * VRB_MSEC);
	}
}

/* Calls fn for each until it returns true, which it then does, too. */
static bool any_member(bool (*fn)(struct local_peer *peer, const void *arg), const void *arg, uint64_t now)
{
	uint64_t generation = host_generation(vrb.host);
	bool found = false;

	lock_acquire(&members.lock);
	if (generation != members.generation || time_reached(members.again, now))
		find_members(generation, now);
	for (unsigned int i = 0; i < members.n && !found; i++)
		if (local_peer_alive(vrb.local, members.peer[i], now))
			found = fn(members.peer[i], arg);
	lock_release(&members.lock);
	return found;
}

struct datagram {
	const struct net_path *path;
	const uint8_t *packet;
	uint32_t len;
};

static bool send_copy(struct local_peer *peer, const void *arg)
{
	const struct datagram *d = arg;

	send_datagram(peer, d->path, d->packet, d->len);
	return false;
}

/* To every neighbour: they know whether they are members. Always true. */
static bool send_to_all(const struct net_path *path, const uint8_t *packet, uint32_t len, uint64_t now)
{
	any_member(send_copy, &(struct datagram){ path, packet, len }, now);
	return true;
}

/* The neighbour that a datagram of the QP goes to; NULL: none. */
static struct local_peer *addressee(struct vrb_qp *qp, const struct net_path *path, uint32_t qpn,
				    uint64_t now)
{
	if (!path || net_is_multicast(&path->dst) ||
	    vrb_port_find_gid(&qp->ctx->dev->port, &path->dst) < 0)
		return NULL;
	return datagram_peer(qp, qpn, now);
}

bool vrb_near_datagram(struct vrb_qp *qp, const struct net_path *path, const uint8_t *packet,
		       uint32_t len, uint64_t now)
{
	struct local_peer *peer;
	bool sent;

	if (net_is_multicast(&path->dst)) {
		sent = all_are_near(qp) && send_to_all(path, packet, len, now);
	} else {
		peer = addressee(qp, path, packet[5] << 16 | packet[6] << 8 | packet[7], now);
		sent = peer && send_datagram(peer, path, packet, len);
	}
	if (sent && vrb_tap_wanted(now))
		vrb_tap_tell(qp, path, packet, len, false);
	return sent;
}

static bool lane_full(struct local_peer *peer)
{
	bool full = !lane_tx_room(local_burst_begin(peer), PUT_MAX);

	local_burst_end(vrb.local, peer, false);
	return full;
}

static bool is_full(struct local_peer *peer, const void *arg)
{
	return lane_full(peer);
}

static bool receiver_full(struct vrb_qp *qp, const struct send_wqe *w, uint64_t now)
{
	struct local_peer *peer;

	if (w->ud.path && net_is_multicast(&w->ud.path->dst))
		return all_are_near(qp) && any_member(is_full, NULL, now);
	peer = addressee(qp, w->ud.path, w->ud.qpn, now);
	return peer && lane_full(peer);
}

bool vrb_near_waits(struct vrb_qp *qp, uint64_t now)
{
	const struct send_queue *sq = &qp->wq.sq;
	bool full = qp->wq.state == IBV_QPS_RTS && sq->next != sq->head &&
		    receiver_full(qp, sq_wqe(sq, sq->next), now);

	note_room(&qp->near, full, !full, now);
	return full && !full_for_long(&qp->near, now);
}
