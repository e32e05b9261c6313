/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends packets to peers on this host: in bursts from connected QPs, one by one from UD QPs;
 * peer_link.h documents the interface.
 *
 * Locks: runs under qp->lock; takes peer->lock for a burst and key table references below it.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/device/device.h"
#include "core/device/mirror.h"
#include "core/local/backlog.h"
#include "core/local/peer_link.h"
#include "core/local/peer_message.h"
#include "core/local/peer_word.h"
#include "core/mem/mr.h"
#include "core/qp/error_report.h"
#include "core/qp/qp.h"
#include "host/host.h"
#include "local/onesided.h"
#include "local/peer.h"
#include "roce/message.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum {
	PUT_MAX = ((ROCE_MAX_PACKET + 63) & ~63) + ONESIDED_SEGS * sizeof(struct wq_seg),
	/* what its lane holds when the process that builds them learns that they wait */
	KEPT_MAX = 2 * LANE_SLOTS,
};

static const uint8_t no_icrc[ROCE_ICRC_LEN];

/*
 * Lists the pieces of a request's payload. The engine has just checked its keys. Returns 0 if a
 * region has since been deregistered.
 */
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

/* Without a reference: put_pull() finds out if a region is gone. */
bool vrb_peer_can_pull(struct wq_qp *wq, const struct send_wqe *w)
{
	for (uint32_t i = 0; i < w->num_sge; i++) {
		const struct mr_entry *e =
			w->sge[i].length ? vrb_mem_entry(w->sge[i].lkey) : NULL;

		if (e && load_relaxed(&e->kind) == MR_NULL)
			return false;
	}
	return true;
}

/* Sends a packet whose payload stays in the sender's memory, for the receiver to fetch. */
static void put_pull(struct vrb_qp *qp, const struct send_wqe *w, struct lane_tx *tx,
		     struct lane_head *head, const struct lane_part *packet)
{
	struct wq_seg seg[ONESIDED_SEGS];
	struct lane_part parts[] = { *packet, { seg, 0 } };

	head->where = LANE_PULL;
	head->payload = w->length;
	head->nseg = payload_pieces(qp, w, seg);
	if (head->nseg == 0)
		return;	/* The region is gone: drop the packet; the retry reports the error. */
	parts[1].len = head->nseg * sizeof(seg[0]);
	lane_tx_put(tx, head, parts, ARRAY_SIZE(parts));
}

static uint8_t lossy(void)
{
	return tapped_whole() ? LANE_LOSSY : 0;
}

/* `buf` has room for an ICRC after the packet. */
static void put(struct vrb_qp *qp, struct lane_tx *tx, uint8_t *buf, uint32_t len,
		const struct roce_piggyback_ack *ack)
{
	const struct send_wqe *w = roce_output_pull(&qp->roce);
	struct lane_head head = { .where = LANE_INLINE, .flags = lossy() };
	struct lane_part packet = { buf, len + ROCE_ICRC_LEN };
	struct tap_packet tap = {
		.qp = qp, .data = buf, .len = len, .pulled = w ? w->length : 0,
	};

	if (tapped() && !vrb_tap_out(&tap))
		return;
	if (unlikely(tap.mark))
		roce_set_fecn(buf);
	memset(buf + len, 0, ROCE_ICRC_LEN);
	vrb_peer_add_ack(&head, ack);
	if (unlikely(w != NULL))
		put_pull(qp, w, tx, &head, &packet);
	else
		lane_tx_put(tx, &head, &packet, 1);
}

/*
 * Updates the shortcuts that the peer permits; it attaches to our lane only after our first packet.
 * Paced or mirrored traffic needs whole packets, so it uses no shortcuts.
 */
static void note_abilities(struct vrb_qp *qp, bool whole)
{
	struct local_peer *peer = qp->peer.process;
	bool packets = qp->wq.rate_kbps != 0 || whole;

	qp->wq.direct = (qp->wq.type == IBV_QPT_RC || qp->wq.type == IBV_QPT_UC) && !packets &&
			local_peer_cma(peer);
	qp->wq.pull_min = !packets && local_peer_pulls(peer) ? TUNE_LANE_PULL_MIN : 0;
	qp->wq.whole_max = packets ? 0 : MESSAGE_LONGEST;
}

/* The pid of a dead peer may be reused, so stop direct access to its memory. */
static bool has_died(struct vrb_qp *qp, uint64_t now)
{
	if (likely(local_peer_alive(vrb.local, qp->peer.process, now)))
		return false;
	qp->wq.direct = false;
	return true;
}

