/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asserts the invariants of state.h at the end of each call into the engine, and at the start of
 * calls that deliver a packet or time. They concern the engine's own state and its caller's
 * contract: neither a peer nor a program can violate one.
 */
#include <assert.h>

#include "roce/acknak.h"
#include "roce/parts.h"
#include "roce/psn.h"

#ifndef NDEBUG

static void check_send_queue(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;
	uint32_t posted = sq->head - sq->done;

	assert(!sq->ring.slots || posted <= sq->ring.mask + 1);
	assert(sq->next - sq->done <= posted);
	assert(qp->req.index - sq->done <= sq->next - sq->done);
}

static void check_requester(const struct roce_qp *qp)
{
	uint32_t in_flight = psn_distance(qp->comp.una, qp->req.psn);
	uint32_t begun = psn_distance(qp->comp.una, qp->req.high);

	check_send_queue(qp);
	assert(in_flight <= begun);
	assert(qp->req.rd_open <= in_flight);
	assert(!in_flight || roce_is_reliable(qp));
	assert(qp->retry.rnr_deadline == VRB_NEVER || qp->retry.ack_deadline == VRB_NEVER);
	assert(qp->retry.ack_deadline == VRB_NEVER || begun);
}

static void check_responder(const struct roce_qp *qp)
{
	const struct roce_resp *resp = &qp->resp;

	assert(!resp->wqe || resp->msg == ROCE_MSG_SEND);
	assert(resp->msg == ROCE_MSG_WRITE || !resp->resid);
	assert(resp->rd_pending <= qp->rd_atomic_slots);
	assert(roce_is_reliable(qp) || (!resp->rd_pending && !roce_ack_due(qp)));
	assert(!resp->gap_nak_pending || resp->nak_sent);
}

static void check_dead(const struct roce_qp *qp)
{
	assert(!qp->resp.wqe && !qp->req.halted);
	assert(qp->retry.ack_deadline == VRB_NEVER && qp->retry.rnr_deadline == VRB_NEVER);
	assert(qp->dying || (!qp->resp.rd_pending && !qp->resp.ack.pending));
	assert(!qp->resp.gap_nak_pending);
}

void roce_check(const struct roce_qp *qp)
{
	switch (qp->wq->state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		check_requester(qp);
		check_responder(qp);
		break;
	case IBV_QPS_RTR:
	case IBV_QPS_SQE:
		check_responder(qp);
		break;
	case IBV_QPS_ERR:
		if (qp->flushed)
			check_dead(qp);
		break;
	default:
		break;
	}
}

#endif
