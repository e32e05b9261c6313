/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs and their neighbours; near.h has the contract.
 *
 * Locks: under qp->lock; takes peer->lock for a burst, and the key table's references, below it.
 */
#include "core/near.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "core/context.h"
#include "core/device.h"
#include "core/mr.h"
#include "core/mrtab.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/tap.h"
#include "host/host.h"
#include "local/onesided.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "util/compiler.h"

enum {
	LOOK_AGAIN_MS = 1,	/* a neighbour that could not be reached is looked for again after this, */
	LOOK_AGAIN_MAX_MS = 256,	/* and each time after twice as long, up to this */
	FULL_LANE_US = 20,	/* a full lane is tried again after this, */
	FULL_LANE_MAX_US = 1280,	/* and each time after twice as long, up to this: its owner may be stopped */
	STUCK_LANE_MS = 100,	/* nobody empties it: packets are lost from here on, so that retries are counted */
	STUCK_UNRELIABLE_MS = 1000,	/* where nothing is retried: a neighbour that gets no processor shall not cost messages at once */
	HOLD_UC_MS = 1000,	/* an unreliable connection waits so long for its neighbour's QP */
	QUIET_WIRE_MS = 100,	/* what an unreliable connection sent by the wire has arrived by then, or is lost */
	PUT_MAX = ((ROCE_MAX_PACKET + 63) & ~63) + ONESIDED_SEGS * sizeof(struct wq_seg),
	LIST_BYTES = 256 * 1024,	/* a list of requests is cut into calls of this size */
	PULL_MIN = 2048,	/* payloads from here on are left for the receiver to pull */
	BOUNCE = 4096,		/* pieces of a payload that cannot go straight to its place */
};

static uint64_t network_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static struct mr_entry *key_chunk(uint32_t first, uint32_t n)
{
	return segment_keys(local_segment(vrb.local), first, n);
}

static void wait_unused(uint32_t index)
{
	local_wait_unused(vrb.local, index);
}

int vrb_near_start(void)
{
	int err;

	vrb.local = NULL;
	if (config_get()->transport == CONFIG_UDP)
		return ENOTSUP;
	err = local_start(vrb.host, network_namespace(), &vrb.local);
	if (err != 0) {
		vrb.local = NULL;
		if (err != ENOTSUP)
			log_limited(LOG_LOCAL, LOG_WARN, "no shared memory with other processes: %s",
				    strerror(err));
		return err;
	}
	mr_table_source(key_chunk, wait_unused);
	return 0;
}

/* The key table lies in the segment: it goes first. No key is in use, because no context is open. */
void vrb_near_stop(void)
{
	if (!vrb.local)
		return;
	mr_table_reset();
	local_stop(vrb.local);
	vrb.local = NULL;
}

void vrb_near_forget(void)
{
	if (vrb.local)
		local_forget(vrb.local);
	vrb.local = NULL;
}

/* ---------------------------------------------------------------- who is near */

static void release_peers(struct vrb_near *n)
{
	if (n->peer)
		local_peer_put(vrb.local, n->peer);
	if (n->ud_peer)
		local_peer_put(vrb.local, n->ud_peer);
	*n = (struct vrb_near){ .retry = VRB_NEVER, .from_slot = HOST_NO_SLOT,
				.published = n->published };
}

