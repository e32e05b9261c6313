/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls between the parts of the engine; the diagram is in state.h. */
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

/* Starts a packet of this QP: opcode, P_Key, MigReq, destination, psn; the rest zero. */
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
 * A packet is put into a buffer in three steps: headers for a payload of len bytes, the payload by
 * the caller at the returned offset, then the pad.  roce_put_pad() returns the length of the packet
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

/* The oldest request of the send queue has succeeded. */
void roce_complete_send(struct roce_qp *qp);

/* qp_lifecycle.c */

/*
 * The QP fails: the oldest send request gets status (unless that is a flush), everything else is
 * flushed, a receive held included.
 */
void roce_enter_error(struct roce_qp *qp, enum ibv_wc_status status, enum reason why);

/* Flushes what was posted to a failed QP since. */
void roce_flush_queues(struct roce_qp *qp, enum ibv_wc_status status, enum reason why);

/* A send request failed locally: the QP fails, or for UC and UD its send queue stops (SQE). */
void roce_send_error(struct roce_qp *qp, enum reason why);

/* SQD: raises SQ_DRAINED once everything begun is done. */
void roce_drained(struct roce_qp *qp);

static inline void roce_check_drained(struct roce_qp *qp)
{
	if (unlikely(qp->wq->state == IBV_QPS_SQD))
		roce_drained(qp);
}

/* migrate.c */

/*
 * The primary path failed: moves to the alternate one if that is armed. False: it is not.
 */
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
 * The peer awaits the packet at una.  If its payload was to be pulled, that has failed: the request
 * and all later ones begin again, as packets and with the PSNs that those need.  False: it was not.
 */
bool roce_requester_take_back(struct roce_qp *qp);

size_t roce_requester_output(struct roce_qp *qp, uint8_t *buf, uint64_t now);

/*
 * The request at sq.next if it may begin now, is a SEND of one packet, and nothing before it is to
 * be retransmitted; NULL otherwise. It gets its PSN and sequence number only. Call
 * roce_requester_sent_plain() when it has left as a message, which requests an ACK.
 */
struct send_wqe *roce_requester_plain(struct roce_qp *qp, uint64_t now);
void roce_requester_sent_plain(struct roce_qp *qp, struct send_wqe *w, uint64_t now);
bool roce_is_local_op(const struct send_wqe *w);

/* Would the next request access the peer's memory directly, without a packet? */
bool roce_requester_runs_direct(const struct roce_qp *qp);

/*
 * selective_retx.c: a NAK requests the oldest packet.  It is retransmitted alone, or all packets
 * from there on are.
 */
void roce_selective_retx_begin(struct roce_qp *qp);

/* Will this packet be retransmitted anyway, or has it been? */
bool roce_selective_retx_covers(const struct roce_qp *qp, uint32_t psn);
bool roce_selective_retx_left(struct roce_qp *qp);

static inline bool roce_selective_retx_due(struct roce_qp *qp)
{
	return unlikely(qp->req.retx.next != qp->req.retx.end) && roce_selective_retx_left(qp);
}

size_t roce_selective_retx_output(struct roce_qp *qp, uint8_t *buf, uint64_t now);

/* The oldest packets were acknowledged: decides whether the repair was enough. */
void roce_selective_retx_judge(struct roce_qp *qp);

static inline void roce_selective_retx_acked(struct roce_qp *qp)
{
	if (unlikely(qp->req.retx.end != qp->req.retx.from))
		roce_selective_retx_judge(qp);
}

/* sge.c: payload of a message from or to its scatter/gather list, beginning at byte `offset`. */
enum reason roce_gather(struct roce_qp *qp, struct send_wqe *w, uint64_t offset, uint8_t *dst,
			uint32_t len);
enum reason roce_scatter(struct roce_qp *qp, const struct ibv_sge *sge, uint32_t num_sge,
			 uint64_t offset, const void *src, uint32_t len, enum mem_access access);

/* Copies a packet to the receive of its message, of which `received` bytes came before. */
enum reason roce_deliver(struct roce_qp *qp, const struct recv_wqe *w, uint64_t received,
			 const struct roce_pkt *pkt);
enum reason roce_sge_check(struct roce_qp *qp, const struct send_wqe *w, enum mem_access access);

/* completer.c */
void roce_completer_input(struct roce_qp *qp, const struct roce_pkt *pkt,
			  const struct roce_opcode_info *op, uint64_t now);

/* Executes local operations, and fails a halted request, in their turn. */
void roce_completer_settle(struct roce_qp *qp);

/* The name of a step, for tests: last_step says how far the last packet came. */
const char *roce_comp_step_name(unsigned int step);

/* responder.c */
void roce_responder_start(struct roce_qp *qp);
void roce_responder_input(struct roce_qp *qp, const struct roce_pkt *pkt,
			  const struct roce_opcode_info *op, uint64_t now);

/* Sends a NAK for the missing packet at epsn, once per gap. */
void roce_responder_nak_gap(struct roce_qp *qp);

/* The receive held serves the next message. */
void roce_responder_drop_message(struct roce_qp *qp);

/* A message of an unreliable service ends without a completion: counted and reported. */
void roce_message_dropped(struct roce_qp *qp, enum reason why);
void roce_responder_fault(struct roce_qp *qp, enum reason why); /* see faults.h */
void roce_responder_complete(struct roce_qp *qp, struct wq_cqe *cqe);
void roce_response_fault(struct roce_qp *qp, enum reason why,
			 uint32_t psn); /* in place of the answer with that PSN */
const char *roce_resp_step_name(unsigned int step);	/* as roce_comp_step_name() */

/* execute.c: the packet takes effect.  Returns why it could not, or REASON_NONE. */
enum reason roce_execute(struct roce_qp *qp, const struct roce_pkt *pkt,
			 const struct roce_opcode_info *op, uint64_t now);

/* response.c */

/* Is it answered by a response of its own instead of an ACK? */
static inline bool roce_is_answered(const struct roce_opcode_info *op)
{
	return op->kind != ROCE_KIND_SEND && op->kind != ROCE_KIND_WRITE;
}

/* Answers a duplicate request.  False: it has no answer any more. */
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

/* False: Q_Key or length show that it is not for this QP. */
bool roce_ud_input(struct roce_qp *qp, const struct roce_pkt *pkt,
		   const struct roce_opcode_info *op);
size_t roce_ud_output(struct roce_qp *qp, uint8_t *buf);

/* raw.c */
void roce_raw_output(struct roce_qp *qp, uint64_t now);

#endif
