/* SPDX-License-Identifier: BSD-2-Clause */
/* See request.h. */
#include "roce/request.h"

#include <string.h>

#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/retry.h"
#include "util/compiler.h"
#include "util/tuning.h"

uint32_t roce_read_piece_end(const struct roce_qp *qp, const struct send_wqe *w, uint32_t offset)
{
	uint32_t end = (offset / w->piece + 1) * w->piece;

	return min(end, roce_message_psns(qp, w)) - 1;
}

/*
 * Without credits, does the packet behind the one at req.psn wait for an ACK? The last one of a
 * WRITE with immediate takes the receive.
 */
static bool holds_up_next(const struct roce_qp *qp, const struct send_wqe *w)
{
	if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return psn_next(qp->req.psn) == w->last_psn;
	return roce_is_send(w);
}

static bool may_go_unanswered(struct roce_qp *qp, const struct send_wqe *w, uint32_t psns)
{
	uint32_t in_flight = psn_add(qp->req.psn, psns - qp->comp.una);
	uint32_t window = roce_window_for(qp, w);

	return ++qp->req.since_ack_req < max(window / TUNE_ACKS_PER_WINDOW, 1u) &&
	       in_flight < window &&
	       !(holds_up_next(qp, w) && roce_credits_short(qp, w->ssn));
}

/*
 * Should the packet request an ACK? At the end of a message, when the window is full, when the
 * credits that it needs have run out, and at intervals in a long message so that the window keeps
 * moving.
 */
static bool wants_ack(struct roce_qp *qp, const struct send_wqe *w, bool last, uint32_t psns)
{
	if (!roce_is_reliable(qp))
		return false;
	if (!last && may_go_unanswered(qp, w, psns))
		return false;
	qp->req.since_ack_req = 0;
	return true;
}

/* The RETH of a READ describes the piece; that of any other request, the message. */
static void fill_reth(const struct roce_qp *qp, const struct send_wqe *w, struct roce_pkt *pkt,
		      uint32_t offset)
{
	uint64_t begin = 0, end = w->opcode == IBV_WR_ATOMIC_WRITE ? ROCE_ATOMIC_LEN : w->length;

	if (roce_is_read(w)) {
		uint64_t piece_end = (roce_read_piece_end(qp, w, offset) + 1ull) * qp->wq->mtu;

		begin = (uint64_t)offset * qp->wq->mtu;
		end = min(end, piece_end);
	}
	pkt->reth.va = w->remote_addr + begin;
	pkt->reth.rkey = w->rkey;
	pkt->reth.len = end - begin;
}

static void fill_atomic(const struct send_wqe *w, struct roce_pkt *pkt)
{
	bool cmp_swap = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	pkt->atomic.va = w->remote_addr;
	pkt->atomic.rkey = w->rkey;
	pkt->atomic.swap_add = cmp_swap ? w->atomic.swap : w->atomic.compare_add;
	pkt->atomic.compare = cmp_swap ? w->atomic.compare_add : 0;
}

/*
 * Which ICRC does the peer expect (icrc.h)? If the oldest request goes out again, it may have been
 * the other one.
 */
static void choose_icrc(struct roce_qp *qp)
{
	if (qp->req.psn == qp->comp.una && psn_before(qp->req.psn, qp->req.high))
		qp->comp.soft_flush = !qp->comp.soft_flush;
}

/* Fills in everything but the payload of the packet at req.psn. */
static void fill_headers(struct roce_qp *qp, const struct send_wqe *w, struct roce_pkt *pkt,
			 uint32_t offset)
{
	bool whole = roce_wants_response(w);
	bool last = whole || qp->req.psn == w->last_psn;
	const struct roce_opcode_info *op;

	roce_prepare(qp, pkt, roce_request_opcode(qp->wq->type, w->opcode, whole || !offset, last),
		     qp->req.psn);
	op = roce_opcode_info(pkt->bth.opcode);
	pkt->bth.ack_req = wants_ack(qp, w, last, roce_packet_psns(qp, w, offset));
	pkt->bth.solicited = last && w->flags & IBV_SEND_SOLICITED &&
			     (op->kind == ROCE_KIND_SEND || op->takes_recv);
	pkt->xrc_srqn = w->srqn;
	pkt->imm = w->imm;
	pkt->ieth_rkey = w->imm;
	if (op->kind == ROCE_KIND_FLUSH) {
		pkt->feth.placement = w->flush.placement;
		pkt->feth.selectivity = w->flush.selectivity;
		choose_icrc(qp);
	}
	if (op->kind == ROCE_KIND_ATOMIC)
		fill_atomic(w, pkt);
	else if (roce_has(op, ROCE_HDR_RETH))
		fill_reth(qp, w, pkt, offset);
}

/* Builds headers only; the caller of roce_output() adds the location of the payload. */
static size_t build_pull(struct roce_qp *qp, const struct send_wqe *w, struct roce_pkt *pkt,
			 uint8_t *buf)
{
	enum reason why = roce_sge_check(qp, w, MEM_LOCAL_READ);

	if (why) {
		roce_send_error(qp, why);
		return 0;
	}
	qp->counters.sent_bytes += w->length;
	return roce_put_pad(qp, buf, roce_put_headers(pkt, buf, 0), 0);
}

size_t roce_request_build(struct roce_qp *qp, struct send_wqe *w, uint32_t offset, uint8_t *buf)
{
	uint64_t byte = (uint64_t)offset * qp->wq->mtu;
	uint32_t len = 0;
	enum reason why = REASON_NONE;
	struct roce_pkt pkt;
	size_t hdr;

	fill_headers(qp, w, &pkt, offset);
	qp->out_pull = w->flags & WQE_WHOLE ? w : NULL;
	if (qp->out_pull)
		return build_pull(qp, w, &pkt, buf);
	if (w->opcode == IBV_WR_ATOMIC_WRITE)
		len = ROCE_ATOMIC_LEN;
	else if (!roce_wants_response(w))
		len = min(w->length - byte, (uint64_t)qp->wq->mtu);
	hdr = roce_put_headers(&pkt, buf, len);
	if (w->opcode == IBV_WR_ATOMIC_WRITE)
		memcpy(buf + hdr, &w->atomic_write, len);
	else
		why = roce_gather(qp, w, byte, buf + hdr, len);
	if (why) {
		roce_send_error(qp, why);
		return 0;
	}
	return roce_put_pad(qp, buf, hdr, len);
}