static bool is_stuck(uint64_t full_since, uint64_t now)
{
	return time_since(full_since, now) >= LIMIT_LANE_STUCK_MS * VRB_MSEC;
}

/* full_since: of the lane; 0: it has room. sent: something of this QP has left. */
static void note_room(struct vrb_peer *p, uint64_t full_since, bool sent, uint64_t now)
{
	p->retry_at = VRB_NEVER;
	if (!full_since || sent)
		p->retry_backoff_us = 0;
	if (likely(!full_since))
		return;
	p->retry_backoff_us = min(max(2 * p->retry_backoff_us, (uint32_t)LIMIT_LANE_RETRY_US),
		       is_stuck(full_since, now) ? (uint32_t)LIMIT_LANE_STUCK_RETRY_US :
						   (uint32_t)LIMIT_LANE_RETRY_MAX_US);
	p->retry_at = time_after(now, p->retry_backoff_us * VRB_USEC);
}

/* The requester must not count timeouts while its answers wait here, however many pass. */
static void note_answers(struct vrb_qp *qp, bool full)
{
	bool wait = full && (roce_has_ack(&qp->roce) || roce_responses_pending(&qp->roce) ||
			     qp->peer.n_kept);

	if (likely(wait == qp->peer.answers_wait))
		return;
	qp->peer.answers_wait = wait;
	vrb_peer_publish(qp);
}

struct kept_packet {
	struct list node;
	uint32_t len;
	uint8_t data[];
};

static void drop_kept(struct vrb_peer *p, struct kept_packet *k)
{
	list_del(&k->node);
	p->n_kept--;
	free(k);
}

void vrb_peer_drop_kept(struct vrb_peer *p)
{
	while (p->n_kept)
		drop_kept(p, list_entry(p->kept.next, struct kept_packet, node));
}

static bool leave(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, bool word)
{
	struct lane_packet p = { .data = packet, .len = len, .flags = lossy(),
				 .ended_qpn = word ? qp->wq.qpn : 0 };

	return vrb_backlog_add(qp->peer.process, &p);
}

bool vrb_peer_leave_answers(struct vrb_qp *qp, bool word)
{
	uint8_t packet[ROCE_MAX_PACKET];
	struct vrb_peer *p = &qp->peer;
	size_t len = p->answers_wait ? roce_ack_last(&qp->roce, packet) : 0;
	bool all = p->n_kept || len;

	while (p->n_kept) {
		struct kept_packet *k = list_entry(p->kept.next, struct kept_packet, node);

		all &= leave(qp, k->data, k->len, word);
		drop_kept(p, k);
	}
	return all && (!len || leave(qp, packet, len, word));
}

/* Lost if the process has died. */
static void keep(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, uint64_t now)
{
	struct vrb_peer *p = &qp->peer;
	struct kept_packet *k;

	if (p->n_kept == KEPT_MAX || !local_peer_alive(vrb.local, p->process, now))
		return;
	k = malloc(sizeof(*k) + len);
	if (!k)
		return;
	k->len = len;
	memcpy(k->data, packet, len);
	list_add_tail(&p->kept, &k->node);
	if (p->n_kept++)
		return;
	note_room(p, now, false, now);
	note_answers(qp, true);
}

/* False: there is no room. Must hold peer->lock. */
static bool put_packet(struct lane_tx *tx, const uint8_t *packet, uint32_t len)
{
	struct lane_head head = { .where = LANE_INLINE, .flags = lossy() };
	struct lane_part parts[] = { { packet, len }, { no_icrc, sizeof(no_icrc) } };
	bool room = lane_tx_room(tx, len + sizeof(no_icrc));

	if (room)
		lane_tx_put(tx, &head, parts, ARRAY_SIZE(parts));
	return room;
}

/* Returns false once there is no room. Must hold peer->lock. */
static bool put_kept(struct vrb_peer *p, struct lane_tx *tx, bool *any)
{
	while (p->n_kept) {
		struct kept_packet *k = list_entry(p->kept.next, struct kept_packet, node);

		if (!put_packet(tx, k->data, k->len))
			return false;
		*any = true;
		drop_kept(p, k);
	}
	return true;
}

/* The next request, if it may become a message; NULL: there is none, or it is too long. */
static const struct send_wqe *next_message(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;
	const struct send_wqe *w = sq_wqe(sq, sq->next);

	return sq->next != sq->head && w->length <= MESSAGE_LONGEST ? w : NULL;
}

