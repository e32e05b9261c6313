/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RoCE engine: turns work requests into packets and packets into completions.
 *
 * It is pure: it never sleeps, allocates, locks, or reads a clock.  The caller owns time, memory
 * and the wire, and holds the QP's lock around every call:
 *
 *	1. roce_input()        gives it one decoded packet that was addressed to this QP;
 *	2. roce_output()       asks it for one packet, until it returns 0;
 *	3. roce_timeout()      is called when roce_next_timeout() has passed;
 *	   after 1 and 3, and after posting sends or moving the QP's state, drain it with 2.
 *
 * It reaches memory, receive buffers, completions and events through wq->ops, and reads its
 * configuration from *wq.
 *
 * One struct serves RC, UC, UD, XRC and raw packet QPs; which parts are in use follows from
 * wq->type.  Parts and their files:
 *
 *	requester.c   send queue -> requests (RC, XRC, UC): which is next, and may it leave?
 *	request.c     a request -> its packets
 *	message.c     a request -> a message within the host, and that -> its packet
 *	completer.c   ACK, NAK and responses -> completions
 *	responder.c   request packets: in order, valid, answerable?
 *	execute.c     their effect: memory, receives
 *	response.c    answers and acknowledgements -> packets
 *	acknak.c      pending acknowledgements, credits
 *	retry.c       timeouts, go-back-N, RNR, limits, window
 *	cc.c          the window that follows the path
 *	pace.c        rate limits
 *	dcqcn.c       the rate of UC and UD that follows the path
 *	sentto.h      whose notifications a UD QP accepts
 *	ipoib.c       segmentation and checksums of IP packets in datagrams
 *	rd_atomic.c   replay of READs and atomics
 *	faults.c      reason -> NAK, status, event, QP action
 *	uc.c ud.c     the unacknowledged services
 *	raw.c         raw packet QPs: their queue; the frames are core's
 *	sge.c         payload between packets and scatter/gather lists
 *	snapshot.c    the responder's state, for another process to continue with (XRC)
 *	qp_lifecycle.c  states, draining, the error state
 *	migrate.c     the alternate path
 *	engine.c      the entry points below and dispatch by QP type
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
 * One resource for an incoming READ or atomic: what must be kept to answer a duplicate. Members in
 * rd_atomic.h's terms.
 */
struct roce_rd_atomic {
	uint8_t kind;		/* enum roce_rd_kind; 0 = free */
	bool owed;		/* answers are still to be sent, next_psn .. answer_last */
	bool fresh;		/* the first answer is not complete yet */
	bool held;		/* it waits for roce_flushed() */
	uint16_t why;		/* enum reason: a NAK is sent instead */
	uint32_t first_psn;
	uint32_t last_psn;
	uint64_t end;		/* the responder's psns after it */
	uint32_t answer_first;	/* of the answer in progress; a duplicate may begin later */
	uint32_t answer_last;
	uint32_t answer_end;	/* READ: byte of the message where it ends */
	uint32_t next_psn;	/* next response packet to build */
	uint32_t msn;
	uint32_t rkey;
	uint32_t len;
	uint64_t va;
	uint64_t original;	/* atomic: value to return */
};

/* Counters of one QP; the caller adds them up per port under soft RoCE's names. Only grow. */
struct roce_counters {
	uint64_t sent_pkts, rcvd_pkts;
	uint64_t sent_bytes, rcvd_bytes;	/* payload */
	uint64_t duplicate_request, out_of_seq_request, rcvd_rnr_err, rcvd_seq_err;
	uint64_t send_rnr_err, send_err, ack_deferred;
	uint64_t retry_exceeded_err, retry_rnr_exceeded_err, completer_retry_err;
	uint64_t retransmitted_pkts, dropped_pkts;
	/* packets that found no receive posted, with whatever result */
	uint64_t out_of_buffer;
	uint64_t bad_pkey, bad_qkey;		/* of the dropped ones */
	/* Unreliable: messages without a receive, with packets missing, and refused; packets that
	 * never came. */
	uint64_t unreceived_msgs, broken_msgs, refused_msgs, lost_pkts;
	uint64_t rdma_sends, rdma_recvs;	/* SENDs and receives that succeeded */
	uint64_t ecn_marked, cnp_sent, cnp_rcvd;	/* Annex A17 congestion notification */
};