static bool listening(uint8_t state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

/* What vrb_near.published stands for: the state, whether the path is the one it was, and whether the connection is established. */
static uint8_t publication(const struct vrb_qp *qp)
{
	return qp->wq.state | qp->wq.mig_state << 4 | (qp->roce.resp.established ? 0x80 : 0);
}

static bool was_listening(const struct vrb_qp *qp)
{
	return listening(qp->near.published & 0xf);
}

bool vrb_near_stale(const struct vrb_qp *qp)
{
	return qp->near.published != publication(qp);
}

void vrb_near_changed(struct vrb_qp *qp)
{
	struct seg_qp_facts facts = { .established = qp->roce.resp.established };
	bool deaf = was_listening(qp) && !listening(qp->wq.state);

	qp->near.published = publication(qp);
	/* Raw frames have no neighbours. */
	if (!vrb.local || qp->wq.type == IBV_QPT_RAW_PACKET)
		return;
	/* The peer may have come up since: an unreliable first message should not find that out. */
	if (qp->wq.state == IBV_QPS_RTS)
		qp->near.again = qp->near.patience = 0;
	/* A neighbour stays one while the connection lasts. */
	if (qp->wq.state == IBV_QPS_RESET || qp->wq.state == IBV_QPS_INIT) {
		release_peers(&qp->near);
		qp->wq.direct = false;
		qp->wq.pull_min = 0;
	}
	segment_publish_qp(local_segment(vrb.local), &qp->wq, facts);
	/* A QP that has ceased to listen changes no memory any more. */
	if (deaf)
		local_wait_quiet(vrb.local);
}

void vrb_near_drop(struct vrb_qp *qp)
{
	if (!vrb.local)
		return;
	segment_retract_qp(local_segment(vrb.local), qp->wq.qpn);
	if (was_listening(qp))
		local_wait_quiet(vrb.local);
	release_peers(&qp->near);
}

/*
 * A QP number alone says nothing: another host may have the same.  The neighbour's QP has published that the address is its own, in
 * this network namespace, which makes it the one that is meant.
 */
static bool is_the_one(const struct local_peer *peer, const struct wq_qp *wq)
{
	struct seg_qp published;

	return local_peer_qp(peer, wq->dest_qpn, &published) &&
	       memcmp(published.src_gid, wq->path.dst.raw, sizeof(published.src_gid)) == 0;
}

static bool nothing_in_flight(const struct vrb_qp *qp)
{
	return qp->roce.req.psn == qp->roce.comp.una;
}

/* What is on the wire already must not be overtaken: that would look like a loss. */
static bool may_switch(const struct vrb_qp *qp, uint64_t now)
{
	if (qp->wq.type == IBV_QPT_UD || qp->wq.state < IBV_QPS_RTR)
		return false;
	if (qp->wq.type == IBV_QPT_UC)
		return !qp->near.far_at || now - qp->near.far_at >= QUIET_WIRE_MS * VRB_MSEC;
	return !vrb.wire ||
	       (nothing_in_flight(qp) && qp->roce.resp.rd_owed == 0);
}

/*
 * An XRC receive QP can move to another process (docs/XRC.md), where it is looked for once it is not where it was.  What is in flight has to go on
 * by a lane, because its payload may have been left to be pulled.
 */
static void follow_peer(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;
	struct local_peer *peer;
	struct seg_qp published;

	if (local_peer_alive(vrb.local, n->peer, now) &&
	    local_peer_qp(n->peer, qp->wq.dest_qpn, &published))
		return;
	if (now < n->again)
		return;
	n->again = time_after(now, LOOK_AGAIN_MS * VRB_MSEC);
	peer = local_peer_get(vrb.local, qp->wq.dest_qpn);
	if (peer && !is_the_one(peer, &qp->wq)) {
		local_peer_put(vrb.local, peer);
		peer = NULL;
	}
	if (!peer && !nothing_in_flight(qp))
		return;
	local_peer_put(vrb.local, n->peer);
	n->peer = peer;
	n->full_since = n->pause = 0;
	n->retry = VRB_NEVER;
	qp->wq.pull_min = 0;
}

static bool near_peer(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;
	struct local_peer *peer;

	if (qp->wq.type == IBV_QPT_XRC_SEND && n->peer != NULL)
		follow_peer(qp, now);
	if (likely(n->peer != NULL))
		return true;
	if (now < n->again || !may_switch(qp, now))
		return false;
	n->patience = min(max(2 * n->patience, (uint32_t)LOOK_AGAIN_MS), (uint32_t)LOOK_AGAIN_MAX_MS);
	n->again = time_after(now, n->patience * VRB_MSEC);
	n->expected = false;
	peer = local_peer_get(vrb.local, qp->wq.dest_qpn);
	if (!peer)
		return false;
	if (is_the_one(peer, &qp->wq))
		n->peer = peer;
	else
		local_peer_put(vrb.local, peer);
	n->expected = !n->peer && vrb_port_find_gid(&qp->ctx->dev->port, &qp->wq.path.dst) >= 0;
	return n->peer != NULL;
}

bool vrb_near_holds(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_near *n = &qp->near;

	if (qp->wq.type != IBV_QPT_UC)
		return false;
	n->retry = VRB_NEVER;
	if (!n->expected || qp->wq.state != IBV_QPS_RTS || qp->wq.sq.next == qp->wq.sq.head)
		return false;
	if (!n->held_since)
		n->held_since = now;
	if (now - n->held_since >= HOLD_UC_MS * VRB_MSEC)
		return false;
	n->retry = max(n->again, now);
	return true;
}

bool vrb_near_migrated(struct vrb_qp *qp)
{
	struct seg_qp published;

	return !qp->near.peer || !local_peer_qp(qp->near.peer, qp->wq.dest_qpn, &published) ||
	       memcmp(published.src_gid, qp->wq.alt_path.dst.raw, sizeof(published.src_gid)) == 0;
}

bool vrb_near_believes(struct vrb_qp *qp, int slot)
{
	if (qp->wq.type == IBV_QPT_UD)
		return true;
	if (qp->near.from_slot != slot)
		qp->near.from_slot = host_owner(vrb.host, qp->wq.dest_qpn);
	return qp->near.from_slot == slot;
}

/* ---------------------------------------------------------------- packets */

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

static void put(struct vrb_qp *qp, struct lane_tx *tx, const uint8_t *packet, uint32_t len)
{
	const struct send_wqe *w = roce_output_pull(&qp->roce);
	struct wq_seg seg[ONESIDED_SEGS];
	struct lane_slot slot = { .where = LANE_INLINE };
	struct lane_part parts[] = { { packet, len }, { no_icrc, sizeof(no_icrc) }, { seg, 0 } };

	if (w != NULL) {
		slot.where = LANE_PULL;
		slot.payload = w->length;
		slot.nseg = payload_pieces(qp, w, seg);
		if (slot.nseg == 0)
			return;	/* the region went away since: lost, and found out by the retry */
		parts[2].len = slot.nseg * sizeof(seg[0]);
	}
	lane_tx_put(tx, &slot, parts, ARRAY_SIZE(parts));
}

/*
 * What the neighbour allows now; its first look at our lane comes after our first packet.  Only what goes by packets, and whole, can be
 * paced, or watched.
 */
static void note_abilities(struct vrb_qp *qp, uint64_t now)
{
	struct local_peer *peer = qp->near.peer;
	bool packets = qp->wq.rate_kbps != 0 || vrb_tap_wanted(now);

	qp->wq.direct = qp->wq.type == IBV_QPT_RC && !packets && local_peer_cma(peer);
	qp->wq.pull_min = !packets && local_peer_pulls(peer) ? PULL_MIN : 0;
}

/*
 * Packets to a neighbour that died, or whose lane has been full for long, are lost as on a network: the engine must see them leave, or it
 * would never count a retry.
 */
static bool loses_packets(struct vrb_qp *qp, uint64_t now)
{
	uint64_t patience;

	/* A dead neighbour's pid may come to name another process: its memory is not touched any more. */
	if (!local_peer_alive(vrb.local, qp->near.peer, now)) {
		qp->wq.direct = false;
		return true;
	}
	patience = qp->wq.type == IBV_QPT_UC ? STUCK_UNRELIABLE_MS : STUCK_LANE_MS;
	return qp->near.full_since && now - qp->near.full_since >= patience * VRB_MSEC;
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
	n->pause = min(max(2 * n->pause, (uint32_t)FULL_LANE_US), (uint32_t)FULL_LANE_MAX_US);
	n->retry = time_after(now, n->pause * VRB_USEC);
}

bool vrb_near_collect(struct vrb_qp *qp, uint64_t now)
{
	uint8_t packet[(ROCE_MAX_PACKET + 63) & ~63];
	const struct net_path *path;
	struct lane_tx *tx;
	bool sent = false, full = false, lost;
	size_t len = 1;

	if (!near_peer(qp, now))
		return false;
	note_abilities(qp, now);
	lost = loses_packets(qp, now);
	tx = local_burst_begin(qp->near.peer);
	while (len && !full && roce_has_output(&qp->roce)) {
		full = !lost && !lane_tx_room(tx, PUT_MAX);
		if (!full)
			len = roce_output(&qp->roce, packet, sizeof(packet), &path, now);
		if (full || !len || lost)
			continue;
		if (vrb_tap_wanted(now))
			vrb_tap_tell(qp, path, packet, len, false);
		put(qp, tx, packet, len);
		sent = true;
	}
	local_burst_end(vrb.local, qp->near.peer, sent);
	note_room(&qp->near, full, sent, now);
	return true;
}

bool vrb_near_packet(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, uint64_t now)
{
	struct lane_slot slot = { .where = LANE_INLINE };
	struct lane_part parts[] = { { packet, len }, { no_icrc, sizeof(no_icrc) } };
	uint64_t start = clock_now();
	struct lane_tx *tx;
	bool room;

	if (!near_peer(qp, now))
		return false;
	if (vrb_tap_wanted(now))
		vrb_tap_tell(qp, &qp->wq.path, packet, len, false);
	do {
		tx = local_burst_begin(qp->near.peer);
		room = lane_tx_room(tx, len + sizeof(no_icrc));
		if (room)
			lane_tx_put(tx, &slot, parts, ARRAY_SIZE(parts));
		local_burst_end(vrb.local, qp->near.peer, room);
		if (!room)
			sched_yield();
	} while (!room && clock_now() - start < VRB_MSEC &&
		 local_peer_alive(vrb.local, qp->near.peer, clock_now()));
	return true;
}

static struct local_peer *datagram_peer(struct vrb_qp *qp, uint32_t qpn, uint64_t now)
{
	struct vrb_near *n = &qp->near;

	if (n->ud_peer && n->ud_qpn == qpn && local_peer_alive(vrb.local, n->ud_peer, now))
		return n->ud_peer;
	if (n->ud_peer)
		local_peer_put(vrb.local, n->ud_peer);
	n->ud_qpn = qpn;
	n->ud_peer = local_peer_get(vrb.local, qpn);
	return n->ud_peer;
}

static bool send_datagram(struct local_peer *peer, const struct net_path *path,
			  const uint8_t *packet, uint32_t len)
{
	struct lane_slot slot = { .where = LANE_INLINE, .flags = LANE_PATH };
	struct lane_part parts[] = {
		{ path, sizeof(*path) }, { packet, len }, { no_icrc, sizeof(no_icrc) }
	};
	struct lane_tx *tx = local_burst_begin(peer);
	bool room = lane_tx_room(tx, sizeof(*path) + len + sizeof(no_icrc));

	if (room)
		lane_tx_put(tx, &slot, parts, ARRAY_SIZE(parts));
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

/* To every neighbour: they know whether they are members. Always true. */
static bool send_to_all(const struct net_path *path, const uint8_t *packet, uint32_t len)
{
	for (int slot = 0; slot < HOST_SLOTS; slot++) {
		struct local_peer *peer = local_peer_in(vrb.local, slot);

		if (!peer)
			continue;
		send_datagram(peer, path, packet, len);
		local_peer_put(vrb.local, peer);
	}
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
		sent = all_are_near(qp) && send_to_all(path, packet, len);
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

static bool any_lane_full(void)
{
	bool full = false;

	for (int slot = 0; slot < HOST_SLOTS && !full; slot++) {
		struct local_peer *peer = local_peer_in(vrb.local, slot);

		if (!peer)
			continue;
		full = lane_full(peer);
		local_peer_put(vrb.local, peer);
	}
	return full;
}

static bool receiver_full(struct vrb_qp *qp, const struct send_wqe *w, uint64_t now)
{
	struct local_peer *peer;

	if (w->ud.path && net_is_multicast(&w->ud.path->dst))
		return all_are_near(qp) && any_lane_full();
	peer = addressee(qp, w->ud.path, w->ud.qpn, now);
	return peer && lane_full(peer);
}

bool vrb_near_waits(struct vrb_qp *qp, uint64_t now)
{
	const struct send_queue *sq = &qp->wq.sq;
	bool full = qp->wq.state == IBV_QPS_RTS && sq->next != sq->head &&
		    receiver_full(qp, sq_wqe(sq, sq->next), now);

	note_room(&qp->near, full, !full, now);
	return full && now - qp->near.full_since < STUCK_UNRELIABLE_MS * VRB_MSEC;
}

/* ---------------------------------------------------------------- one-sided requests */

/* Memory of one or more requests, held until they are done. */
struct pinned {
	unsigned int n;
	const struct mr_entry *last;	/* held already, for pieces of the same region; NULL: none */
	struct wq_seg seg[ONESIDED_SEGS];
	struct mr_entry *entry[ONESIDED_SEGS];	/* NULL: needs no reference of its own */
};

static void pinned_init(struct pinned *p)
{
	p->n = 0;
	p->last = NULL;
}

static void unpin(struct pinned *p, unsigned int from)
{
	if (p->n > from)
		p->last = NULL;
	while (p->n > from) {
		if (p->entry[--p->n])
			vrb_mem_unpin(p->entry[p->n]);
	}
}

static bool pin_piece(struct pinned *p, struct wq_qp *wq, const struct ibv_sge *sge,
		      enum mem_access access)
{
	struct wq_seg *seg = &p->seg[p->n];
	struct mr_entry **entry = &p->entry[p->n];

	if (p->n == ONESIDED_SEGS)
		return false;
	*entry = NULL;
	if (!p->last || !vrb_mem_pinned(wq, p->last, sge->lkey, sge->addr, sge->length, access, seg)) {
		if (vrb_mem_pin(wq, sge->lkey, sge->addr, sge->length, access, seg, entry) !=
		    REASON_NONE)
			return false;
		p->last = *entry;
	}
	p->n++;
	return true;
}

static bool pin(struct pinned *p, struct wq_qp *wq, const struct send_wqe *w,
		enum mem_access access)
{
	unsigned int first = p->n;

	if (w->flags & WQE_DATA_INLINE) {
		if (p->n == ONESIDED_SEGS)
			return false;
		p->entry[p->n] = NULL;
		p->seg[p->n++] = (struct wq_seg){ (uintptr_t)w->sge, w->length };
		return true;
	}
	for (uint32_t i = 0; i < w->num_sge; i++) {
		const struct ibv_sge *sge = &w->sge[i];

		if (sge->length == 0)
			continue;
		if (!pin_piece(p, wq, sge, access)) {
			unpin(p, first);
			return false;
		}
	}
	return true;
}

/* As many requests of one kind as follow each other, up to what fits. */
static unsigned int gather(struct onesided *o, struct pinned *p, struct wq_qp *wq, uint32_t opcode)
{
	bool write = opcode == IBV_WR_RDMA_WRITE;
	unsigned int n = 0;

	while (wq->sq.next + n != wq->sq.head && n < ONESIDED_OPS && o->total < LIST_BYTES) {
		const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next + n);
		unsigned int first = p->n;

		if (w->opcode != opcode || w->length > wq->max_msg)
			break;
		if (!pin(p, wq, w, write ? MEM_LOCAL_READ : MEM_LOCAL_WRITE))
			break;
		if (!onesided_add(o, w->rkey, w->remote_addr, w->length,
				  write ? MEM_REMOTE_WRITE : MEM_REMOTE_READ, &p->seg[first],
				  p->n - first)) {
			unpin(p, first);
			break;
		}
		n++;
	}
	return n;
}

static unsigned int run_copies(struct onesided *o, struct wq_qp *wq, uint32_t opcode)
{
	struct pinned p;
	unsigned int n;

	pinned_init(&p);
	n = gather(o, &p, wq, opcode);
	if (n)
		n = opcode == IBV_WR_RDMA_WRITE ? onesided_write(o) : onesided_read(o);
	unpin(&p, 0);
	return n;
}

static unsigned int run_atomic(struct onesided *o, struct wq_qp *wq, const struct send_wqe *w)
{
	enum atomic_op op = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? ATOMIC_OP_CMP_SWAP :
								      ATOMIC_OP_FETCH_ADD;
	struct pinned p;
	uint64_t original;
	bool done;

	pinned_init(&p);
	if (w->length != sizeof(original) || w->remote_addr % sizeof(original) ||
	    !pin(&p, wq, w, MEM_LOCAL_WRITE))
		return 0;
	done = onesided_add(o, w->rkey, w->remote_addr, w->length, MEM_REMOTE_ATOMIC, p.seg, p.n) &&
	       onesided_atomic(o, vrb.local, op, w->atomic.compare_add, w->atomic.swap, &original);
	for (unsigned int i = 0, at = 0; done && i < w->num_sge; at += w->sge[i++].length)
		vrb_mem_write(wq, w->sge[i].lkey, w->sge[i].addr, (uint8_t *)&original + at,
			      w->sge[i].length, MEM_LOCAL_WRITE);
	unpin(&p, 0);
	return done;
}

unsigned int vrb_near_direct(struct wq_qp *wq)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);
	const struct send_wqe *w = sq_wqe(&wq->sq, wq->sq.next);
	struct roce_counters *c = &qp->roce.counters;
	struct onesided o;
	unsigned int n = 0;

	/* READs and atomics that the responder could not answer are its business to refuse. */
	if (w->opcode != IBV_WR_RDMA_WRITE && !wq->max_rd_atomic)
		return 0;
	if (!onesided_begin(&o, qp->near.peer, wq))
		return 0;
	switch (w->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		n = run_copies(&o, wq, w->opcode);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		n = run_atomic(&o, wq, w);
		break;
	default:
		break;	/* FLUSH and ATOMIC WRITE need the owner's processor */
	}
	onesided_end(&o);
	if (n)
		*(w->opcode == IBV_WR_RDMA_WRITE ? &c->sent_bytes : &c->rcvd_bytes) += o.end[n - 1];
	return n;
}

