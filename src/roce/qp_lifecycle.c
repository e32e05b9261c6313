/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life cycle of a QP: its initial state, draining, and the error state, which flushes every
 * posted request once and drops all pending output except a last NAK (`dying`).
 */
#include "roce/faults.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/rd_atomic.h"
#include "roce/retry.h"
#include "util/atomic.h"

static void forget(struct roce_qp *qp)
{
	struct wq_qp *wq = qp->wq;

	if (qp->resp.wqe)
		wq->ops->recv_untake(wq);
	wq->sq.next = wq->sq.done = wq->sq.head;
	store_release(&wq->sq.released, wq->sq.head);
	wq->rq.next = wq->rq.head;
	store_release(&wq->rq.released, wq->rq.head);
	wq->sq_draining = 0;
	qp->flushed = qp->dying = qp->mig_refused = false;
	roce_burst_reset(qp);
	roce_pace_reset(qp);
	roce_responder_start(qp);
	roce_requester_start(qp);
}

void roce_qp_init(struct roce_qp *qp, struct wq_qp *wq, struct roce_rd_atomic *rd_atomic,
		  uint32_t slots)
{
	*qp = (struct roce_qp){ .wq = wq, .ud = qp->ud, .rd_atomic = rd_atomic,
				.rd_atomic_slots = slots, .counters = qp->counters };
	roce_burst_reset(qp);
	roce_pace_reset(qp);
	roce_responder_start(qp);
	roce_requester_start(qp);
}

void roce_drained(struct roce_qp *qp)
{
	struct wq_qp *wq = qp->wq;

	if (!wq->sq_draining || wq->sq.done != wq->sq.next)
		return;
	wq->sq_draining = 0;
	if (wq->sqd_notify)
		wq->ops->event(wq, IBV_EVENT_SQ_DRAINED);
}

static void begin_drain(struct roce_qp *qp)
{
	qp->wq->sq_draining = 1;
	roce_check_drained(qp);
}

static void begin_sending(struct roce_qp *qp, enum ibv_qp_state from)
{
	qp->wq->sq_draining = 0;
	if (from == IBV_QPS_RTR)
		roce_requester_start(qp);
}

void roce_qp_moved(struct roce_qp *qp, enum ibv_qp_state from)
{
	switch (qp->wq->state) {
	case IBV_QPS_RESET:
		forget(qp);
		break;
	case IBV_QPS_RTR:
		roce_responder_start(qp);
		break;
	case IBV_QPS_RTS:
		if (from != IBV_QPS_RTS)
			begin_sending(qp, from);
		break;
	case IBV_QPS_SQD:
		if (from != IBV_QPS_SQD)
			begin_drain(qp);
		break;
	case IBV_QPS_ERR:
		roce_enter_error(qp, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
		break;
	default:
		break;
	}
	roce_check(qp);
}

void roce_qp_changed(struct roce_qp *qp)
{
	qp->retry.left = qp->wq->retry_cnt;
	qp->retry.rnr_left = qp->wq->rnr_retry;
	qp->mig_refused = false;
	roce_check(qp);
}

static void flush_held_receive(struct roce_qp *qp)
{
	struct wq_cqe cqe = {
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.reason = REASON_RECV_ABORTED,
	};

	if (qp->resp.wqe)
		roce_responder_complete(qp, &cqe);
}

/* The request that has failed comes first: it is the cause. */
void roce_flush_queues(struct roce_qp *qp, enum ibv_wc_status status, enum reason why)
{
	wq_flush_send(qp->wq, status, why);
	qp->req.index = qp->wq->sq.next;
	flush_held_receive(qp);
	wq_flush_recv(qp->wq);
}

void roce_enter_error(struct roce_qp *qp, enum ibv_wc_status status, enum reason why)
{
	struct wq_qp *wq = qp->wq;

	if (qp->flushed)
		return;
	qp->flushed = true;
	wq->state = IBV_QPS_ERR;
	roce_note(qp, NOTE_ERROR, qp->comp.una, status, why);
	wq->sq_draining = 0;
	roce_retry_stop(qp);
	qp->req.halted = false;
	qp->req.retx = (struct roce_selective_retx){ 0 };
	qp->req.segmented = 0;
	qp->req.rd_open = 0;
	qp->req.psn = qp->comp.una = qp->req.high;
	qp->resp.msg = ROCE_MSG_NONE;
	qp->resp.resid = 0;
	qp->resp.gap_nak_pending = false;
	if (!qp->dying) {
		roce_rd_reset(qp);
		qp->resp.ack.pending = false;
	}
	roce_flush_queues(qp, status, why);
	if (wq->has_srq || wq->type == IBV_QPT_XRC_RECV)
		wq->ops->event(wq, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void roce_send_error(struct roce_qp *qp, enum reason why)
{
	enum ibv_wc_status status = roce_local_status(why);

	qp->counters.send_err++;
	if (roce_is_reliable(qp)) {
		qp->req.halted = true;
		qp->req.halt_status = status;
		qp->req.halt_why = why;
		roce_completer_settle(qp);
		return;
	}
	qp->wq->state = IBV_QPS_SQE;
	qp->req.segmented = 0;
	qp->req.psn = qp->comp.una = qp->req.high;
	wq_flush_send(qp->wq, status, why);
	qp->req.index = qp->wq->sq.next;
}

void roce_qp_fail(struct roce_qp *qp, enum ibv_wc_status status, enum reason why)
{
	roce_enter_error(qp, status, why);
	roce_check(qp);
}
