/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transport callbacks of a QP: receive WQEs, completions, events. Memory access is in access.c.
 * Everything here runs under qp->lock and takes SRQ, CQ and event locks below it.
 *
 * The receive WQE that a transport holds:
 *
 *	none --take--> held (qp->recv.wqe) --complete--> none
 *	                 |   ^
 *	          untake v   | take
 *	               given back: the RQ's entry is next again; an SRQ's stays in qp->recv.srq_wqe
 */
#include "core/qp/wq_ops.h"

#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/tap.h"
#include "core/cq/async_event.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/mem/mr.h"
#include "core/qp/error_report.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/qp/xrcd.h"
#include "util/atomic.h"
#include "util/compiler.h"

static bool matches_tags(const struct vrb_qp *qp)
{
	return qp->config.srq && qp->config.srq->tm;
}

static struct recv_wqe *take_own(struct vrb_qp *qp)
{
	struct recv_queue *rq = &qp->wq.rq;

	if (rq->next == rq->head)
		return NULL;
	qp->recv.wqe_index = rq->next++;
	qp->recv.wqe = rq_wqe(rq, qp->recv.wqe_index);
	return qp->recv.wqe;
}

static struct recv_wqe *take_shared(struct vrb_qp *qp, struct vrb_srq *srq)
{
	if (!qp->recv.srq_wqe_held && !vrb_srq_take(srq, qp->recv.srq_wqe, &qp->recv.wqe_index))
		return NULL;
	qp->recv.srq_wqe_held = false;
	qp->recv.wqe = qp->recv.srq_wqe;
	return qp->recv.wqe;
}

/* The requester chooses the SRQ, so srq_wqe has room for an entry of any. */
static struct recv_wqe *take_xrc(struct vrb_qp *qp, uint32_t srqn, enum reason *why)
{
	struct vrb_srq *srq;

	/* The held entry came from another SRQ, for a message that was abandoned: drop it. */
	if (qp->recv.srq_wqe_held && qp->recv.wqe_srq->srqn != srqn)
		vrb_qp_drop_wqe(qp);
	if (qp->recv.srq_wqe_held)
		return take_shared(qp, qp->recv.wqe_srq);
	srq = vrb_xrcd_find_srq(qp->config.domain, srqn);
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
	qp->recv.wqe_srq = srq;
	return qp->recv.wqe;
}

struct recv_wqe *vrb_qp_recv_take(struct wq_qp *wq, uint32_t srqn, const struct wq_head *head,
				  enum reason *why)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	*why = REASON_NONE;
	if (wq->type == IBV_QPT_XRC_RECV)
		return take_xrc(qp, srqn, why);
	if (qp->config.srq && vrb_srq_failed(qp->config.srq)) {
		*why = REASON_CQ_OVERRUN;
		return NULL;
	}
	if (matches_tags(qp))
		return vrb_tm_take(qp, head, why);
	return qp->config.srq ? take_shared(qp, qp->config.srq) : take_own(qp);
}

struct roce_rd_atomic *vrb_qp_rd_make(struct wq_qp *wq)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	qp->recv.rd_atomic = calloc(qp->recv.rd_atomic_slots, sizeof(*qp->recv.rd_atomic));
	return qp->recv.rd_atomic;
}

void vrb_qp_recv_untake(struct wq_qp *wq)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	vrb_tm_undo(qp);
	if (qp->recv.wqe == qp->recv.srq_wqe)
		qp->recv.srq_wqe_held = qp->recv.wqe != NULL;
	else if (!wq->has_srq)
		wq->rq.next--;
	qp->recv.wqe = NULL;
}

void vrb_qp_drop_wqe(struct vrb_qp *qp)
{
	if (unlikely(qp->recv.arrival.kind != TM_MESSAGE_NONE))
		vrb_tm_undo(qp);
	qp->recv.wqe = NULL;
	qp->recv.srq_wqe_held = false;
	if (qp->recv.wqe_srq)
		fetch_sub_release(&qp->recv.wqe_srq->users, 1);	/* pairs with vrb_srq_destroy */
	qp->recv.wqe_srq = NULL;
}