/*
 * The room that the next packet needs, or that request as a message: it waits for it, even where
 * some of its packets would fit.
 */
static uint32_t room_for(const struct send_wqe *next)
{
	uint32_t message = next ? MESSAGE_HEADER + (uint32_t)next->length + MESSAGE_REMOTE : 0;

	return max((uint32_t)PUT_MAX, message);
}

/* One call of vrb_peer_tx(). */
struct turn {
	uint64_t now;
	struct lane_tx *tx;
	bool dead;		/* the peer's process */
	bool watched;		/* mirrored traffic needs whole packets */
	bool messages;		/* requests may become messages */
	struct roce_piggyback_ack ack;
	bool sent, full;
};

/* False: the engine has no packet now. */
static bool send_packet(struct vrb_qp *qp, struct turn *t)
{
	uint8_t packet[(ROCE_MAX_PACKET + 63) & ~63];
	const struct net_path *path;
	size_t len = roce_output_with(&qp->roce, packet, sizeof(packet), &path, &t->ack, t->now);

	if (!len || t->dead)
		return len;
	if (unlikely(t->watched))
		vrb_mirror_packet(&qp->config.ctx->dev->port, qp->now, path, packet, len, false);
	put(qp, t->tx, packet, len, &t->ack);
	qp->peer.tx_head = t->tx->head;	/* the next request may be a WRITE of UC */
	t->sent = true;
	return true;
}

/* False: nothing more can leave now. */
static bool send_next(struct vrb_qp *qp, struct turn *t)
{
	const struct send_wqe *next = t->messages ? next_message(qp) : NULL;

	t->full = !t->dead && !lane_tx_room(t->tx, room_for(next));
	if (t->full)
		return false;
	if (next && vrb_peer_put_message(qp, t->tx, vrb_peer_message_place(next, t->tx))) {
		t->sent = true;
		return true;
	}
	return send_packet(qp, t);
}

static void end_turn(struct vrb_qp *qp, const struct turn *t)
{
	uint64_t full_since;

	if (t->sent)
		qp->peer.tx_head = t->tx->head;
	if (roce_awaits_word(&qp->roce))
		vrb_word_want(qp, t->tx->head - 1);
	if (unlikely(t->full))
		vrb_word_foretell(qp);
	full_since = unlikely(t->full) ? peer_full_since(qp->peer.process, t->now) : 0;
	vrb_peer_tx_end(qp, t->sent);
	note_room(&qp->peer, full_since, t->sent, t->now);
	note_answers(qp, t->full);
}

/*
 * Packets to a dead peer are dropped as on a network: the engine must consider them sent, or it
 * would never count a retry. Packets to a live peer wait for room indefinitely.
 */
bool vrb_peer_tx(struct vrb_qp *qp, uint64_t now)
{
	struct turn t = { .now = now };
	bool whole, plain;

	if (!vrb_peer_lookup(qp, now))
		return false;
	t.watched = vrb_mirror_enabled(now);
	whole = t.watched || tapped_whole();
	note_abilities(qp, whole);
	t.dead = has_died(qp, now);
	plain = !whole && !t.dead && roce_is_plain(&qp->roce);
	t.messages = plain && qp->wq.type == IBV_QPT_RC;
	t.ack.allowed = !whole && qp->wq.type == IBV_QPT_RC;
	if (unlikely(t.dead))
		vrb_peer_drop_kept(&qp->peer);
	t.tx = local_tx_begin(qp->peer.process);
	if (unlikely(qp->peer.n_kept))
		t.full = !put_kept(&qp->peer, t.tx, &t.sent);
	while (!t.full && roce_has_output(&qp->roce) && send_next(qp, &t))
		;
	end_turn(qp, &t);
	vrb_peer_note_plain(qp, plain);
	return true;
}

/*
 * Tells of a packet, and sets *packet to the copy where it is to be marked. False: the packet is
 * lost.
 */
static bool tap_packet(struct vrb_qp *qp, const struct net_path *path, const uint8_t **packet,
		       uint32_t len, uint8_t copy[ROCE_MAX_PACKET])
{
	struct tap_packet tap = { .qp = qp, .path = path, .data = *packet, .len = len };

	if (!vrb_tap_out(&tap))
		return false;
	if (tap.mark && len <= ROCE_MAX_PACKET) {
		memcpy(copy, *packet, len);
		roce_set_fecn(copy);
		*packet = copy;
	}
	return true;
}

