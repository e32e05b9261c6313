/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous; tag_rndv.h documents the interface.
 *
 * The wr_id of a READ is the address of its tag, that of a FIN is 0. All requests are signaled, so
 * that each completes in vrb_rndv_sent(), the only place that releases send queue slots. Tags wait
 * only while the send queue has no room.
 */
#include "core/qp/tag_rndv.h"

#include <string.h>

#include "core/cq/async_event.h"
#include "core/qp/qp.h"
#include "core/qp/tag_match.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"

size_t vrb_rndv_wqe_room(void)
{
	return max(TAG_MAX_SGE * sizeof(struct ibv_sge), sizeof(struct tag_request));
}

void vrb_rndv_init(struct vrb_qp *qp, bool owner)
{
	qp->recv.rndv.owner = owner;
	if (owner)
		qp->wq.send_pdn = qp->wq.recv_pdn;	/* READs write to the SRQ's tag buffers */
	list_init(&qp->recv.rndv.waiting);
	list_init(&qp->recv.rndv.running);
}

static struct tag *first(const struct list *l)
{
	return list_empty(l) ? NULL : list_entry(l->next, struct tag, node);
}

static struct send_wqe *next_slot(struct vrb_qp *qp)
{
	struct send_queue *sq = &qp->wq.sq;
	struct send_wqe *w = sq_wqe(sq, sq->head++);

	memset(w, 0, sizeof(*w));
	return w;
}

/* Fills in the SGEs of the first w->length bytes of the tag's buffer. */
static void copy_list(struct send_wqe *w, const struct tag *tag)
{
	uint32_t left = w->length;

	for (uint32_t i = 0; i < tag->num_sge && left; i++) {
		struct ibv_sge *sge = &w->sge[w->num_sge++];

		*sge = tag->sge[i];
		sge->length = min(sge->length, left);
		left -= sge->length;
	}
}

static void post_read(struct vrb_qp *qp, struct tag *tag)
{
	const struct ibv_rvh *rvh = &tag->request.rvh;
	struct send_wqe *w = next_slot(qp);

	w->wr_id = (uintptr_t)tag;
	w->opcode = IBV_WR_RDMA_READ;
	w->flags = WQE_SIGNALED;
	w->length = get_be32((const uint8_t *)&rvh->len);
	w->remote_addr = get_be64((const uint8_t *)&rvh->va);
	w->rkey = get_be32((const uint8_t *)&rvh->rkey);
	copy_list(w, tag);
}

/* The FIN is the request as received, with another opcode, so that the sender can identify it. */
static void post_fin(struct vrb_qp *qp, const struct tag *tag)
{
	struct send_wqe *w = next_slot(qp);
	struct tag_request fin = tag->request;

	fin.tmh.opcode = IBV_TMH_FIN;
	w->opcode = IBV_WR_SEND;
	w->flags = WQE_SIGNALED | WQE_DATA_INLINE | IBV_SEND_FENCE;
	w->length = sizeof(fin);
	memcpy(wqe_inline_data(w), &fin, sizeof(fin));
}

static bool has_room(const struct send_queue *sq)
{
	return sq->head - sq->released + 2 <= sq->ring.limit;
}

static void pump(struct vrb_qp *qp)
{
	struct tag *tag;

	while (has_room(&qp->wq.sq) && (tag = first(&qp->recv.rndv.waiting))) {
		list_del(&tag->node);
		list_add_tail(&qp->recv.rndv.running, &tag->node);
		post_read(qp, tag);
		post_fin(qp, tag);
		vrb_qp_note_posted(qp);
	}
}

void vrb_rndv_begin(struct vrb_qp *qp, struct tag *tag)
{
	list_add_tail(&qp->recv.rndv.waiting, &tag->node);
	pump(qp);
}

static void finish(struct vrb_qp *qp, struct tag *tag, uint32_t status, uint32_t why)
{
	bool ok = status == IBV_WC_SUCCESS;
	struct wq_cqe cqe = {
		.status = status,
		.reason = why,
		.byte_len = ok ? get_be32((const uint8_t *)&tag->request.rvh.len) : 0,
		.wc_flags = ok ? IBV_WC_TM_DATA_VALID : 0,
		.solicited = tag->solicited,
	};

	vrb_tm_finish(qp, tag, &cqe);
}

static void flush(struct vrb_qp *qp, struct list *tags)
{
	struct tag *tag;

	while ((tag = first(tags)))
		finish(qp, tag, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
}

void vrb_rndv_sent(struct vrb_qp *qp, const struct wq_cqe *cqe)
{
	struct tag *tag = (struct tag *)(uintptr_t)cqe->wr_id;

	store_release(&qp->wq.sq.released, cqe->release);
	if (tag)
		finish(qp, tag, cqe->status, cqe->reason);
	else if (cqe->status != IBV_WC_SUCCESS && cqe->status != IBV_WC_WR_FLUSH_ERR)
		vrb_event_qp(&qp->ibv, &qp->acks, IBV_EVENT_QP_FATAL);
	if (cqe->status == IBV_WC_SUCCESS)
		pump(qp);
	else if (list_empty(&qp->recv.rndv.running))
		flush(qp, &qp->recv.rndv.waiting);
}

void vrb_rndv_abandon(struct vrb_qp *qp)
{
	flush(qp, &qp->recv.rndv.running);
	flush(qp, &qp->recv.rndv.waiting);
}
