/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls between the parts of the engine; the diagram is in state.h. */
#ifndef VRB_ROCE_PARTS_H
#define VRB_ROCE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "roce/engine.h"
#include "roce/opcode.h"
#include "util/compiler.h"

/* engine.c */
static inline bool roce_is_reliable(const struct roce_qp *qp)
{
	return qp->wq->type != IBV_QPT_UC && qp->wq->type != IBV_QPT_UD &&
	       qp->wq->type != IBV_QPT_RAW_PACKET;
}

static inline bool roce_runs_requester(const struct roce_qp *qp)
{
	return qp->wq->state == IBV_QPS_RTS || qp->wq->state == IBV_QPS_SQD;
}

/* Starts a packet of this QP: sets opcode, P_Key, MigReq, destination and psn; the rest is zero. */
static inline void roce_prepare(const struct roce_qp *qp, struct roce_pkt *pkt, uint8_t opcode,
				uint32_t psn)
{
	const struct wq_qp *wq = qp->wq;

	memset(pkt, 0, offsetof(struct roce_pkt, path));
	pkt->bth.opcode = opcode;
	pkt->bth.mig_req = wq->mig_state == IBV_MIG_MIGRATED;
	pkt->bth.pkey = wq->pkey;
	pkt->bth.dest_qpn = wq->dest_qpn;
	pkt->bth.psn = psn;
}

/*
 * A packet is built in three steps: the headers for a payload of len bytes; the payload, which the
 * caller writes at the returned offset; the pad. roce_put_pad() returns the length of the packet
 * and counts it as sent.
 */
static inline size_t roce_put_headers(struct roce_pkt *pkt, uint8_t *buf, uint32_t len)
{
	pkt->payload_len = len;
	pkt->bth.pad = -len & 3;
	return roce_encode_headers(buf, pkt);
}

static inline size_t roce_put_pad(struct roce_qp *qp, uint8_t *buf, size_t hdr, uint32_t len)
{
	uint32_t pad = -len & 3;

	memset(buf + hdr + len, 0, pad);
	qp->counters.sent_pkts++;
	qp->counters.sent_bytes += len;
	return hdr + len + pad;
}

/* Reports the reason (wq/note.h). Not for the fast path. */
static inline void roce_note(struct roce_qp *qp, enum note what, uint32_t psn, uint32_t value,
			     enum reason why)
{
	if (qp->wq->ops->note)
		qp->wq->ops->note(qp->wq, &(struct wq_note){ what, psn, value, why });
}

/* The window has changed: reports it once it differs by a quarter from the last report. */
static inline void roce_note_window(struct roce_qp *qp)
{
	uint32_t window = qp->cc.window, noted = qp->cc.noted_window;
	uint32_t off = window > noted ? window - noted : noted - window;

	if (likely(off * 4 < noted))
		return;
	qp->cc.noted_window = window;
	roce_note(qp, NOTE_WINDOW, qp->comp.una, window, REASON_NONE);
}

/* The oldest request of the send queue has succeeded. */
void roce_complete_send(struct roce_qp *qp);

/* qp_lifecycle.c */

/*
 * Fails the QP: the oldest send request completes with status (unless that is a flush); everything
 * else is flushed, including a held receive.
 */
void roce_enter_error(struct roce_qp *qp, enum ibv_wc_status status, enum reason why);

/* Flushes requests that were posted after the QP failed. */
void roce_flush_queues(struct roce_qp *qp, enum ibv_wc_status status, enum reason why);

/* A send request failed locally: fails the QP, or stops the send queue of UC and UD (SQE). */
void roce_send_error(struct roce_qp *qp, enum reason why);

/* SQD: raises SQ_DRAINED once every request that has begun is complete. */
void roce_drained(struct roce_qp *qp);

static inline void roce_check_drained(struct roce_qp *qp)
{
	if (unlikely(qp->wq->state == IBV_QPS_SQD))
		roce_drained(qp);
}

/* migrate.c */