/* False: there is no room. */
static bool tx_packet(struct vrb_qp *qp, const uint8_t *packet, uint32_t len)
{
	struct local_peer *peer = qp->peer.process;
	bool room = put_packet(local_tx_begin(peer), packet, len);

	local_tx_end(vrb.local, peer, room);
	return room;
}

static bool tx_packet_soon(struct vrb_qp *qp, const uint8_t *packet, uint32_t len)
{
	uint64_t start = clock_now();
	bool room;

	while (!(room = tx_packet(qp, packet, len)) && clock_now() - start < VRB_MSEC &&
	       local_peer_alive(vrb.local, qp->peer.process, clock_now()))
		sched_yield();
	return room;
}

bool vrb_peer_tx_packet(struct vrb_qp *qp, const uint8_t *packet, uint32_t len, uint64_t now)
{
	uint8_t marked[ROCE_MAX_PACKET];

	if (!vrb_peer_lookup(qp, now))
		return false;
	if (tapped() && !tap_packet(qp, NULL, &packet, len, marked))
		return true;
	if (vrb_mirror_enabled(now))
		vrb_mirror_packet(&qp->config.ctx->dev->port, qp->now, &qp->wq.path, packet, len,
				  false);
	if (qp->peer.n_kept || !tx_packet_soon(qp, packet, len))
		keep(qp, packet, len, now);
	return true;
}

static struct ud_dest *ud_dest(struct vrb_qp *qp, uint32_t qpn)
{
	return &qp->peer.ud[(qpn ^ qpn >> 8) % UD_DESTS];
}

static struct local_peer *datagram_peer(struct vrb_qp *qp, uint32_t qpn, uint64_t now)
{
	struct ud_dest *to = ud_dest(qp, qpn);
	bool missed = !to->peer && to->qpn == qpn && to->missed_since;

	if (to->peer && to->qpn == qpn && local_peer_alive(vrb.local, to->peer, now))
		return to->peer;
	if (to->peer)
		local_peer_put(vrb.local, to->peer);
	to->qpn = qpn;
	to->peer = local_peer_get(vrb.local, qpn);
	if (!missed)
		to->missed_since = now;
	return to->peer;
}

/*
 * All members of a multicast group are on this host if there is no wire, or on the loopback
 * interface, which has no IPv6 multicast route.
 */
static bool all_members_local(const struct vrb_qp *qp)
{
	return !vrb.wire || qp->config.ctx->dev->port.loopback;
}

/*
 * Cache of all processes of this host, with references, refreshed when one starts or exits.
 * Unreachable processes are retried. The lock ranks above the backlog's.
 */
static struct {
	struct lock lock;
	uint64_t generation;
	uint64_t again;		/* when to retry; VRB_NEVER: all were reachable */
	unsigned int n;
	struct local_peer *peer[HOST_SLOTS];
} members;

static void put_members(void)
{
	while (members.n)
		local_peer_put(vrb.local, members.peer[--members.n]);
	members.generation = 0;
}

void vrb_peer_members_put(void)
{
	lock_acquire(&members.lock);
	put_members();
	lock_release(&members.lock);
}

void vrb_peer_members_forget(void)
{
	members.n = 0;
	members.generation = 0;
	lock_renew(&members.lock);
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
			members.again = time_after(now, LIMIT_PEER_GROUP_RETRY_MS * VRB_MSEC);
	}
}

/* Calls fn for each live process until it returns true. Returns whether it did. */
static bool any_member(bool (*fn)(struct local_peer *peer, const void *arg), const void *arg,
		       uint64_t now)
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

/* False: it is lost, or may take the wire. */
static bool send_datagram(struct local_peer *peer, const struct lane_packet *datagram)
{
	return vrb_backlog_pass(peer, datagram) || vrb_backlog_add(peer, datagram);
}

static bool send_copy(struct local_peer *peer, const void *arg)
{
	send_datagram(peer, arg);
	return false;
}

static bool is_for_this_host(const struct vrb_qp *qp, const struct net_path *path)
{
	return path && !net_is_multicast(&path->dst) &&
	       vrb_port_find_gid(&qp->config.ctx->dev->port, &path->dst) >= 0;
}

/* Returns the local process addressed by a unicast datagram; NULL: none. */
static struct local_peer *addressee(struct vrb_qp *qp, const struct net_path *path, uint32_t qpn,
				    uint64_t now)
{
	return is_for_this_host(qp, path) ? datagram_peer(qp, qpn, now) : NULL;
}

