/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rx/demux.h"

#include <arpa/inet.h>
#include <errno.h>

#include "core/base/context.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/base/xrc_ops.h"
#include "core/device/device.h"
#include "core/device/port.h"
#include "core/local/peer_link.h"
#include "core/local/peer_word.h"
#include "core/local/word_looks.h"
#include "core/mad/gsi.h"
#include "core/qp/error_report.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/xrcd.h"
#include "core/rx/mcast.h"
#include "core/rx/reorder.h"
#include "core/rx/subscriptions.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_sched.h"
#include "host/host.h"
#include "local/lane.h"
#include "local/local.h"
#include "local/message.h"
#include "roce/icrc.h"
#include "roce/message.h"
#include "roce/opcode.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/tuning.h"
#include "wire/relay.h"
#include "wire/wire.h"

enum {
	MIN_PACKET = ROCE_BTH_LEN + ROCE_ICRC_LEN,
	ICRC_ERRORS_TOLD = 4,	/* of one sender; fewer may be damaged packets */
};

/* For an RX queue's stats, which are written only under its lock. */
static void count(uint64_t *counter, uint64_t n)
{
	store_relaxed(counter, load_relaxed(counter) + n);
}

/*
 * A datagram must be addressed to the QP's own port or to a group. deliver_multicast() passes
 * multicast datagrams, whose destination QP is ROCE_QPN_MULTICAST, only to attached QPs.
 */
static bool is_addressed(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	if (net_is_multicast(&pkt->path.dst))
		return pkt->bth.dest_qpn == ROCE_QPN_MULTICAST;
	return vrb_port_find_gid(&qp->config.ctx->dev->port, &pkt->path.dst) >= 0;
}

/* A connected QP accepts packets only from its peer. Must hold qp->lock. */
static bool path_matches(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	const struct net_path *p = &pkt->path;
	const struct wq_qp *wq = &qp->wq;

	if (wq->type == IBV_QPT_UD)
		return is_addressed(qp, pkt);
	if (net_addr_equal(&p->src, &wq->path.dst) && net_addr_equal(&p->dst, &wq->path.src))
		return true;
	return !net_addr_is_zero(&wq->alt_path.dst) &&
	       net_addr_equal(&p->src, &wq->alt_path.dst) &&
	       net_addr_equal(&p->dst, &wq->alt_path.src);
}

/* IBTA Annex A14: an XRC request is checked against the protection domain of the SRQ it names. */
static void run(struct vrb_qp *qp, const struct roce_pkt *pkt, uint64_t now)
{
	if (qp->config.domain)
		qp->wq.pdn = qp->wq.recv_pdn = vrb_xrcd_srq_pdn(qp->config.domain, pkt->xrc_srqn);
	/* What a full lane or an unfinished FLUSH holds back is read later all the same. */
	if (unlikely(roce_responses_pending(&qp->roce)) && roce_must_respond_first(&qp->roce, pkt))
		vrb_transmit(qp, now);
	roce_input(&qp->roce, pkt, now);
}

/*
 * No queue marks packets in a lane, only a rule on faults at either end: so any other congestion
 * notification from a peer on this host is forged. Must hold qp->lock.
 */
static bool is_forged_cnp(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	if (likely(pkt->bth.opcode != ROCE_CNP_NOTIFICATION))
		return false;
	if (qp->wq.type != IBV_QPT_UD)
		return qp->peer.process && !qp->peer.lossy && !tapped_whole();
	return vrb.local && vrb_port_find_gid(&qp->config.ctx->dev->port, &pkt->path.src) >= 0;
}

static void run_reordered(void *arg, const struct roce_pkt *pkt)
{
	struct vrb_qp *qp = arg;

	run(qp, pkt, qp->now);
}

