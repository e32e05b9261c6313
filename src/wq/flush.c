/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends send requests: one by one with success, or all at once with a flush error. Only this file
 * advances sq.done and consumes posted receives without a message.
 */
#include "wq/qp.h"

#include "util/compiler.h"

static const uint8_t wc_opcode[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV,
	[IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
	[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	[IBV_WR_TSO] = IBV_WC_TSO,
	[IBV_WR_FLUSH] = IBV_WC_FLUSH,
	[IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

enum ibv_wc_opcode wq_wc_opcode(uint32_t wr_opcode)
{
	return wr_opcode < ARRAY_SIZE(wc_opcode) ? wc_opcode[wr_opcode] : IBV_WC_SEND;
}

static void raise_send(struct wq_qp *qp, const struct send_wqe *w, enum ibv_wc_status status,
		       enum reason why)
{
	bool imm = w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct wq_cqe cqe = {
		.wr_id = w->wr_id,
		.status = status,
		.opcode = wq_wc_opcode(w->opcode),
		.reason = why,
		.byte_len = status == IBV_WC_SUCCESS ? w->length : 0,
		.wc_flags = status == IBV_WC_SUCCESS && imm ? IBV_WC_WITH_IMM : 0,
		.release = qp->sq.done,
	};

	qp->ops->complete(qp, &cqe);
}

void wq_complete_send(struct wq_qp *qp)
{
	const struct send_wqe *w = sq_wqe(&qp->sq, qp->sq.done);

	qp->sq.done++;
	if (qp->counted)
		qp->ops->count(qp, w, true);
	if (w->flags & WQE_SIGNALED)
		raise_send(qp, w, IBV_WC_SUCCESS, REASON_NONE);
}

void wq_flush_send(struct wq_qp *qp, enum ibv_wc_status first, enum reason why)
{
	while (qp->sq.done != qp->sq.head) {
		const struct send_wqe *w = sq_wqe(&qp->sq, qp->sq.done);

		qp->sq.done++;
		if (qp->counted)
			qp->ops->count(qp, w, false);
		raise_send(qp, w, first, why);
		first = IBV_WC_WR_FLUSH_ERR;
		why = REASON_WR_FLUSHED;
	}
	qp->sq.next = qp->sq.head;
}

void wq_flush_recv(struct wq_qp *qp)
{
	if (qp->has_srq)
		return;
	while (qp->rq.next != qp->rq.head) {
		const struct recv_wqe *w = rq_wqe(&qp->rq, qp->rq.next);
		struct wq_cqe cqe = {
			.wr_id = w->wr_id,
			.status = IBV_WC_WR_FLUSH_ERR,
			.opcode = IBV_WC_RECV,
			.reason = REASON_WR_FLUSHED,
			.release = ++qp->rq.next,
			.recv = true,
		};

		qp->ops->complete(qp, &cqe);
	}
}
