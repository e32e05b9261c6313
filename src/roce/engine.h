/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RoCE engine: turns work requests into packets and packets into completions.
 *
 * It is pure: it never sleeps, allocates, locks, or reads a clock.  The caller owns time, memory
 * and the wire, and holds the QP's lock around every call:
 *
 *	1. roce_input()        passes it one decoded packet addressed to this QP;
 *	2. roce_output()       returns the next packet to send; call it until it returns 0;
 *	3. roce_timeout()      must be called once roce_next_timeout() has passed;
 *	   after 1 and 3, and after posting sends or changing the QP's state, drain it with 2.
 *
 * It reaches memory, receive buffers, completions and events through wq->ops, and reads its
 * configuration from *wq.
 *
 * One struct serves RC, UC, UD, XRC and raw packet QPs; wq->type determines which parts are in use.
 * Parts and their files:
 *
 *	requester.c   send queue -> requests (RC, XRC, UC): the next one, if it may leave
 *	request.c     a request -> its packets
 *	message.c     a request -> a message within the host -> its packet
 *	completer.c   ACK, NAK and responses -> completions
 *	responder.c   request packets: in order, valid, answerable?
 *	execute.c     their effect: memory, receives
 *	response.c    answers and acknowledgements -> packets
 *	acknak.c      pending acknowledgements, credits
 *	retry.c       timeouts, go-back-N, RNR, limits, window
 *	selective_retx.c  retransmission of single packets that are missing
 *	cc.c          congestion window
 *	cc_probe.c    its fairness probe
 *	pace.c        rate limits
 *	dcqcn.c       congestion control of UC and UD, by rate
 *	sentto.h      recent destinations of a UD QP, which may send it CNPs
 *	ipoib.c       segmentation and checksums of IP packets in datagrams
 *	rd_atomic.c   replay of READs and atomics
 *	faults.c      reason -> NAK, status, event, QP action
 *	uc.c ud.c     the unacknowledged services
 *	raw.c         raw packet QPs: their queue; core handles the frames
 *	sge.c         payload between packets and scatter/gather lists
 *	snapshot.c    the responder's state, for another process to continue (XRC)
 *	qp_lifecycle.c  states, draining, the error state
 *	migrate.c     the alternate path
 *	engine.c      the entry points below and dispatch by QP type
 *	pkt.c opcode.def icrc.c psn.h const.h
 *	              packets, their opcodes, ICRC and PSNs, the specification's numbers
 *	reorder.h delayed_ack.h coalesce.h
 *	              decisions of core: packets out of order, ACKs and requests that wait
 *	check.c       the invariants of state.h, asserted
 */
#ifndef VRB_ROCE_ENGINE_H
#define VRB_ROCE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "roce/psn.h"
#include "util/compiler.h"
#include "util/time.h"
#include "wq/qp.h"

/*
 * One resource for an incoming READ or atomic: all that is needed to answer a duplicate.
 * rd_atomic.h explains the terms.
 */
struct roce_rd_atomic {
	uint8_t kind;		/* enum roce_rd_kind; 0 = free */
	bool pending;		/* answers next_psn .. answer_last are to be sent */
	bool fresh;		/* the first answer is not complete yet; implies pending */
	bool held;		/* waits for roce_flushed() */
	uint16_t why;		/* enum reason: send a NAK instead */
	uint32_t first_psn;
	uint32_t last_psn;
	uint64_t end;		/* resp.psns after this request */
	/* first PSN of the answer in progress; a duplicate may begin later */
	uint32_t answer_first;
	uint32_t answer_last;
	uint32_t answer_end;	/* READ: end of the answer, in bytes of the message */
	uint32_t next_psn;	/* next response packet to build */
	uint32_t msn;
	uint32_t rkey;
	uint32_t len;
	/* wq->pdn when it was requested: requests of an XRC QP name SRQs of different PDs */
	uint32_t pdn;
	uint64_t va;
	uint64_t original;	/* atomic: value to return */
};