/* The primary path failed: migrates to the alternate one if that is armed. False: it is not. */
bool roce_migrate(struct roce_qp *qp);

void roce_follow_migration(struct roce_qp *qp, const struct roce_pkt *pkt);

/* check.c: the invariants of state.h. */
#ifdef NDEBUG
static inline void roce_check(const struct roce_qp *qp)
{
}
#else
void roce_check(const struct roce_qp *qp);
#endif

/* requester.c */
void roce_requester_start(struct roce_qp *qp);
void roce_requester_seek(struct roce_qp *qp, uint32_t psn); /* una .. high */
void roce_requester_rewind(struct roce_qp *qp);

/*
 * The peer expects the packet at una. If its payload was left for the receiver to pull, that has
 * failed: restarts the request and all later ones as packets, with the PSNs that those need, and
 * returns true.
 */
bool roce_requester_take_back(struct roce_qp *qp);

/* Is the next request a WRITE that completes nothing at the peer? */
bool roce_requester_has_write(const struct roce_qp *qp);

size_t roce_requester_output(struct roce_qp *qp, uint8_t *buf, uint64_t now);

/*
 * Returns the request at sq.next if it may begin now, is a single-packet SEND or WRITE with
 * immediate, and nothing earlier waits for retransmission; else NULL. Assigns only its PSN and
 * sequence number. Call roce_requester_sent_plain() after it has left as a message, which requests
 * an ACK, but takes no room in the window and starts no timer (roce_watch()).
 */
struct send_wqe *roce_requester_plain(struct roce_qp *qp);
void roce_requester_sent_plain(struct roce_qp *qp, struct send_wqe *w);
bool roce_is_local_op(const struct send_wqe *w);

/*
 * selective_retx.c: a NAK requests the oldest packet. Retransmits it alone, or all packets from
 * there on.
 */
void roce_selective_retx_begin(struct roce_qp *qp);

/* Was this packet retransmitted, or will it be anyway? */
bool roce_selective_retx_covers(const struct roce_qp *qp, uint32_t psn);
bool roce_selective_retx_left(struct roce_qp *qp);

static inline bool roce_selective_retx_due(struct roce_qp *qp)
{
	return unlikely(qp->req.retx.next != qp->req.retx.end) && roce_selective_retx_left(qp);
}

size_t roce_selective_retx_output(struct roce_qp *qp, uint8_t *buf, uint64_t now);

/* The oldest packets were acknowledged: decides whether the retransmission was sufficient. */
void roce_selective_retx_judge(struct roce_qp *qp);

static inline void roce_selective_retx_acked(struct roce_qp *qp)
{
	if (unlikely(qp->req.retx.end != qp->req.retx.from))
		roce_selective_retx_judge(qp);
}

/*
 * sge.c: copy the payload of a message from or to its scatter/gather list, starting at byte
 * `offset`.
 */
enum reason roce_gather(struct roce_qp *qp, struct send_wqe *w, uint64_t offset, uint8_t *dst,
			uint32_t len);
enum reason roce_scatter_list(struct roce_qp *qp, const struct ibv_sge *sge, uint32_t num_sge,
			      uint64_t offset, const void *src, uint32_t len,
			      enum mem_access access);

static inline enum reason roce_scatter(struct roce_qp *qp, const struct ibv_sge *sge,
				       uint32_t num_sge, uint64_t offset, const void *src,
				       uint32_t len, enum mem_access access)
{
	if (likely(num_sge == 1 && offset == 0 && len && len <= sge->length))
		return qp->wq->ops->mem_write(qp->wq, sge->lkey, sge->addr, src, len, access);
	return roce_scatter_list(qp, sge, num_sge, offset, src, len, access);
}

/* Copies the i-th packet of a run to the receive of its message, after `received` earlier bytes. */
enum reason roce_deliver(struct roce_qp *qp, const struct recv_wqe *w, uint64_t received,
			 const struct roce_pkt *pkt, uint32_t i);
