/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: list operations and message arrival.
 *
 *	message --> read header --> match a tag --> receive WQE for the engine
 *	                                                     |
 *	        completion <-- result from the engine -------'
 *
 * Locks: srq->lock protects the list and ranks below qp->lock. Completions of operations are added
 * under it, because their order matters; others after it is released.
 */
#include "core/qp/tag_match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/tap.h"
#include "core/cq/async_event.h"
#include "core/cq/cq.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/qp/wr_check.h"
#include "local/local.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	OPS_FLAGS = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
	/* Completions request a sync once the program is this many unexpected messages behind. */
	FAR_BEHIND = 0x3fff,
};

int vrb_tm_create(const struct ibv_tm_cap *cap, struct vrb_tm **out)
{
	struct vrb_tm *tm;

	if (cap->max_num_tags < 1 || cap->max_num_tags > TAGS_MAX || cap->max_ops < 1 ||
	    cap->max_ops > TM_MAX_OPS)
		return EINVAL;
	tm = calloc(1, sizeof(*tm));
	if (!tm)
		return ENOMEM;
	tm->max_ops = cap->max_ops;
	if (tags_init(&tm->tags, cap->max_num_tags)) {
		free(tm);
		return ENOMEM;
	}
	*out = tm;
	return 0;
}

void vrb_tm_free(struct vrb_tm *tm)
{
	if (tm)
		tags_free(&tm->tags);
	free(tm);
}

/* ---------------------------------------------------------------- operations */

/* Returns 0, EINVAL, or ENOMEM if the list is full. */
static int check_add(const struct vrb_tm *tm, const struct ibv_ops_wr *wr, uint32_t *length)
{
	const struct ibv_recv_wr buffer = {
		.sg_list = wr->tm.add.sg_list,
		.num_sge = wr->tm.add.num_sge,
	};

	if (buffer.num_sge > 0 && !buffer.sg_list)
		return EINVAL;
	if (wr_check_recv(TAG_MAX_SGE, &buffer, length) != REASON_NONE)
		return EINVAL;
	return tags_full(&tm->tags) ? ENOMEM : 0;
}

/* The operation has been checked. */
static void add(struct vrb_tm *tm, struct ibv_ops_wr *wr, uint32_t length)
{
	struct tag *tag = tags_add(&tm->tags, wr->tm.add.tag, wr->tm.add.mask);

	tag->wr_id = wr->tm.add.recv_wr_id;
	tag->length = length;
	tag->num_sge = wr->tm.add.num_sge;
	if (tag->num_sge)
		memcpy(tag->sge, wr->tm.add.sg_list, tag->num_sge * sizeof(*tag->sge));
	wr->tm.handle = tags_handle(&tm->tags, tag);
}

/* *length: of the buffer of a tag to be added. */
static int check_op(const struct vrb_tm *tm, const struct ibv_ops_wr *wr, uint32_t *length)
{
	if (wr->flags & ~OPS_FLAGS || (unsigned int)wr->opcode > IBV_WR_TAG_SYNC)
		return EINVAL;
	if (wr->opcode == IBV_WR_TAG_DEL && !tags_has(&tm->tags, wr->tm.handle))
		return EINVAL;
	/* Acquire: pairs with the poller's release, as in vrb_post_room(). */
	if (tm->ops - load_acquire(&tm->released) >= tm->max_ops)
		return ENOMEM;
	return wr->opcode == IBV_WR_TAG_ADD ? check_add(tm, wr, length) : 0;
}

static void complete_op(struct vrb_srq *srq, const struct ibv_ops_wr *wr, bool gone)
{
	static const uint8_t opcodes[] = {
		[IBV_WR_TAG_ADD] = IBV_WC_TM_ADD,
		[IBV_WR_TAG_DEL] = IBV_WC_TM_DEL,
		[IBV_WR_TAG_SYNC] = IBV_WC_TM_SYNC,
	};
	struct wq_cqe cqe = {
		.wr_id = wr->wr_id,
		.status = gone ? IBV_WC_TM_ERR : IBV_WC_SUCCESS,
		.opcode = opcodes[wr->opcode],
		.reason = gone ? REASON_TM_TAG_GONE : REASON_NONE,
		.wc_flags = tags_in_step(&srq->tm->tags) ? 0 : IBV_WC_TM_SYNC_REQ,
		.release = srq->tm->ops,
	};

	vrb_cq_add_srq(srq, 0, &srq->tm->released, &cqe, TAP_NO_INDEX, clock_now());
}