/*
 * Counters of one QP; the caller adds them up per port under soft RoCE's names. They only increase.
 */
struct roce_counters {
	uint64_t sent_pkts, rcvd_pkts;
	uint64_t sent_bytes, rcvd_bytes;	/* payload */
	uint64_t duplicate_request, out_of_seq_request, rcvd_rnr_err, rcvd_seq_err;
	uint64_t send_rnr_err, send_err, ack_deferred;
	uint64_t retry_exceeded_err, retry_rnr_exceeded_err, completer_retry_err;
	uint64_t retransmitted_pkts, dropped_pkts;
	/* packets that found no receive posted, whatever the result */
	uint64_t out_of_buffer;
	/*
	 * Unreliable services: messages without a receive, with packets missing, and refused;
	 * packets that never arrived.
	 */
	uint64_t unreceived_msgs, broken_msgs, refused_msgs, lost_pkts;
	uint64_t rdma_sends, rdma_recvs;	/* SENDs and receives that succeeded */
	uint64_t ecn_marked, cnp_sent, cnp_rcvd;	/* congestion notification, Annex A17 */
};

/* struct roce_qp; private to the engine. */
#include "roce/state.h"

/* The most READ/atomic resources of a QP: the largest max_dest_rd_atomic. */
#define ROCE_MAX_RD_ATOMIC 128

/*
 * Binds an engine to a QP in RESET. rd_atomic is an array of `slots` entries owned by the caller,
 * with at least max_dest_rd_atomic entries whenever the QP is in RTR or beyond (to replace it in
 * RESET/INIT, call this again); NULL: wq->ops->rd_make() will return it when it is needed. Keeps
 * the counters: the caller zeroes those of a new engine. Keeps what roce_set_ud() set.
 */
void roce_qp_init(struct roce_qp *qp, struct wq_qp *wq, struct roce_rd_atomic *rd_atomic,
		  uint32_t slots);

/* Gives a UD QP what it needs beyond other types: zeroed memory of the caller. */
static inline void roce_set_ud(struct roce_qp *qp, struct roce_ud *ud)
{
	qp->ud = ud;
}

/*
 * Tells the engine that ibv_modify_qp has changed wq->state; call it after storing the
 * configuration of the new state. RESET clears everything (queue indices too), RTR starts the
 * responder, RTS starts the requester (first time) or resumes it (from SQD or SQE), SQD begins a
 * drain, ERR flushes both queues.
 */
void roce_qp_moved(struct roce_qp *qp, enum ibv_qp_state from);

/* Attributes have changed without a state transition (path, timers, access flags, ...). */
void roce_qp_changed(struct roce_qp *qp);

/*
 * The program migrates an armed QP (IBTA vol 1, 17.2.8): makes the alternate path the primary one.
 */
void roce_qp_migrate(struct roce_qp *qp);

/*
 * Processes one packet, or a run for which roce_takes_run() is true. pkt->payload needs to stay
 * valid only during the call.
 */
void roce_input(struct roce_qp *qp, const struct roce_pkt *pkt, uint64_t now);

/*
 * Can the engine process this run as one: are its packets the next ones of the message in progress,
 * and not the last? Otherwise pass them to roce_input() one by one.
 */
bool roce_takes_run(const struct roce_qp *qp, const struct roce_pkt *run);

/*
 * Builds the next packet into buf (cap >= ROCE_MAX_PACKET): headers, payload and pad, without ICRC.
 * *path receives its route (valid until the next call). Returns its length, or 0 if there is
 * nothing to send now. If wq->pull_min is set, roce_output_pull() then returns the request whose
 * payload stays in this process's memory for the receiver to pull, or NULL for a complete packet.
 */
size_t roce_output(struct roce_qp *qp, uint8_t *buf, size_t cap, const struct net_path **path,
		   uint64_t now);