bool vrb_peer_tx_ud(struct vrb_qp *qp, const struct net_path *path, const uint8_t *packet,
		       uint32_t len, uint64_t now)
{
	bool group = net_is_multicast(&path->dst), sent;
	struct lane_packet datagram = { .path = path, .len = len };
	uint8_t marked[ROCE_MAX_PACKET];
	struct local_peer *peer = NULL;

	if (!group)
		peer = addressee(qp, path, roce_dest_qpn(packet), now);
	sent = group ? all_members_local(qp) : peer != NULL;
	if (unlikely(!sent) && !vrb.wire && is_for_this_host(qp, path))
		vrb_report_no_qp(&path->src, qp->wq.qpn, roce_dest_qpn(packet));
	if (sent && tapped() && !tap_packet(qp, path, &packet, len, marked))
		return true;
	datagram.data = packet;
	/* One to a group goes to all processes: each knows its group members. */
	if (sent && group)
		any_member(send_copy, &datagram, now);
	else if (sent)
		sent = send_datagram(peer, &datagram);
	if (sent && vrb_mirror_enabled(now))
		vrb_mirror_packet(&qp->config.ctx->dev->port, qp->now, path, packet, len, false);
	return sent;
}

static bool lane_full(struct local_peer *peer)
{
	bool full = !lane_tx_room(local_tx_begin(peer), PUT_MAX);

	local_tx_end(vrb.local, peer, false);
	return full;
}

/* 0: it has room for a datagram. */
static uint64_t full_since(struct local_peer *peer, uint64_t now)
{
	bool in_turn = vrb_backlog_send(peer);
	bool room = lane_tx_room(local_tx_begin(peer), PUT_MAX) && in_turn;
	uint64_t since = room ? 0 : peer_full_since(peer, now);

	local_tx_end(vrb.local, peer, false);
	return since;
}

static bool is_moving(struct local_peer *peer, const void *arg)
{
	const uint64_t *now = arg;
	uint64_t since = full_since(peer, *now);

	return since && !is_stuck(since, *now);
}

/* Do all requests go to the same QP as the next one? */
static bool is_alone(const struct send_queue *sq, uint32_t qpn)
{
	for (uint32_t i = sq->next; i != sq->head; i++)
		if (sq_wqe(sq, i)->ud.qpn != qpn)
			return false;
	return true;
}

/*
 * addressee() is NULL. Since when has that been so of a process that exists, and that no wire
 * reaches? It may still have to clear its lane of a dead process that had our slot.
 */
static uint64_t missed_since(struct vrb_qp *qp, const struct send_wqe *w, uint64_t now)
{
	uint64_t since = ud_dest(qp, w->ud.qpn)->missed_since;

	if (vrb.wire || !is_for_this_host(qp, w->ud.path) || is_stuck(since, now) ||
	    host_owner(vrb.host, w->ud.qpn) == HOST_NO_SLOT)
		return 0;
	return since;
}

/*
 * Since when has the lane been full for which the next datagram must wait? 0: it need not. One that
 * is not being emptied must not keep datagrams from other processes: then it waits in the backlog.
 */
static uint64_t waits_since(struct vrb_qp *qp, uint64_t now)
{
	const struct send_queue *sq = &qp->wq.sq;
	const struct send_wqe *w = sq_wqe(sq, sq->next);
	struct local_peer *peer;
	uint64_t since;

	if (w->ud.path && net_is_multicast(&w->ud.path->dst))
		return all_members_local(qp) && any_member(is_moving, &now, now) ? now : 0;
	peer = addressee(qp, w->ud.path, w->ud.qpn, now);
	since = peer ? full_since(peer, now) : missed_since(qp, w, now);
	return since && (!is_stuck(since, now) || is_alone(sq, w->ud.qpn)) ? since : 0;
}

bool vrb_peer_answers_wait(const struct vrb_qp *qp, uint64_t *taken)
{
	const struct vrb_peer *p = &qp->peer;

	if (!p->process || !(p->answers_wait || (p->word_used && lane_full(p->process))))
		return false;
	*taken = lane_tx_tail(local_tx_begin(p->process));
	local_tx_end(vrb.local, p->process, false);
	return true;
}

bool vrb_peer_lane_full(struct vrb_qp *qp, uint64_t now)
{
	const struct send_queue *sq = &qp->wq.sq;
	uint64_t since = 0;

	if (qp->wq.state == IBV_QPS_RTS && sq->next != sq->head)
		since = waits_since(qp, now);
	note_room(&qp->peer, since, !since, now);
	return since;
}