/* struct roce_qp; only the engine looks inside. */
#include "roce/state.h"

/* The most READ/atomic resources a QP can have, and so the largest max_dest_rd_atomic. */
#define ROCE_MAX_RD_ATOMIC 128

/*
 * Binds an engine to a QP in RESET.  rd_atomic is an array of `slots` entries owned by the caller,
 * at least max_dest_rd_atomic long whenever the QP is in RTR or beyond (it may be replaced in
 * RESET/INIT by calling this again).  Counters stay: the caller zeroes those of a new engine.
 */
void roce_qp_init(struct roce_qp *qp, struct wq_qp *wq, struct roce_rd_atomic *rd_atomic,
		  uint32_t slots);

/*
 * Tells the engine that wq->state was moved by ibv_modify_qp, after the configuration of the new
 * state was stored: RESET forgets everything (queue indices too), RTR starts the responder, RTS the
 * requester (first time) or resumes it (from SQD or SQE), SQD begins a drain, ERR flushes both
 * queues.
 */
void roce_qp_moved(struct roce_qp *qp, enum ibv_qp_state from, uint64_t now);

/* Attributes were changed without leaving the state (path, timers, access flags ...). */
void roce_qp_changed(struct roce_qp *qp, uint64_t now);

/* The program migrates an armed QP (IBTA vol 1, 17.2.8): the alternate path becomes the primary. */
void roce_qp_migrate(struct roce_qp *qp);

/* Processes one packet. pkt->payload needs to stay valid only during the call. */
void roce_input(struct roce_qp *qp, const struct roce_pkt *pkt, uint64_t now);

/*
 * Builds the next packet into buf (cap >= ROCE_MAX_PACKET): headers, payload and pad, without ICRC;
 * *path says where it goes (valid until the next call).  Returns its length, 0 when there is
 * nothing to send now.  roce_output_pull() then names the request whose payload is left to be
 * pulled, NULL for a packet that is whole; only if wq->pull_min is set.
 */
size_t roce_output(struct roce_qp *qp, uint8_t *buf, size_t cap, const struct net_path **path,
		   uint64_t now);

/*
 * The same; an ACK may leave beside a request, in *ack, if ack->allowed.  ack->any says whether it
 * did.
 */
size_t roce_output_with(struct roce_qp *qp, uint8_t *buf, size_t cap, const struct net_path **path,
			struct roce_piggyback_ack *ack, uint64_t now);

/* For roce_out_of_order(), if the PSN is not the expected one. */
bool roce_fills_gap_later(const struct roce_qp *qp, const struct roce_pkt *pkt);

/*
 * Would the QP accept this request if no earlier one were missing? The peer must send it again,
 * unless the caller keeps it and passes it in when roce_expected_psn() has reached it.  Nothing
 * proves that the peer has sent it (core/rx/reorder.h).
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

/* Packets sent and not acknowledged. */
static inline uint32_t roce_in_flight(const struct roce_qp *qp)
{
	return psn_add(qp->req.psn, 0 - qp->comp.una);
}

/* The oldest of them; of a READ, its next response. It advances with each answer. */
static inline uint32_t roce_oldest_unacked(const struct roce_qp *qp)
{
	return qp->comp.una;
}

/* Does it have, or would it have, more than one packet at a time on its path? */
static inline bool roce_takes_room(const struct roce_qp *qp)
{
	uint32_t n = roce_in_flight(qp);

	return n > 1 || (n && qp->req.index != qp->wq->sq.head);
}

