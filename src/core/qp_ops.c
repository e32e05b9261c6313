/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What transports call about a queue pair: receive buffers, completions, events.  Memory is
 * mem.c's. Everything here runs under qp->lock, and takes SRQ, CQ and event locks below it.
 *
 * The receive that a transport holds:
 *
 *	none --take--> held (qp->taken) --complete--> none
 *	                 |   ^
 *	          untake v   | take
 *	               given back: the RQ's entry is next again; an SRQ's stays in qp->copy
 */

#include "core/cq.h"
#include "core/event.h"
#include "core/fault.h"
#include "core/mr.h"
#include "core/near.h"
#include "core/qp.h"
#include "core/raw_send.h"
#include "core/rwq.h"
#include "core/srq.h"
#include "core/xrc/deputy.h"
#include "core/xrc/opener.h"
#include "core/xrc/xrcd.h"
#include "util/atomic.h"
#include "util/compiler.h"

static bool matches_tags(const struct vrb_qp *qp)
{
	return qp->srq && qp->srq->tm;
}

static struct recv_wqe *take_own(struct vrb_qp *qp)
{
	struct recv_queue *rq = &qp->wq.rq;

	if (rq->next == rq->head)
		return NULL;
	qp->taken_index = rq->next;
	qp->taken = rq_wqe(rq, rq->next);
	return qp->taken;
}

static struct recv_wqe *take_shared(struct vrb_qp *qp, struct vrb_srq *srq)
{
	if (!qp->copy_held && !vrb_srq_take(srq, qp->copy))
		return NULL;
	qp->copy_held = false;
	qp->taken = qp->copy;
	return qp->taken;
}

/*
 * The copy has room for any SRQ of the device, because which one it will be is the sender's
 * choice.
 */
static struct recv_wqe *take_xrc(struct vrb_qp *qp, uint32_t srqn, enum reason *why)
{
	struct vrb_srq *srq;

	/*
	 * Given back from another SRQ than is asked for now: that entry's message was abandoned,
	 * and nobody waits for the entry.
	 */
	if (qp->copy_held && qp->taken_srq->srqn != srqn)
		vrb_qp_drop_taken(qp);
	if (qp->copy_held)
		return take_shared(qp, qp->taken_srq);
	srq = vrb_xrcd_find_srq(qp->domain, srqn);
	if (!srq) {
		*why = REASON_REQ_XRC_SRQ;
		return NULL;
	}
	if (vrb_srq_failed(srq))
		*why = REASON_CQ_OVERRUN;
	if (*why || !take_shared(qp, srq)) {
		fetch_sub_release(&srq->users, 1);
		return NULL;
	}
	qp->taken_srq = srq;
	return qp->taken;
}

static struct recv_wqe *recv_take(struct wq_qp *wq, uint32_t srqn, const struct wq_head *head,
				  enum reason *why)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	*why = REASON_NONE;
	if (wq->type == IBV_QPT_XRC_RECV)
		return take_xrc(qp, srqn, why);
	if (qp->srq && vrb_srq_failed(qp->srq)) {
		*why = REASON_CQ_OVERRUN;
		return NULL;
	}
	if (matches_tags(qp))
		return vrb_tm_take(qp, head, why);
	return qp->srq ? take_shared(qp, qp->srq) : take_own(qp);
}

static void recv_untake(struct wq_qp *wq)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	vrb_tm_undo(qp);
	if (qp->taken == qp->copy)
		qp->copy_held = qp->taken != NULL;
	qp->taken = NULL;
}

void vrb_qp_drop_taken(struct vrb_qp *qp)
{
	vrb_tm_undo(qp);
	qp->taken = NULL;
	qp->copy_held = false;
	if (qp->taken_srq)
		fetch_sub_release(&qp->taken_srq->users, 1);	/* pairs with vrb_srq_destroy */
	qp->taken_srq = NULL;
}

/*
 * The end of a receive.  A flush of the RQ has already moved past the entry when it arrives here;
 * the completion of the held one has not.
 */
static void complete_recv(struct vrb_qp *qp, struct wq_cqe *cqe)
{
	struct recv_queue *rq = &qp->wq.rq;

	if (qp->taken && qp->taken != qp->copy) {
		if (rq->next == qp->taken_index)
			rq->next++;
		cqe->release = rq->next;
	}
	if (qp->taken_srq)
		vrb_cq_add_srq(qp->taken_srq, qp->wq.qpn, NULL, cqe, qp->now);
	else if (qp->recv_cq)
		vrb_cq_add(qp->recv_cq, qp, cqe, qp->now);
	vrb_qp_drop_taken(qp);
}

static void complete(struct wq_qp *wq, const struct wq_cqe *cqe)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);
	struct wq_cqe copy = *cqe;

	if (unlikely(cqe->status != IBV_WC_SUCCESS))
		vrb_fault_complete(qp, cqe);
	if (cqe->recv && wq->counted)
		vrb_cntr_received(qp, cqe->byte_len, cqe->status == IBV_WC_SUCCESS);
	if (cqe->recv && matches_tags(qp))
		vrb_tm_complete(qp, &copy);
	else if (cqe->recv)
		complete_recv(qp, &copy);
	else if (qp->rndv.owner)
		vrb_rndv_sent(qp, cqe);
	else
		vrb_cq_add(qp->send_cq, qp, cqe, qp->now);
}

static void count(struct wq_qp *wq, const struct send_wqe *w, bool ok)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	/* What the device sends for itself is none of the program's requests. */
	if (!qp->rndv.owner)
		vrb_cntr_sent(qp, w, ok);
}

/* What was the alternate path is what ibv_query_qp shows as the path. */
static void note_migration(struct ibv_qp_attr *a)
{
	a->ah_attr = a->alt_ah_attr;
	a->port_num = a->alt_port_num;
	a->pkey_index = a->alt_pkey_index;
	a->timeout = a->alt_timeout;
}

void vrb_qp_raise(struct vrb_qp *qp, enum ibv_event_type type)
{
	if (qp->work_queue)
		vrb_wq_failed(qp->work_queue);
	else if (qp->wq.type == IBV_QPT_XRC_RECV)
		vrb_opener_event(qp, type);
	else
		vrb_event_qp(&qp->ibv, type);
}

static void event(struct wq_qp *wq, enum ibv_event_type type)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	if (qp->deputy) {
		vrb_deputy_event(qp, type);
		return;
	}
	if (type == IBV_EVENT_PATH_MIG)
		note_migration(&qp->attr);
	vrb_fault_event(qp, type);
	vrb_qp_raise(qp, type);
}

static void dropped(struct wq_qp *wq, enum reason why)
{
	vrb_fault_dropped(wq_to_vrb_qp(wq), why);
}

const struct wq_ops vrb_qp_ops = {
	.mem_check = vrb_mem_check,
	.mem_read = vrb_mem_read,
	.mem_write = vrb_mem_write,
	.mem_atomic = vrb_mem_atomic,
	.mem_atomic_write = vrb_mem_atomic_write,
	.mem_flush = vrb_mem_flush,
	.invalidate = vrb_mem_invalidate,
	.bind_mw = vrb_mem_bind,
	.direct = vrb_near_direct,
	.pull = vrb_near_pull,
	.send_frames = vrb_raw_send_frames,
	.recv_take = recv_take,
	.recv_untake = recv_untake,
	.complete = complete,
	.count = count,
	.dropped = dropped,
	.event = event,
};