/* For the calls of roce_output() that follow; ROCE_ACK_FIRST in a new engine. */
static inline void roce_set_ack_order(struct roce_qp *qp, enum roce_ack_order order)
{
	qp->ack_order = order;
}

/*
 * As roce_output(), but if ack->allowed, an ACK may accompany a request, in *ack. ack->any tells
 * whether it does.
 */
size_t roce_output_with(struct roce_qp *qp, uint8_t *buf, size_t cap, const struct net_path **path,
			struct roce_piggyback_ack *ack, uint64_t now);

/* For roce_out_of_order(), if the PSN is not the expected one. */
bool roce_fills_gap_later(const struct roce_qp *qp, const struct roce_pkt *pkt);

/*
 * Would the QP accept this request if no earlier one were missing? The peer must resend it unless
 * the caller keeps it and passes it in once roce_expected_psn() has reached it. Nothing proves that
 * the peer has sent it (core/rx/reorder.h).
 */
static inline bool roce_out_of_order(const struct roce_qp *qp, const struct roce_pkt *pkt)
{
	return unlikely(pkt->bth.psn != qp->resp.epsn) &&
	       roce_is_request(roce_opcode_info(pkt->bth.opcode)) && roce_fills_gap_later(qp, pkt);
}

/* The caller keeps packets after another gap: requests the missing ones from the peer. */
void roce_nak_again(struct roce_qp *qp);

static inline uint32_t roce_expected_psn(const struct roce_qp *qp)
{
	return qp->resp.epsn;
}

/* The PSN of the next request that is not a retransmission. */
static inline uint32_t roce_unused_psn(const struct roce_qp *qp)
{
	return qp->req.high;
}

/* Packets sent but not acknowledged. */
static inline uint32_t roce_in_flight(const struct roce_qp *qp)
{
	return psn_distance(qp->comp.una, qp->req.psn);
}

/* The next request leaves at once: the send queue runs, and nothing is to be sent again first. */
static inline bool roce_sends_in_order(const struct roce_qp *qp)
{
	return qp->req.psn == qp->req.high && qp->wq->state == IBV_QPS_RTS && !qp->req.halted &&
	       qp->req.retx.next == qp->req.retx.end && qp->retry.rnr_deadline == VRB_NEVER;
}

/* The oldest PSN in flight; for a READ, its next response. It advances with each answer. */
static inline uint32_t roce_oldest_unacked(const struct roce_qp *qp)
{
	return qp->comp.una;
}

/* Does the peer expect soft RoCE's ICRC of a FLUSH (icrc.h)? */
static inline bool roce_flushes_softly(const struct roce_qp *qp)
{
	return qp->comp.soft_flush;
}

/* Does the QP have, or would it have, more than one packet at a time on its path? */
static inline bool roce_takes_room(const struct roce_qp *qp)
{
	uint32_t n = roce_in_flight(qp);

	return n > 1 || (n && qp->req.index != qp->wq->sq.head);
}

/* The recently measured round trip in ns; 0: unknown. */
static inline uint64_t roce_round_trip(const struct roce_qp *qp)
{
	return qp->cc.rtt;
}

/* The FLUSH with this PSN has ended. Ignored if the QP no longer waits for it. */
void roce_flushed(struct roce_qp *qp, uint32_t psn, enum reason why);

/* Has COMM_EST been raised, by this engine or by another one on its behalf? */
static inline bool roce_is_established(const struct roce_qp *qp)
{
	return qp->resp.established;
}

static inline void roce_set_established(struct roce_qp *qp)
{
	qp->resp.established = true;
}

/* Is a message in progress: has its first packet arrived, but not its last? */
static inline bool roce_in_message(const struct roce_qp *qp)
{
	return qp->resp.msg != ROCE_MSG_NONE;
}

/* Are responses to READs or atomics pending? */
static inline bool roce_responses_pending(const struct roce_qp *qp)
{
	return qp->resp.rd_pending != 0;
}

/*
 * For use while responses are pending. True: call roce_output() until it returns 0, before
 * roce_input() gets this packet.
 */