/*
 * A lane preserves order, so a gap there is not a loss, except where one end loses messages on
 * purpose. If only the receiver does, the lost message may have been one to fetch. It comes again
 * as packets, and what followed it with other PSNs (roce_requester_take_back()). In a shared XRC
 * domain, only the packet with the expected PSN decides which process executes the request.
 */
static bool may_reorder(const struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	return !roce_is_whole(pkt) && (!qp->peer.process || qp->peer.lossy) &&
	       !(qp->config.domain && qp->config.domain->has_inode);
}

void vrb_rx_execute(struct vrb_qp *qp, const struct roce_pkt *pkt, struct vrb_rx_queue *r,
		    uint64_t now)
{
	bool out_of_order = unlikely(roce_out_of_order(&qp->roce, pkt));
	uint32_t expected = roce_expected_psn(&qp->roce);

	run(qp, pkt, now);
	if (out_of_order && may_reorder(qp, pkt))
		reorder_insert(&qp->recv.reorder, pkt, now);
	else if (unlikely(qp->recv.reorder != NULL) && roce_expected_psn(&qp->roce) != expected)
		reorder_deliver(qp->recv.reorder, &qp->roce, run_reordered, qp, now);
	vrb_tx_schedule(qp, vrb_tx_urgency(qp), r);
}

/* False: the packet is to be lost. Else *seen, a copy, may be marked. */
static bool tap(struct vrb_qp *qp, const struct rx_decoded *raw, struct roce_pkt *seen)
{
	struct tap_packet p = {
		.qp = qp,
		.path = &raw->pkt->path,
		.data = raw->message ? NULL : raw->data,
		.len = raw->message ? 0 : raw->len - ROCE_ICRC_LEN,
		.pulled = raw->pkt->pull ? raw->pkt->payload_len : 0,
		.pkt = raw->pkt,
		.wire = raw->wire,
	};

	if (!vrb_tap_in(&p))
		return false;
	if (seen)
		seen->bth.fecn |= p.mark;
	return true;
}

/* Packets that wait for earlier ones must see each of these pass (reorder.h). */
static bool may_pass_as_run(const struct vrb_qp *qp, const struct roce_pkt *run)
{
	return !run->more || (!reorder_waits(qp->recv.reorder) && roce_takes_run(&qp->roce, run));
}

static void execute_run(struct vrb_qp *qp, const struct roce_pkt *run, struct vrb_rx_queue *r,
			uint64_t now)
{
	if (likely(may_pass_as_run(qp, run))) {
		vrb_rx_execute(qp, run, r, now);
		return;
	}
	for (uint32_t i = 0; i <= run->more; i++) {
		struct roce_pkt pkt = roce_run_packet(run, i);

		vrb_rx_execute(qp, &pkt, r, now);
	}
}

void vrb_rx_deliver(struct vrb_qp *qp, const struct rx_decoded *raw, struct vrb_rx_queue *r,
		    uint64_t now)
{
	if (unlikely(qp->config.hooks != NULL) && qp->config.hooks->redirect &&
		 qp->config.hooks->redirect(qp, raw, r, now))
		vrb_tx_schedule(qp, TX_NOW, r);
	else
		execute_run(qp, raw->pkt, r, now);
}

/* A packet that is not from the QP's peer, which a QP has from RTR on. */
static __attribute__((cold, noinline)) void count_stray(struct rx_stats *s, const struct vrb_qp *qp)
{
	bool ready = qp->wq.state != IBV_QPS_RESET && qp->wq.state != IBV_QPS_INIT;

	count(ready ? &s->wrong_path : &s->not_ready, 1);
}