static int post_op(struct vrb_srq *srq, struct ibv_ops_wr *wr)
{
	struct vrb_tm *tm = srq->tm;
	bool gone = false;	/* the tag to be deleted */
	uint32_t length = 0;
	int ret = check_op(tm, wr, &length);

	if (ret)
		return ret;
	if (wr->flags & IBV_OPS_TM_SYNC)
		tags_handled(&tm->tags, wr->tm.unexpected_cnt);
	if (wr->opcode == IBV_WR_TAG_ADD)
		add(tm, wr, length);
	else if (wr->opcode == IBV_WR_TAG_DEL)
		gone = !tags_delete(&tm->tags, wr->tm.handle);
	tm->ops++;
	if (wr->flags & IBV_OPS_SIGNALED)
		complete_op(srq, wr, gone);
	return 0;
}

int vrb_tm_post(struct vrb_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	int ret = 0;

	lock_acquire(&srq->lock);
	for (; wr && !ret; wr = wr->next) {
		ret = srq->tm && !vrb_srq_failed(srq) ? post_op(srq, wr) : EINVAL;
		if (ret)
			break;
	}
	lock_release(&srq->lock);
	if (ret)
		*bad = wr;
	return ret;
}

/* ---------------------------------------------------------------- arrivals */

/* The header of a message, in host order. */
struct header {
	bool tagged;
	bool rendezvous;
	uint64_t tag;
	uint32_t priv;
	uint32_t length;		/* rendezvous: announced length */
	struct tag_request request;	/* as received */
};

/* Copies the first bytes of a message from the packet or from the sender's memory. */
static enum reason read_head(const struct wq_head *head, struct tag_request *to, uint32_t *n)
{
	struct wq_seg here = { (uintptr_t)to, 0 };

	*n = min(head->len, (uint32_t)sizeof(*to));
	here.len = *n;
	if (!*n)
		return REASON_NONE;
	if (head->pull)
		return local_pull(head->pull, 0, &here, 1, here.len) ? REASON_PEER_DIED :
			REASON_NONE;
	memcpy(to, head->data, *n);
	return REASON_NONE;
}

/* A message without a valid tag-matching header is an untagged message. */
static enum reason read_header(const struct wq_head *head, struct header *h)
{
	enum reason why;
	uint32_t n = 0;

	*h = (struct header){ .tagged = false };
	why = head ? read_head(head, &h->request, &n) : REASON_NONE;
	if (why || n < sizeof(h->request.tmh))
		return why;
	h->rendezvous = h->request.tmh.opcode == IBV_TMH_RNDV;
	h->tagged = h->rendezvous ? n == sizeof(h->request) && head->whole &&
					    head->len <= TM_MAX_REQUEST :
				    h->request.tmh.opcode == IBV_TMH_EAGER;
	h->tag = get_be64((const uint8_t *)&h->request.tmh.tag);
	h->priv = get_be32((const uint8_t *)&h->request.tmh.app_ctx);
	h->length = get_be32((const uint8_t *)&h->request.rvh.len);
	return REASON_NONE;
}

/* Why the device leaves a rendezvous to the program; REASON_NONE: it does not. */
static enum reason left_to_program(const struct vrb_qp *qp, const struct tag *tag,
				   const struct header *h)
{
	if (!qp->recv.rndv.owner)
		return REASON_TM_PROGRAM_SENDS;
	if (!qp->wq.max_rd_atomic)
		return REASON_WR_RD_ATOMIC_ZERO;
	if (h->length > tag->length || h->length > qp->wq.max_msg)
		return REASON_TM_TAG_SMALL;
	return REASON_NONE;
}

/* Fills in a receive WQE with the buffer of a tag. */
static void show_buffer(struct recv_wqe *w, const struct tag *tag)
{
	w->wr_id = tag->wr_id;
	w->num_sge = tag->num_sge;
	w->length = tag->length;
	w->skip = 0;
	w->clip = false;
	memcpy(w->sge, tag->sge, tag->num_sge * sizeof(*w->sge));
}