bool roce_must_respond_first(struct roce_qp *qp, const struct roce_pkt *pkt);

/*
 * Returns true if roce_output() would send nothing, or only a positive ACK, which may be delayed.
 */
static inline bool roce_has_ack_only(const struct roce_qp *qp)
{
	const struct roce_ack *ack = &qp->resp.ack;

	if (qp->wq->state != IBV_QPS_RTR && qp->wq->state != IBV_QPS_RTS)
		return false;
	if (qp->resp.cnp_pending || qp->resp.rd_pending || qp->resp.gap_nak_pending ||
	    qp->req.halted || qp->req.retx.next != qp->req.retx.end ||
	    qp->req.index != qp->wq->sq.head)
		return false;
	return !ack->pending || roce_syndrome_class(ack->syndrome) == ROCE_AETH_ACK;
}

static inline bool roce_has_ack(const struct roce_qp *qp)
{
	return qp->resp.ack.pending;
}

/* Returns false if roce_output() has nothing to send and need not be called. */
static inline bool roce_has_output(const struct roce_qp *qp)
{
	return roce_has_ack(qp) || !roce_has_ack_only(qp);
}

static inline const struct send_wqe *roce_output_pull(const struct roce_qp *qp)
{
	return qp->out_pull;
}

/* Returns when to call roce_timeout(); VRB_NEVER: no timeout is set. */
uint64_t roce_next_timeout(const struct roce_qp *qp);
void roce_timeout(struct roce_qp *qp, uint64_t now);

/*
 * roce_ack_overdue(): has an ack timeout passed? roce_reply_due(): the time of the ack timeout, or
 * of an earlier probe, which resends the oldest packet to see whether it has arrived; VRB_NEVER if
 * nothing is unanswered. roce_defer_timeout() restarts both timers without sending a packet or
 * counting a retry; call it before roce_timeout() if the peer had no chance to answer.
 */
bool roce_ack_overdue(const struct roce_qp *qp, uint64_t now);
uint64_t roce_reply_due(const struct roce_qp *qp);
void roce_defer_timeout(struct roce_qp *qp, uint64_t now);

/* Resends the oldest packet now, without counting a retry. */
void roce_probe(struct roce_qp *qp, uint64_t now);

/*
 * Receives were posted. In ERR they are flushed; in any other state this does nothing, because a
 * peer that got an RNR NAK retries by itself.
 */
void roce_recv_posted(struct roce_qp *qp);

/*
 * Moves the QP to ERR for a cause outside the engine (CQ overrun, path lost). The oldest send
 * request fails with `status`/`why` if status is not IBV_WC_WR_FLUSH_ERR; everything else is
 * flushed.
 */
void roce_qp_fail(struct roce_qp *qp, enum ibv_wc_status status, enum reason why);

/*
 * A frame of a raw packet QP does not fit the receive that core holds for it: completes `cqe` of
 * that receive in error and moves the QP to ERR.
 */
void roce_raw_failed(struct roce_qp *qp, struct wq_cqe *cqe, enum reason why);

/*
 * Count payload and frames that core moves by itself: bytes of one-sided requests in the peer's
 * memory, a raw packet QP's received frames, and its dropped frames; no_recv: because no receive
 * was posted.
 */
static inline void roce_count_onesided(struct roce_qp *qp, uint64_t sent, uint64_t rcvd)
{
	qp->counters.sent_bytes += sent;
	qp->counters.rcvd_bytes += rcvd;
}

static inline void roce_count_raw_rcvd(struct roce_qp *qp, uint64_t bytes)
{
	qp->counters.rcvd_pkts++;
	qp->counters.rcvd_bytes += bytes;
}

static inline void roce_count_raw_dropped(struct roce_qp *qp, bool no_recv)
{
	qp->counters.out_of_buffer += no_recv;
	qp->counters.dropped_pkts++;
}

const struct roce_counters *roce_qp_counters(const struct roce_qp *qp);

#endif