/* Must hold qp->lock. */
static void deliver(struct vrb_qp *qp, const struct rx_decoded *raw, struct vrb_rx_queue *r,
		    uint64_t now)
{
	struct roce_pkt seen;
	struct rx_decoded copy;

	qp->now = now;
	if (!path_matches(qp, raw->pkt) || is_forged_cnp(qp, raw->pkt)) {
		count_stray(&r->stats, qp);
		return;
	}
	if (qp->wq.type == IBV_QPT_UD)
		vrb_datagram_received(qp, raw->wire, now);
	if (tapped() && !raw->tapped) {
		seen = *raw->pkt;
		copy = *raw;
		copy.pkt = &seen;
		if (!tap(qp, raw, &seen))
			return;
		raw = &copy;
	}
	vrb_rx_deliver(qp, raw, r, now);
}

static bool is_datagram(const struct roce_pkt *pkt)
{
	return (pkt->bth.opcode & ROCE_SERVICE_MASK) == ROCE_SERVICE_UD;
}

/* Of connected services the peer's requester tells. */
static void drop_unknown(const struct roce_pkt *pkt, const struct net_path *path,
			 struct vrb_rx_queue *r)
{
	count(&r->stats.unknown_qp, 1);
	if (path && is_datagram(pkt))
		vrb_report_no_qp(&path->src, pkt->deth.src_qpn, pkt->bth.dest_qpn);
}

/* No process of this run directory has the QP: another one's may. */
static void relay(const struct roce_pkt *pkt, const uint8_t *data, size_t len,
		  struct vrb_rx_queue *r)
{
	unsigned int number = pkt->bth.dest_qpn >> NET_RELAY_QPN_BITS;
	bool look = is_datagram(pkt);	/* drop_unknown() tells of these only */

	switch (relay_packet(r->wire, number, &pkt->path, data, len, look)) {
	case 0:
		count(&r->stats.handed, 1);
		break;
	case ENOENT:
		drop_unknown(pkt, &pkt->path, r);
		break;
	default:
		count(&r->stats.hand_lost, 1);
	}
}

/* Forwards a packet for a QP that is not in this process, if another process has the QP. */
static void hand_over(const struct roce_pkt *pkt, const uint8_t *data, size_t len,
		      struct vrb_rx_queue *r)
{
	unsigned int tries = load_relaxed(&vrb.leaves) ? LIMIT_INBOX_LAST_TRIES :
							 LIMIT_INBOX_FULL_TRIES;

	switch (host_hand(vrb.host, pkt->bth.dest_qpn, &pkt->path, data, len, tries)) {
	case 0:
		count(&r->stats.handed, 1);
		break;
	case ENOENT:
		relay(pkt, data, len, r);
		break;
	default:
		count(&r->stats.hand_lost, 1);
	}
}

struct multicast {
	const struct rx_decoded *raw;
	struct vrb_rx_queue *r;
	uint64_t now;
};

/*
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB drops datagrams that this process sent from this port. Must
 * hold vrb.poll_lock.
 */
static bool own_echo(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	return (qp->config.init.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) &&
	       vrb_qp_table_find(pkt->deth.src_qpn) &&
	       vrb_port_find_gid(&qp->config.ctx->dev->port, &pkt->path.src) >= 0;
}

static void deliver_copy(struct vrb_qp *qp, void *arg)
{
	const struct multicast *m = arg;

	if (own_echo(qp, m->raw->pkt))
		return;
	lock_acquire(&qp->lock);
	deliver(qp, m->raw, m->r, m->now);
	lock_release(&qp->lock);
}

/*
 * Delivers a copy of a multicast datagram to every attached QP of this process. Other processes
 * receive their own copy.
 */
static void deliver_multicast(const struct rx_decoded *raw, struct vrb_rx_queue *r, uint64_t now)
{
	const struct net_path *path = &raw->pkt->path;
	struct multicast m = { raw, r, now };

	if (net_is_multicast(&path->dst))
		vrb_mcast_for_each(&path->dst, path->ifindex, deliver_copy, &m);
	if (raw->wire)
		vrb_subscriptions_relay(path, raw->data, raw->len, now);
}