static void raise_match(struct vrb_qp *qp, bool solicited)
{
	struct vrb_tm_message *a = &qp->recv.arrival;
	struct wq_cqe cqe = {
		.wr_id = a->tag->wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_TM_RECV,
		.wc_flags = IBV_WC_TM_MATCH,
		.tm_tag = a->message,
		.tm_priv = a->priv,
		.recv = true,
		.solicited = solicited,
	};

	a->raised = true;
	vrb_cq_add_srq(qp->config.srq, qp->wq.qpn, NULL, &cqe, TAP_NO_INDEX, qp->now);
}

static struct recv_wqe *begin_eager(struct vrb_qp *qp, bool whole)
{
	struct vrb_tm_message *a = &qp->recv.arrival;

	a->kind = TM_MESSAGE_EAGER;
	a->wqe->skip = sizeof(struct ibv_tmh);
	if (!whole)
		raise_match(qp, false);
	return a->wqe;
}

/*
 * A request that the device executes is not delivered; one that is left to the program is delivered
 * completely.
 */
static struct recv_wqe *begin_rendezvous(struct vrb_qp *qp, const struct header *h)
{
	struct vrb_tm_message *a = &qp->recv.arrival;

	a->why = left_to_program(qp, a->tag, h);
	a->kind = a->why ? TM_MESSAGE_LEFT : TM_MESSAGE_RENDEZVOUS;
	a->tag->request = h->request;
	a->wqe->clip = true;
	if (!a->why)
		a->wqe->length = a->wqe->num_sge = 0;
	return a->wqe;
}

static struct recv_wqe *begin_matched(struct vrb_qp *qp, const struct wq_head *head,
				      const struct header *h)
{
	struct vrb_tm_message *a = &qp->recv.arrival;

	a->raised = false;
	a->message = h->tag;
	a->priv = h->priv;
	show_buffer(a->wqe, a->tag);
	return h->rendezvous ? begin_rendezvous(qp, h) : begin_eager(qp, head->whole);
}

/*
 * Takes what receives the message, in one critical section of srq->lock: a tag, or the next
 * ordinary receive, which may be one that was given back. Returns false if there is neither.
 */
static bool decide(struct vrb_qp *qp, const struct header *h, bool *limit)
{
	struct vrb_srq *srq = qp->config.srq;
	struct tags *tags = &srq->tm->tags;
	bool any = true;

	*limit = false;
	lock_acquire(&srq->lock);
	qp->recv.arrival.tag = h->tagged ? tags_match(tags, h->tag) : NULL;
	if (!qp->recv.arrival.tag) {
		any = qp->recv.srq_wqe_held ||
		      vrb_srq_take_locked(srq, qp->recv.srq_wqe, &qp->recv.wqe_index, limit);
		if (any && h->tagged)
			tags_count(tags);
	}
	lock_release(&srq->lock);
	return any;
}

struct recv_wqe *vrb_tm_take(struct vrb_qp *qp, const struct wq_head *head, enum reason *why)
{
	struct header h;
	bool limit, any;

	*why = read_header(head, &h);
	if (*why)
		return NULL;
	/* The device cannot READ before RTS: send an RNR NAK, and the peer retries. */
	if (h.tagged && h.rendezvous && qp->recv.rndv.owner && qp->wq.state == IBV_QPS_RTR)
		return NULL;
	any = decide(qp, &h, &limit);
	if (limit)
		vrb_event_srq(&qp->config.srq->ibv, &qp->config.srq->acks,
			      IBV_EVENT_SRQ_LIMIT_REACHED);
	if (!any)
		return NULL;
	if (qp->recv.arrival.tag) {
		qp->recv.wqe = begin_matched(qp, head, &h);
		return qp->recv.wqe;
	}
	qp->recv.arrival.kind = h.tagged ? TM_MESSAGE_UNEXPECTED :
				head ? TM_MESSAGE_NO_TAG : TM_MESSAGE_NONE;
	qp->recv.srq_wqe_held = false;
	qp->recv.wqe = qp->recv.srq_wqe;
	return qp->recv.wqe;
}

static void uncount(struct vrb_srq *srq)
{
	lock_acquire(&srq->lock);
	tags_uncount(&srq->tm->tags);
	lock_release(&srq->lock);
}

static bool far_behind(struct vrb_srq *srq)
{
	bool is_far;

	lock_acquire(&srq->lock);
	is_far = tags_behind(&srq->tm->tags) > FAR_BEHIND;
	lock_release(&srq->lock);
	return is_far;
}