/* Measured recently; 0: not known. */
static inline uint64_t roce_round_trip(const struct roce_qp *qp)
{
	return qp->cc.rtt;
}

/* The FLUSH with this PSN has ended; ignored if the QP no longer waits for it. */
void roce_flushed(struct roce_qp *qp, uint32_t psn, enum reason why);

/* Has COMM_EST been raised, by this engine or by another one for it? */
static inline bool roce_is_established(const struct roce_qp *qp)
{
	return qp->resp.established;
}

static inline void roce_set_established(struct roce_qp *qp)
{
	qp->resp.established = true;
}

/* Is a message in progress: its first packet has come, its last has not? */
static inline bool roce_in_message(const struct roce_qp *qp)
{
	return qp->resp.msg != ROCE_MSG_NONE;
}

/* Are responses to READs or atomics still to be sent? */
static inline bool roce_owes_responses(const struct roce_qp *qp)
{
	return qp->resp.rd_owed != 0;
}

/* True if roce_output() would send nothing, or only a positive ACK, which may be delayed. */
static inline bool roce_owes_ack_only(const struct roce_qp *qp)
{
	const struct roce_ack *ack = &qp->resp.ack;

	if (qp->wq->state != IBV_QPS_RTR && qp->wq->state != IBV_QPS_RTS)
		return false;
	if (qp->resp.cnp_owed || qp->resp.rd_owed || qp->resp.gap_owed || qp->req.halted ||
	    qp->req.retx.next != qp->req.retx.end ||
	    qp->req.index != qp->wq->sq.head)
		return false;
	return !ack->pending || roce_syndrome_class(ack->syndrome) == ROCE_AETH_ACK;
}

static inline bool roce_owes_ack(const struct roce_qp *qp)
{
	return qp->resp.ack.pending;
}

/* False: roce_output() has nothing to send, and need not be called. */
static inline bool roce_has_output(const struct roce_qp *qp)
{
	return roce_owes_ack(qp) || !roce_owes_ack_only(qp);
}

static inline const struct send_wqe *roce_output_pull(const struct roce_qp *qp)
{
	return qp->out_pull;
}

/* When to call roce_timeout(); VRB_NEVER: not needed. */
uint64_t roce_next_timeout(const struct roce_qp *qp);
void roce_timeout(struct roce_qp *qp, uint64_t now);

/*
 * roce_ack_overdue(): has an ack timeout passed?  roce_reply_due(): the time of the ack timeout, or
 * the earlier one of the next probe, which sends the oldest packet once more to see whether it has
 * arrived; VRB_NEVER if nothing is unanswered.  roce_defer_timeout() restarts both timers without a
 * packet and without counting a retry; a caller that knows that the peer had no chance to answer
 * calls it before roce_timeout().
 */
bool roce_ack_overdue(const struct roce_qp *qp, uint64_t now);
uint64_t roce_reply_due(const struct roce_qp *qp);
void roce_defer_timeout(struct roce_qp *qp, uint64_t now);

/*
 * An outside event lets the QP continue (a receive was posted while an RNR was pending, a credit
 * appeared): checks again.
 */
void roce_recv_posted(struct roce_qp *qp);

/*
 * Moves the QP to ERR for a cause found outside the engine (CQ overrun, path lost): the oldest send
 * request fails with `status`/`why` if status is not IBV_WC_WR_FLUSH_ERR, everything else is
 * flushed.
 */
void roce_qp_fail(struct roce_qp *qp, enum ibv_wc_status status, enum reason why);

/*
 * A raw packet QP's frame does not fit the receive that core holds for it: `cqe` of it is completed
 * in error, and the QP goes to ERR.
 */
void roce_raw_failed(struct roce_qp *qp, struct wq_cqe *cqe, enum reason why);

/*
 * Counts payload and frames that core moves by itself: bytes of one-sided requests in the peer's
 * memory, a raw packet QP's received frames, and those dropped; no_recv: because no receive was
 * posted.
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