/* One that is no matter of the communication manager. */
static bool is_group_mad(const struct roce_pkt *pkt, uint64_t now)
{
	return is_datagram(pkt) &&
	       vrb_subscriptions_mad(&pkt->path, pkt->payload, pkt->payload_len, false, now);
}

/* The kernel drops nearly all damaged packets, by their UDP checksums; NAT corrects these. */
static void tell_of_icrc_errors(struct vrb_rx_queue *r, const struct net_path *path)
{
	char from[INET6_ADDRSTRLEN];

	if (!net_addr_equal(&r->icrc_errors_of, &path->src))
		r->icrc_errors_row = 0;
	r->icrc_errors_of = path->src;
	if (++r->icrc_errors_row == ICRC_ERRORS_TOLD)
		log_once(LOG_CORE, LOG_WARN,
			 "packets from %s, port %u, have a wrong ICRC and are dropped: most likely "
			 "NAT between the hosts changed an address or port, which RoCE forbids",
			 inet_ntop(AF_INET6, path->src.raw, from, sizeof(from)), path->src_port);
}

static bool intact(const struct rx_packet *a, struct vrb_rx_queue *r)
{
	if (a->len < MIN_PACKET || a->len > WIRE_MAX_PACKET) {
		count(&r->stats.malformed, 1);
		return false;
	}
	if (roce_icrc_check_next(&r->front, a->path, a->id_known, a->ip_id, a->data, a->len) ==
	    ROCE_ICRC_BAD &&
	    !roce_icrc_is_soft_flush(a->path, a->id_known, a->ip_id, a->data, a->len)) {
		count(&r->stats.icrc_errors, 1);
		tell_of_icrc_errors(r, a->path);
		return false;
	}
	return true;
}

/*
 * Must the packet be processed under vrb.poll_lock? True for multicast datagrams, MADs, and
 * requests in an XRC domain.
 */
static bool needs_main_queue(const struct roce_pkt *pkt, const struct vrb_qp *qp)
{
	return pkt->bth.dest_qpn == ROCE_QPN_MULTICAST || pkt->bth.dest_qpn == ROCE_QP1 ||
	       (qp && qp->config.domain);
}

static void dispatch(struct vrb_qp *qp, const struct rx_decoded *raw, const struct rx_packet *a,
		     struct vrb_rx_queue *r, uint64_t now)
{
	if (raw->pkt->bth.dest_qpn == ROCE_QPN_MULTICAST) {
		deliver_multicast(raw, r, now);
	} else if (raw->pkt->bth.dest_qpn == ROCE_QP1) {
		if (!is_group_mad(raw->pkt, now) && (!tapped() || tap(NULL, raw, NULL)))
			vrb_gsi_input(raw->pkt, now);
	} else if (qp) {
		lock_acquire(&qp->lock);
		deliver(qp, raw, r, now);
		lock_release(&qp->lock);
	} else if (!a->handed) {
		hand_over(raw->pkt, a->data, a->len, r);
	} else {
		drop_unknown(raw->pkt, &raw->pkt->path, r);
	}
}

/*
 * Adds the packets behind it that form a run with it. One with a wrong ICRC ends the run; it is
 * counted when its turn comes.
 */
static void extend(struct roce_pkt *pkt, const struct rx_packet *a, struct vrb_rx_queue *r)
{
	const uint8_t *next = a->data + a->len;

	for (; pkt->more < a->more && roce_run_continues(pkt, a->data, next); next += a->len) {
		if (roce_icrc_check_next(&r->front, a->path, a->id_known,
					 (uint16_t)(a->ip_id + pkt->more + 1), next,
					 a->len) == ROCE_ICRC_BAD)
			return;
		roce_run_add(pkt, next, a->len);
	}
}

/* Each packet of a run has one place in a recording, and may be redirected alone. */
static bool may_run(const struct vrb_qp *qp)
{
	return qp && !tapped() && !qp->config.hooks;
}