/* Releases the slot first, so that the program can reuse it once it sees the completion. */
void vrb_tm_finish(struct vrb_qp *qp, struct tag *tag, struct wq_cqe *cqe)
{
	struct vrb_srq *srq = qp->config.srq;

	cqe->wr_id = tag->wr_id;
	cqe->opcode = IBV_WC_TM_RECV;
	cqe->recv = true;
	lock_acquire(&srq->lock);
	tags_release(&srq->tm->tags, tag);
	lock_release(&srq->lock);
	vrb_cq_add_srq(srq, qp->wq.qpn, NULL, cqe, TAP_NO_INDEX, qp->now);
}

static void complete_ordinary(struct vrb_qp *qp, struct wq_cqe *cqe)
{
	bool ok = cqe->status == IBV_WC_SUCCESS;

	if (qp->recv.arrival.kind == TM_MESSAGE_NO_TAG)
		cqe->opcode = IBV_WC_TM_NO_TAG;
	if (qp->recv.arrival.kind == TM_MESSAGE_UNEXPECTED) {
		cqe->opcode = IBV_WC_TM_RECV;
		if (!ok)
			uncount(qp->config.srq);
		else if (far_behind(qp->config.srq))
			cqe->wc_flags |= IBV_WC_TM_SYNC_REQ;
	}
	vrb_cq_add_srq(qp->config.srq, qp->wq.qpn, NULL, cqe, qp->recv.wqe_index, qp->now);
}

static void complete_eager(struct vrb_qp *qp, struct wq_cqe *cqe)
{
	struct vrb_tm_message *a = &qp->recv.arrival;

	cqe->byte_len -= min(cqe->byte_len, (uint32_t)sizeof(struct ibv_tmh));
	cqe->wc_flags |= IBV_WC_TM_DATA_VALID;
	if (!a->raised) {
		cqe->wc_flags |= IBV_WC_TM_MATCH;
		cqe->tm_tag = a->message;
		cqe->tm_priv = a->priv;
	}
	vrb_tm_finish(qp, a->tag, cqe);
}

static void complete_left(struct vrb_qp *qp, struct wq_cqe *cqe)
{
	struct vrb_tm_message *a = &qp->recv.arrival;

	cqe->status = IBV_WC_TM_RNDV_INCOMPLETE;
	cqe->reason = a->why;
	cqe->byte_len = min(cqe->byte_len, a->tag->length);
	cqe->wc_flags |= IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
	cqe->tm_tag = a->message;
	cqe->tm_priv = a->priv;
	vrb_tm_finish(qp, a->tag, cqe);
}

void vrb_tm_complete(struct vrb_qp *qp, struct wq_cqe *cqe)
{
	struct vrb_tm_message *a = &qp->recv.arrival;
	bool ok = cqe->status == IBV_WC_SUCCESS;

	qp->recv.wqe = NULL;
	if (a->kind < TM_MESSAGE_EAGER) {
		complete_ordinary(qp, cqe);
	} else if (!ok) {
		vrb_tm_finish(qp, a->tag, cqe);
	} else if (a->kind == TM_MESSAGE_EAGER) {
		complete_eager(qp, cqe);
	} else if (a->kind == TM_MESSAGE_LEFT) {
		complete_left(qp, cqe);
	} else {
		a->tag->solicited = cqe->solicited;
		raise_match(qp, cqe->solicited);
		vrb_rndv_begin(qp, a->tag);
	}
	a->kind = TM_MESSAGE_NONE;
	a->tag = NULL;
}

static void give_back(struct vrb_qp *qp, struct tag *tag)
{
	lock_acquire(&qp->config.srq->lock);
	tags_return(&qp->config.srq->tm->tags, tag);
	lock_release(&qp->config.srq->lock);
}

void vrb_tm_undo(struct vrb_qp *qp)
{
	struct vrb_tm_message *a = &qp->recv.arrival;
	struct wq_cqe cqe = { .status = IBV_WC_WR_FLUSH_ERR, .reason = REASON_RECV_ABORTED };

	if (a->kind == TM_MESSAGE_UNEXPECTED)
		uncount(qp->config.srq);
	else if (a->kind >= TM_MESSAGE_EAGER && !a->raised)
		give_back(qp, a->tag);
	else if (a->kind >= TM_MESSAGE_EAGER)
		vrb_tm_finish(qp, a->tag, &cqe);
	a->kind = TM_MESSAGE_NONE;
	a->tag = NULL;
}
