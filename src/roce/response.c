/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's output: the pending answers of READ and atomic resources, oldest first, then the
 * pending ACK or NAK; also its answer to a duplicate request.
 */
#include "roce/acknak.h"
#include "roce/faults.h"
#include "roce/opcode.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/rd_atomic.h"
#include "util/compiler.h"

static uint8_t answer_opcode(const struct roce_qp *qp, const struct roce_rd_atomic *rd)
{
	enum roce_opcode op = ROCE_RC_ATOMIC_ACKNOWLEDGE;

	if (rd->kind != ROCE_RD_ATOMIC)
		op = roce_read_response(rd->next_psn == rd->answer_first,
					rd->next_psn == rd->answer_last);
	return roce_response_opcode(qp->wq->type, op);
}

/*
 * The memory of a repeated answer is no longer registered. The request may be a ghost, which the
 * network delayed or copied long after its answer, so it must not end the connection. The NAK fails
 * a requester that still waits; any other discards it.
 */
static void replay_fault(struct roce_qp *qp, struct roce_rd_atomic *rd, enum reason why)
{
	uint32_t psn = rd->next_psn;

	rd->next_psn = rd->answer_last;
	roce_rd_advance(qp, rd);
	qp->counters.dropped_pkts++;
	if (!qp->resp.ack.pending)
		roce_nak_pend(qp, roce_syndrome(ROCE_AETH_NAK, roce_fault(why)->nak), psn);
}

/*
 * Builds the next answer of a resource. If its memory is no longer registered, sends a NAK instead
 * and returns 0.
 */
static size_t answer(struct roce_qp *qp, struct roce_rd_atomic *rd, uint8_t *buf)
{
	uint64_t skip = (uint64_t)psn_distance(rd->first_psn, rd->next_psn) * qp->wq->mtu;
	uint32_t len = min(rd->answer_end - skip, (uint64_t)qp->wq->mtu);
	enum reason why = rd->why;
	struct roce_pkt pkt;
	size_t hdr;

	roce_prepare(qp, &pkt, answer_opcode(qp, rd), rd->next_psn);
	pkt.aeth.syndrome = roce_ack_syndrome(qp);
	pkt.aeth.msn = rd->msn;
	pkt.atomic_ack = rd->original;
	hdr = roce_put_headers(&pkt, buf, len);
	qp->wq->pdn = rd->pdn;
	if (len)
		why = qp->wq->ops->mem_read(qp->wq, rd->rkey, rd->va + skip, buf + hdr, len,
					    MEM_REMOTE_READ);
	if (why) {
		uint32_t psn = rd->next_psn;

		if (!rd->fresh) {
			replay_fault(qp, rd, why);
			return 0;
		}
		roce_rd_reset(qp);
		roce_response_fault(qp, why, psn);
		return 0;
	}
	roce_ack_implied(qp, rd->next_psn);
	roce_rd_advance(qp, rd);
	return roce_put_pad(qp, buf, hdr, len);
}

static size_t ack(struct roce_qp *qp, uint8_t *buf)
{
	struct roce_pkt pkt;

	roce_ack_take(qp, &pkt);
	return roce_put_pad(qp, buf, roce_put_headers(&pkt, buf, 0), 0);
}

void roce_flushed(struct roce_qp *qp, uint32_t psn, enum reason why)
{
	struct roce_rd_atomic *rd = roce_rd_find(qp, psn);

	if (!rd || !rd->held)
		return;
	rd->held = false;
	rd->why = why;
}

static bool may_answer(struct roce_qp *qp, uint64_t now)
{
	return qp->dying || qp->resp.rd_first || roce_pace_answer_allows(qp, now);
}

size_t roce_response_output(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	struct roce_rd_atomic *rd;

	while ((rd = roce_rd_due(qp)) != NULL) {
		size_t len;

		/* A pending ACK has a newer PSN, so it waits, too. */
		if (rd->held || !may_answer(qp, now))
			return 0;
		len = answer(qp, rd, buf);
		if (len) {
			roce_pace_answered(qp, now);
			return len;
		}
	}
	return roce_ack_due(qp) ? ack(qp, buf) : 0;
}

/*
 * Does it repeat a READ, or the rest of one, with the same key and the same bytes at the same PSNs?
 */
static bool repeats_read(const struct roce_qp *qp, const struct roce_rd_atomic *rd,
			 const struct roce_pkt *pkt)
{
	uint64_t skip = (uint64_t)psn_distance(rd->first_psn, pkt->bth.psn) * qp->wq->mtu;

	return rd->kind == ROCE_RD_READ && pkt->reth.rkey == rd->rkey &&
	       pkt->reth.va == rd->va + skip && skip + pkt->reth.len <= rd->len &&
	       (pkt->reth.len || !rd->len);
}

/*
 * IBTA vol 1, 9.7.5: duplicate SENDs and WRITEs are acknowledged with the newest PSN and not
 * executed; READs and atomics are answered from their resource, or dropped if they no longer have
 * one.
 *
 * "Newest PSN" means that of a SEND or WRITE: a later READ or atomic is acknowledged only by its
 * own answer. Soft RoCE takes an ACK of its PSN for the answer, and completes with the old contents
 * of its memory.
 */
bool roce_response_again(struct roce_qp *qp, const struct roce_pkt *pkt,
			 const struct roce_opcode_info *op)
{
	static const uint8_t kinds[] = {
		[ROCE_KIND_ATOMIC] = ROCE_RD_ATOMIC,
		[ROCE_KIND_FLUSH] = ROCE_RD_EMPTY,
		[ROCE_KIND_ATOMIC_WRITE] = ROCE_RD_EMPTY,
	};
	struct roce_rd_atomic *rd;

	if (!roce_is_answered(op)) {
		roce_ack_pend(qp, qp->resp.ack_psn);
		return true;
	}
	rd = roce_rd_find(qp, pkt->bth.psn);
	if (!rd)
		return false;
	if (op->kind == ROCE_KIND_READ ? !repeats_read(qp, rd, pkt) : rd->kind != kinds[op->kind])
		return false;
	if (op->kind == ROCE_KIND_READ) {
		if (!roce_rd_to_come(rd, pkt->bth.psn))
			roce_pace_spread_answers(qp, true);
		roce_rd_replay(qp, rd, pkt->bth.psn, psn_packets(pkt->reth.len, qp->wq->mtu),
			       pkt->reth.va - rd->va + pkt->reth.len);
	} else {
		roce_rd_replay(qp, rd, pkt->bth.psn, 1, 0);
	}
	return true;
}