unsigned int vrb_rx_packet(const struct rx_packet *a, struct vrb_rx_queue *r, uint64_t now)
{
	struct roce_pkt pkt;
	const struct rx_decoded raw = { &pkt, a->data, a->len, .wire = true };
	struct vrb_qp *qp;

	count(&r->stats.rcvd_pkts, 1);
	if (!intact(a, r))
		return 1;
	if (roce_decode(&pkt, a->data, a->len) != ROCE_DECODED) {
		count(&r->stats.malformed, 1);
		return 1;
	}
	pkt.path = *a->path;
	r->onesided_pkts += roce_is_one_sided(roce_opcode_info(pkt.bth.opcode));
	qp = vrb_qp_table_find(pkt.bth.dest_qpn);
	if (a->more && may_run(qp)) {
		extend(&pkt, a, r);
		count(&r->stats.rcvd_pkts, pkt.more);
	}
	if (unlikely(qp && r != vrb_rx_queue_of_shard(qp->config.shard) && !a->handed))
		r->missteered++;
	if (likely(r == vrb_main_rx_queue || !needs_main_queue(&pkt, qp))) {
		dispatch(qp, &raw, a, r, now);
		return 1 + pkt.more;
	}
	lock_acquire(&vrb.poll_lock);
	dispatch(qp, &raw, a, vrb_main_rx_queue, now);
	vrb_tx_flush(vrb_main_rx_queue, now);
	lock_release(&vrb.poll_lock);
	return 1 + pkt.more;
}

/*
 * Sets the path of a packet from a lane. A datagram carries its path; any other packet has the path
 * of the connection, or the alternate path once the peer has migrated. False if the sender, the
 * process in this slot, is not the QP's peer. Must hold qp->lock.
 */
static bool fill_path(struct vrb_qp *qp, const struct net_path *path, int32_t slot,
		      struct roce_pkt *pkt)
{
	bool migrated = pkt->bth.mig_req && qp->wq.mig_state == IBV_MIG_ARMED &&
		vrb_peer_migrated(qp);
	const struct net_path *own = migrated ? &qp->wq.alt_path : &qp->wq.path;

	if (path) {
		pkt->path = *path;
		return true;
	}
	pkt->path = *own;
	pkt->path.src = own->dst;
	pkt->path.dst = own->src;
	return vrb_is_peer(qp, slot);
}

static struct roce_piggyback_ack ack_of(uint32_t psn, uint32_t aeth)
{
	return (struct roce_piggyback_ack){
		.any = true,
		.psn = psn & ROCE_PSN_MASK,
		.msn = aeth & ROCE_PSN_MASK,
		.syndrome = aeth >> 24,
	};
}

/*
 * Passes a message that was declined to the engine, as the packet that it replaces. `ack`:
 * accompanies it, or NULL.
 */
static void deliver_as_packet(struct vrb_qp *qp, int32_t slot, const struct message *m,
			      const struct roce_piggyback_ack *ack, bool seen, uint64_t now)
{
	struct roce_pkt pkt;
	const struct rx_decoded raw = { .pkt = &pkt, .message = true, .tapped = seen };

	roce_message_packet(m, &pkt);
	pkt.ack = ack;
	if (fill_path(qp, NULL, slot, &pkt))
		deliver(qp, &raw, vrb_main_rx_queue, now);
}

/* To what only watches. */
static void show_message(struct vrb_qp *qp, int32_t slot, const struct message *m)
{
	struct roce_pkt pkt;
	const struct rx_decoded raw = { .pkt = &pkt, .message = true };

	roce_message_packet(m, &pkt);
	if (fill_path(qp, NULL, slot, &pkt))
		tap(qp, &raw, &pkt);
}

/* A message in a lane. */
struct arrival {
	struct lane_rx *rx;
	const struct lane_head *head;
	int32_t slot;
	bool more;	/* the next message follows at once, and its ACK covers this one */
	bool freed;
};