static void complete_recv(struct vrb_qp *qp, struct wq_cqe *cqe)
{
	if (qp->recv.wqe_srq)
		vrb_cq_add(qp->recv.wqe_srq->cq, qp->recv.wqe_srq, NULL, qp->wq.qpn, cqe, qp->now);
	else if (qp->config.recv_cq)
		vrb_cq_add(qp->config.recv_cq, qp,
			   qp->wq.has_srq ? NULL : &qp->wq.rq.released, qp->wq.qpn, cqe, qp->now);
	vrb_qp_drop_wqe(qp);
}

/* Excludes completions that a tag-matching SRQ handles itself, and the device's own requests. */
static void tap_complete(struct vrb_qp *qp, struct wq_cqe *wc)
{
	struct tap_completion c = { .qp = qp, .wc = wc, .index = wc->release - 1 };

	if (wc->recv ? matches_tags(qp) : qp->recv.rndv.owner)
		return;
	c.cq = wc->recv ? qp->config.recv_cq : qp->config.send_cq;
	if (wc->recv) {
		c.srq = qp->recv.wqe_srq ? qp->recv.wqe_srq : qp->config.srq;
		if (qp->recv.wqe)
			c.index = qp->recv.wqe_index;
		else if (c.srq)
			c.index = TAP_NO_INDEX;
	}
	if (!c.cq && c.srq)
		c.cq = c.srq->cq;
	vrb_tap_complete(&c);
}

void vrb_qp_complete(struct wq_qp *wq, struct wq_cqe *cqe)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	if (tapped())
		tap_complete(qp, cqe);
	if (unlikely(cqe->status != IBV_WC_SUCCESS))
		vrb_report_completion(qp, cqe);
	if (cqe->recv && wq->counted)
		vrb_cntr_received(qp->comp.cntr, cqe->byte_len, cqe->status == IBV_WC_SUCCESS);
	if (cqe->recv && matches_tags(qp))
		vrb_tm_complete(qp, cqe);
	else if (cqe->recv)
		complete_recv(qp, cqe);
	else if (qp->recv.rndv.owner)
		vrb_rndv_sent(qp, cqe);
	else
		vrb_cq_add(qp->config.send_cq, qp, &qp->wq.sq.released, qp->wq.qpn, cqe, qp->now);
}

void vrb_qp_count(struct wq_qp *wq, const struct send_wqe *w, bool ok)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	/* The device's own requests are not counted. */
	if (!qp->recv.rndv.owner)
		vrb_cntr_sent(qp->comp.cntr, w, ok);
}

/* After migration ibv_query_qp reports the alternate path as the path. */
static void note_migration(struct ibv_qp_attr *a)
{
	a->ah_attr = a->alt_ah_attr;
	a->port_num = a->alt_port_num;
	a->pkey_index = a->alt_pkey_index;
	a->timeout = a->alt_timeout;
}

void vrb_qp_raise(struct vrb_qp *qp, enum ibv_event_type type)
{
	if (qp->config.hooks && qp->config.hooks->raise)
		qp->config.hooks->raise(qp, type);
	else
		vrb_event_qp(&qp->ibv, &qp->acks, type);
}

void vrb_qp_event(struct wq_qp *wq, enum ibv_event_type type)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);

	if (qp->config.hooks && qp->config.hooks->event) {
		qp->config.hooks->event(qp, type);
		return;
	}
	if (type == IBV_EVENT_PATH_MIG)
		note_migration(&qp->attr);
	vrb_report_event(qp, type);
	vrb_qp_raise(qp, type);
}

void vrb_qp_note(struct wq_qp *wq, const struct wq_note *note)
{
	if (note->what == NOTE_RNR_RCVD)
		vrb_report_rnr(wq_to_vrb_qp(wq), note->psn);
	if (note->what == NOTE_MTU)
		vrb_report_mtu(wq_to_vrb_qp(wq), note->value);
	if (tapped())
		vrb_tap_note(wq_to_vrb_qp(wq), note);
}

void vrb_qp_dropped(struct wq_qp *wq, enum reason why)
{
	vrb_report_drop(wq_to_vrb_qp(wq), why);
}

void vrb_qp_violated(struct wq_qp *wq, enum key_violation which)
{
	fetch_add_relaxed(&wq_to_vrb_qp(wq)->config.ctx->dev->violations[which], 1);
}