/* Piece by piece through the check of each access: for what has no address of its own (null regions) or too many pieces. */
static enum reason pull_bounced(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
				uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
				enum mem_access access)
{
	uint8_t bounce[BOUNCE];
	uint64_t done = 0, in_sge = 0;

	while (done < total && num_dst > 0) {
		struct wq_seg here = { (uintptr_t)bounce, 0 };
		enum reason why;

		here.len = min(total - done, dst->length - in_sge);
		here.len = min(here.len, (uint64_t)sizeof(bounce));
		if (here.len && local_pull(from, offset + done, &here, 1, here.len))
			return REASON_PEER_DIED;
		why = wq->ops->mem_write(wq, dst->lkey, dst->addr + in_sge, bounce, here.len, access);
		if (why != REASON_NONE)
			return why;
		done += here.len;
		in_sge += here.len;
		if (in_sge == dst->length) {
			dst++;
			num_dst--;
			in_sge = 0;
		}
	}
	return done == total ? REASON_NONE : REASON_LKEY_RANGE;
}

enum reason vrb_near_pull(struct wq_qp *wq, const struct wq_pull *from, uint64_t offset,
			  uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
			  enum mem_access access)
{
	struct pinned p;
	enum reason why = REASON_NONE;
	uint64_t left = total;
	int err;

