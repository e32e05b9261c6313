/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes a request packet that the responder has accepted: copies the payload into its receive or
 * into memory, executes an atomic, or takes a resource from which a READ is answered.
 */
#include <string.h>

#include "roce/opcode.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/rd_atomic.h"

static enum reason execute_send(struct roce_qp *qp, const struct roce_pkt *pkt,
				const struct roce_opcode_info *op, uint32_t *done)
{
	struct roce_resp *resp = &qp->resp;
	enum reason why = REASON_NONE;

	if (roce_starts(op)) {
		resp->received = 0;
		resp->packet = pkt->payload_len;
	}
	resp->msg = ROCE_MSG_SEND;
	for (; *done <= pkt->more && !why; *done += !why)
		why = roce_deliver(qp, resp->wqe, resp->received + *done * pkt->payload_len, pkt,
				   *done);
	return why;
}

static enum reason execute_write(struct roce_qp *qp, const struct roce_pkt *pkt,
				 const struct roce_opcode_info *op, uint32_t *done)
{
	struct roce_resp *resp = &qp->resp;
	struct wq_qp *wq = qp->wq;
	uint32_t len = pkt->payload_len;
	enum reason why = REASON_NONE;

	if (roce_starts(op)) {
		resp->received = 0;
		resp->packet = pkt->payload_len;
		resp->va = pkt->reth.va;
		resp->rkey = pkt->reth.rkey;
		resp->resid = pkt->reth.len;
	}
	resp->msg = ROCE_MSG_WRITE;
	for (; *done <= pkt->more; ++*done) {
		if (pkt->pull)
			why = wq->ops->pull(wq, pkt->pull, 0, len,
					    &(struct ibv_sge){ resp->va, len, resp->rkey }, 1,
					    MEM_REMOTE_WRITE);
		else if (len)
			why = wq->ops->mem_write(wq, resp->rkey, resp->va,
						 roce_run_payload(pkt, *done), len,
						 MEM_REMOTE_WRITE);
		if (why)
			return why;
		resp->va += len;
		resp->resid -= len;
	}
	return REASON_NONE;
}

static enum reason execute_atomic(struct roce_qp *qp, const struct roce_pkt *pkt,
				  uint64_t *original)
{
	struct wq_qp *wq = qp->wq;
	bool cmp_swap = pkt->bth.opcode == ROCE_RC_COMPARE_SWAP ||
			pkt->bth.opcode == ROCE_XRC_COMPARE_SWAP;

	return wq->ops->mem_atomic(wq, pkt->atomic.rkey, pkt->atomic.va,
				   cmp_swap ? ATOMIC_OP_CMP_SWAP : ATOMIC_OP_FETCH_ADD,
				   cmp_swap ? pkt->atomic.compare : pkt->atomic.swap_add,
				   cmp_swap ? pkt->atomic.swap_add : 0, original);
}

static enum reason execute_a19(struct roce_qp *qp, const struct roce_pkt *pkt,
			       const struct roce_opcode_info *op, bool *later)
{
	struct wq_qp *wq = qp->wq;
	uint64_t value;

	if (op->kind == ROCE_KIND_FLUSH)
		return wq->ops->mem_flush(wq, pkt->reth.rkey, pkt->reth.va, pkt->reth.len,
					  pkt->feth.placement, pkt->feth.selectivity, later);
	memcpy(&value, pkt->payload, sizeof(value));
	return wq->ops->mem_atomic_write(wq, pkt->reth.rkey, pkt->reth.va, value);
}

/*
 * READ, atomic, FLUSH and ATOMIC WRITE: executed now, except that a READ's data is read when its
 * answer is built.
 */
static enum reason execute_answered(struct roce_qp *qp, const struct roce_pkt *pkt,
				    const struct roce_opcode_info *op, uint32_t *done,
				    uint64_t now)
{
	static const uint8_t kinds[] = {
		[ROCE_KIND_READ] = ROCE_RD_READ,
		[ROCE_KIND_ATOMIC] = ROCE_RD_ATOMIC,
		[ROCE_KIND_FLUSH] = ROCE_RD_EMPTY,
		[ROCE_KIND_ATOMIC_WRITE] = ROCE_RD_EMPTY,
	};
	struct roce_resp *resp = &qp->resp;
	uint32_t packets = 1;
	uint64_t original = 0;
	enum reason why = REASON_NONE;
	struct roce_rd_atomic *rd;
	bool later = false;

	if (op->kind == ROCE_KIND_READ)
		packets = psn_packets(pkt->reth.len, qp->wq->mtu);
	else if (op->kind == ROCE_KIND_ATOMIC)
		why = execute_atomic(qp, pkt, &original);
	else
		why = execute_a19(qp, pkt, op, &later);
	if (why)
		return why;
	if (op->kind == ROCE_KIND_READ)
		roce_pace_read(qp, packets, now);
	rd = roce_rd_take(qp, resp->epsn, packets);
	rd->kind = kinds[op->kind];
	rd->rkey = pkt->reth.rkey;
	rd->va = pkt->reth.va;
	rd->len = rd->answer_end = op->kind == ROCE_KIND_READ ? pkt->reth.len : 0;
	rd->original = original;
	rd->held = later;
	rd->why = REASON_NONE;
	rd->msn = psn_add(resp->msn, 1);
	resp->epsn = psn_add(resp->epsn, packets - 1);
	resp->psns += packets - 1;
	*done = 1;
	return REASON_NONE;
}

enum reason roce_execute(struct roce_qp *qp, const struct roce_pkt *pkt,
			 const struct roce_opcode_info *op, uint32_t *done, uint64_t now)
{
	switch (op->kind) {
	case ROCE_KIND_SEND:
		return execute_send(qp, pkt, op, done);
	case ROCE_KIND_WRITE:
		return execute_write(qp, pkt, op, done);
	default:
		return execute_answered(qp, pkt, op, done, now);
	}
}