/*
 * Executes a message. False: it was declined. Observed, its ACK is a packet: of words that follow
 * each other only the last is read. Its completion shows at once, and another thread may answer.
 * The peer reads words once their slots are free, and must find this one before the answer: so the
 * slot is freed first. Must hold qp->lock.
 */
static bool execute_message(struct vrb_qp *qp, const struct message *m, struct arrival *at,
			    uint64_t now)
{
	struct roce_piggyback_ack ack = { .allowed = !tapped() && vrb_word_usable(qp, now) };

	if (unlikely(!roce_message_input(&qp->roce, m, &ack)))
		return false;
	if (unlikely(!ack.any)) {
		vrb_tx_schedule(qp, vrb_tx_urgency(qp), vrb_main_rx_queue);
	} else if (at->more) {
		vrb_word_leave(qp);
	} else {
		vrb_word_publish(qp, &ack, now);
		lane_rx_free(at->rx, at->head);
		at->freed = true;
	}
	roce_message_complete(&qp->roce, m, at->freed);
	return true;
}

/*
 * Completes what an ACK, beside a message or in the peer's word, acknowledges. What waited for it
 * may leave now. Must hold qp->lock.
 */
static void take_ack(struct vrb_qp *qp, const struct roce_piggyback_ack *ack, uint64_t now)
{
	if (unlikely(roce_ack_input(&qp->roce, ack, now)) || unlikely(roce_has_output(&qp->roce)))
		vrb_tx_schedule(qp, vrb_tx_urgency(qp), vrb_main_rx_queue);
}

/* `ack`: comes beside the message, or NULL. Must hold qp->lock. */
static void deliver_message(struct vrb_qp *qp, const struct message *m, struct arrival *at,
			    const struct roce_piggyback_ack *ack, uint64_t now)
{
	bool seen = tapped();

	if (unlikely(tap_interferes() || qp->recv.reorder != NULL)) {
		deliver_as_packet(qp, at->slot, m, ack, false, now);
		return;
	}
	if (seen)
		show_message(qp, at->slot, m);
	qp->now = now;
	if (ack)
		take_ack(qp, ack, now);
	if (likely(execute_message(qp, m, at, now)))
		return;
	if (qp->peer.word_behind)
		vrb_word_retract(qp, now);
	deliver_as_packet(qp, at->slot, m, NULL, seen, now);
}

/* Must hold qp->lock. */
static void take_word(struct vrb_qp *qp, uint64_t now)
{
	struct roce_piggyback_ack ack;

	qp->now = now;
	if (vrb_word_get(qp, &ack))
		take_ack(qp, &ack, now);
}

/* Not inline: most calls of vrb_rx_words() find no word to read. */
static __attribute__((noinline)) unsigned int read_words(struct vrb_qp *qp, uint64_t now)
{
	unsigned int n;

	for (n = 0; qp; n++, qp = vrb_word_next()) {
		lock_acquire(&qp->lock);
		take_word(qp, now);
		lock_release(&qp->lock);
	}
	return n;
}

unsigned int vrb_rx_words(uint64_t now)
{
	struct vrb_qp *qp = vrb_word_next();

	return qp ? read_words(qp, now) : 0;
}

/*
 * What any process of this host executed before another sent this, to `qp` or to NULL, completes
 * before it. Of this QP, the ACK usually lies beside; other QPs must read their words.
 */
static inline void complete_before(const struct vrb_qp *qp, bool acks, uint64_t now)
{
	if (!load_relaxed(&vrb_words_used))
		return;
	if (!acks || !qp || local_others_due(vrb.local, &qp->peer.sender))
		vrb_rx_words(now);
}