	pinned_init(&p);
	for (uint32_t i = 0; i < num_dst && left > 0 && why == REASON_NONE; i++) {
		uint64_t len = min(left, (uint64_t)dst[i].length);

		if (len == 0)
			continue;
		if (p.n == ONESIDED_SEGS)
			break;
		why = vrb_mem_pin(wq, dst[i].lkey, dst[i].addr, len, access, &p.seg[p.n],
				  &p.entry[p.n]);
		p.n += why == REASON_NONE;
		left -= len;
	}
	if (why != REASON_NONE || left > 0) {
		unpin(&p, 0);
		return pull_bounced(wq, from, offset, total, dst, num_dst, access);
	}
	err = local_pull(from, offset, p.seg, p.n, total);
	unpin(&p, 0);
	if (err == EPERM || err == ENOSYS)
		local_pull_refused(vrb.local, from);
	/* Whose memory is missing? Piece by piece it shows. */
	if (err == EFAULT)
		return pull_bounced(wq, from, offset, total, dst, num_dst, access);
	return err ? REASON_PEER_DIED : REASON_NONE;
}

enum reason vrb_near_peek(const struct wq_pull *from, const struct wq_seg *to)
{
	return local_pull(from, 0, to, 1, to->len) ? REASON_PEER_DIED : REASON_NONE;
}

void vrb_near_lock_atomics(void)
{
	if (vrb.local)
		local_lock_atomics(vrb.local);
}

void vrb_near_unlock_atomics(void)
{
	if (vrb.local)
		local_unlock_atomics(vrb.local);
}