enum reason roce_sge_check(struct roce_qp *qp, const struct send_wqe *w, enum mem_access access);

/* completer.c */
void roce_completer_input(struct roce_qp *qp, const struct roce_pkt *pkt,
			  const struct roce_opcode_info *op, uint64_t now);

/* roce_takes_run() for a run of READ responses, and of requests. */
bool roce_completer_takes_run(const struct roce_qp *qp, const struct roce_pkt *run);
bool roce_responder_takes_run(const struct roce_qp *qp, const struct roce_pkt *run,
			      const struct roce_opcode_info *op);

/* Executes local operations, and fails a halted request, in queue order. */
void roce_completer_settle(struct roce_qp *qp);

/* Returns the name of a step, for tests: last_step is the step that ended the last packet. */
const char *roce_comp_step_name(unsigned int step);

/* responder.c */
void roce_responder_start(struct roce_qp *qp);
void roce_responder_input(struct roce_qp *qp, const struct roce_pkt *pkt,
			  const struct roce_opcode_info *op, uint64_t now);

/* Sends a NAK for the missing packet at epsn, once per gap. */
void roce_responder_nak_gap(struct roce_qp *qp);

/* Drops the message; its held receive serves the next one. */
void roce_responder_drop_message(struct roce_qp *qp);

/* A message of an unreliable service ended without a completion: counts and reports it. */
void roce_message_dropped(struct roce_qp *qp, enum reason why);
void roce_responder_fault(struct roce_qp *qp, enum reason why); /* see faults.h */

/* Completes the held receive. */
static inline void roce_responder_complete(struct roce_qp *qp, struct wq_cqe *cqe)
{
	struct wq_qp *wq = qp->wq;

	cqe->wr_id = qp->resp.wqe->wr_id;
	cqe->recv = true;
	cqe->release = wq->rq.next;
	cqe->pkey_index = wq->pkey_index;
	qp->resp.wqe = NULL;
	if (cqe->status == IBV_WC_SUCCESS)
		qp->counters.rdma_recvs++;
	wq->ops->complete(wq, cqe);
}

void roce_response_fault(struct roce_qp *qp, enum reason why,
			 uint32_t psn); /* PSN of the answer that the NAK replaces */
const char *roce_resp_step_name(unsigned int step);	/* as roce_comp_step_name() */

/*
 * execute.c: executes the packet, or the packets of a run up to one that fails. Returns REASON_NONE
 * or why it failed; *done: how many were executed.
 */
enum reason roce_execute(struct roce_qp *qp, const struct roce_pkt *pkt,
			 const struct roce_opcode_info *op, uint32_t *done, uint64_t now);

/* response.c */

/* Is the request answered by a response of its own instead of an ACK? */
static inline bool roce_is_answered(const struct roce_opcode_info *op)
{
	return op->kind != ROCE_KIND_SEND && op->kind != ROCE_KIND_WRITE;
}

/* Answers a duplicate request. Returns false if its answer is no longer available. */
bool roce_response_again(struct roce_qp *qp, const struct roce_pkt *pkt,
			 const struct roce_opcode_info *op);
size_t roce_response_output(struct roce_qp *qp, uint8_t *buf, uint64_t now);

/* uc.c */
enum roce_uc_verdict {
	ROCE_UC_ACCEPT,
	ROCE_UC_DROP,
};
enum roce_uc_verdict roce_uc_check_psn(struct roce_qp *qp, const struct roce_pkt *pkt, bool begins);
void roce_uc_sent(struct roce_qp *qp);

/* ud.c */

/* Returns false if Q_Key or length show that the datagram is not for this QP. */
bool roce_ud_input(struct roce_qp *qp, const struct roce_pkt *pkt,
		   const struct roce_opcode_info *op);
size_t roce_ud_output(struct roce_qp *qp, uint8_t *buf);

/* raw.c */
void roce_raw_output(struct roce_qp *qp, uint64_t now);

#endif