void vrb_rx_complete_before(struct vrb_rx_queue *r, uint64_t now)
{
	/* A forked child has inherited the flag, but not vrb.local. */
	if (likely(!load_relaxed(&vrb_words_used)) || !vrb.local)
		return;
	if (r == vrb_main_rx_queue) {
		vrb_rx_words(now);
		return;
	}
	lock_acquire(&vrb.poll_lock);
	if (vrb_rx_words(now))
		vrb_tx_flush(vrb_main_rx_queue, now);
	lock_release(&vrb.poll_lock);
}

static bool receive_message(void *arg, struct lane_rx *rx, int32_t slot,
			    const struct lane_head *head, const uint8_t *data, bool more)
{
	struct arrival at = { .rx = rx, .head = head, .slot = slot, .more = more };
	const uint64_t *now = arg;
	struct rx_stats *stats = &vrb_main_rx_queue->stats;
	bool acks = head->flags & LANE_ACK;
	struct roce_piggyback_ack ack;
	struct message m;
	struct vrb_qp *qp;

	count(&stats->rcvd_pkts, 1);
	if (unlikely(!message_get(&m, data, head->len) || m.len > MESSAGE_LONGEST)) {
		count(&stats->malformed, 1);
		return false;
	}
	qp = vrb_qp_table_find(m.qpn);
	if (unlikely(!qp || qp->wq.type != IBV_QPT_RC)) {
		count(&stats->unknown_qp, 1);
		return false;
	}
	complete_before(qp, acks, *now);
	if (acks) {
		ack = ack_of(head->ack_psn, head->ack_aeth);
		word_looks_replied(&vrb_word_looks);
	}
	lock_acquire(&qp->lock);
	if (likely(vrb_is_peer(qp, slot)))
		deliver_message(qp, &m, &at, acks ? &ack : NULL, *now);
	else
		count(&stats->wrong_path, 1);
	lock_release(&qp->lock);
	return at.freed;
}

static void receive_packet(void *arg, const struct local_pkt *in)
{
	const uint64_t *now = arg;
	struct vrb_rx_queue *r = vrb_main_rx_queue;
	struct roce_piggyback_ack ack;
	struct roce_pkt pkt;
	const struct rx_decoded raw = { &pkt, in->data, in->len };
	struct vrb_qp *qp;

	if (in->xrc) {
		complete_before(NULL, false, *now);
		vrb.xrc->message(in->data, in->len, r, *now);
		return;
	}
	if (in->offer) {
		vrb_peer_split_copy(in);
		return;
	}
	count(&r->stats.rcvd_pkts, 1);
	if (roce_decode(&pkt, in->data, in->len) != ROCE_DECODED) {
		count(&r->stats.malformed, 1);
		return;
	}
	if (pkt.bth.dest_qpn == ROCE_QPN_MULTICAST && in->path) {
		pkt.path = *in->path;
		complete_before(NULL, false, *now);
		deliver_multicast(&raw, r, *now);
		return;
	}
	qp = vrb_qp_table_find(pkt.bth.dest_qpn);
	if (!qp) {
		drop_unknown(&pkt, in->path, r);
		return;
	}
	r->onesided_pkts += roce_is_one_sided(roce_opcode_info(pkt.bth.opcode));
	if (in->pull.num_seg) {
		pkt.pull = &in->pull;
		pkt.payload_len = in->payload;
	}
	complete_before(qp, in->acks, *now);
	if (in->acks) {
		ack = ack_of(in->ack_psn, in->ack_aeth);
		pkt.ack = &ack;
	}
	lock_acquire(&qp->lock);
	qp->peer.lossy = in->lossy;
	pkt.in_order = !in->lossy && !tapped_whole();
	if (fill_path(qp, in->path, in->slot, &pkt)) {
		if (!in->acks && !in->path)
			take_word(qp, *now);	/* what ends the QP flushes nothing executed */
		deliver(qp, &raw, r, *now);
	} else {
		count_stray(&r->stats, qp);
	}
	lock_release(&qp->lock);
}

const struct local_input vrb_rx_local = {
	.packet = receive_packet,
	.message = receive_message,
};
