/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies frames into receive requests of raw packet QPs. Under vrb.poll_lock, then qp->lock. */

#include <limits.h>

#include "core/mem/mr.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/raw/raw_port.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/inet.h"

enum {
	MACS = 12,
};

/* The frame as delivered, perhaps without its VLAN tag. */
struct view {
	const uint8_t *head, *rest;
	uint32_t head_len, rest_len;
	uint16_t tag;
};

static bool is_tagged(const struct raw_frame *f)
{
	return f->len >= RAW_HEADER_LEN + RAW_TAG_LEN &&
	       get_be16(f->data + MACS) == INET_TYPE_CVLAN;
}

static struct view look_at(const struct vrb_qp *qp, const struct raw_frame *f)
{
	if (!qp->recv.strips_vlan || !is_tagged(f))
		return (struct view){ .head = f->data, .head_len = f->len };
	return (struct view){
		.head = f->data,
		.head_len = MACS,
		.rest = f->data + MACS + RAW_TAG_LEN,
		.rest_len = f->len - MACS - RAW_TAG_LEN,
		.tag = get_be16(f->data + MACS + 2),
	};
}

/* A position in a list of SGEs. */
struct cursor {
	const struct ibv_sge *sge;
	uint64_t skip;
};

/* The caller has checked that the list is long enough. */
static enum reason scatter(struct vrb_qp *qp, struct cursor *c, const uint8_t *from, uint32_t len)
{
	while (len) {
		uint32_t n = min((uint64_t)len, c->sge->length - c->skip);
		enum reason why = vrb_mem_write(&qp->wq, c->sge->lkey, c->sge->addr + c->skip,
						from, n, MEM_RECV_WRITE);

		if (why)
			return why;
		from += n;
		len -= n;
		c->skip += n;
		if (c->skip == c->sge->length) {
			c->sge++;
			c->skip = 0;
		}
	}
	return REASON_NONE;
}

/* Copies the whole frame, or nothing if it does not fit. */
static enum reason place(struct vrb_qp *qp, const struct recv_wqe *w, const struct view *v)
{
	struct cursor c = { .sge = w->sge };
	enum reason why;

	if ((uint64_t)v->head_len + v->rest_len > w->length)
		return REASON_RECV_TOO_SMALL;
	why = scatter(qp, &c, v->head, v->head_len);
	return why ? why : scatter(qp, &c, v->rest, v->rest_len);
}

/* Called after the copy, when the frame is in the cache. */
static bool sums_ok(const struct raw_frame *f)
{
	struct inet ip;

	if (!inet_parse_frame(f->data, f->len, INET_BY_HEADER, &ip))
		return false;
	return f->sum_ok && ip.sum ? inet_header_sum_ok(f->data, &ip) : inet_sums_ok(f->data, &ip);
}

static void receive(struct vrb_qp *qp, const struct raw_frame *f, uint32_t flow_tag)
{
	struct wq_qp *wq = &qp->wq;
	struct view v = look_at(qp, f);
	enum reason why = REASON_NONE;
	const struct recv_wqe *w = wq->ops->recv_take(wq, 0, NULL, &why);
	struct wq_cqe cqe = { .opcode = IBV_WC_RECV, .recv = true, .timed = true,
			      .flow_tag = flow_tag };

	if (!w) {
		roce_count_raw_dropped(&qp->roce, true);
		return;
	}
	cqe.wr_id = w->wr_id;
	cqe.release = wq->rq.next;
	cqe.byte_len = v.head_len + v.rest_len;
	cqe.cvlan = v.tag;
	why = place(qp, w, &v);
	if (unlikely(why)) {
		roce_raw_failed(&qp->roce, &cqe, why);
		/* A work queue's state cannot be queried, so the program needs the event. */
		if (qp->config.work_queue)
			vrb_qp_raise(qp, IBV_EVENT_WQ_FATAL);
		return;
	}
	if (sums_ok(f))
		cqe.wc_flags = IBV_WC_IP_CSUM_OK;
	qp->dispatch.raw_receiving = true;
	roce_count_raw_rcvd(&qp->roce, cqe.byte_len);
	wq->ops->complete(wq, &cqe);
}

/* From INIT on: there mlx5 makes the receive queue of a raw packet QP ready. */
static bool receives(enum ibv_qp_state state)
{
	return state >= IBV_QPS_INIT && state != IBV_QPS_ERR;
}

unsigned int vrb_raw_posted(struct vrb_qp *qp)
{
	unsigned int n;

	lock_acquire(&qp->lock);
	if (!receives(qp->wq.state))
		n = UINT_MAX;
	else if (qp->config.srq)
		n = vrb_srq_waiting(qp->config.srq);
	else
		n = qp->wq.rq.head - qp->wq.rq.next;
	lock_release(&qp->lock);
	return n;
}

void vrb_raw_deliver(struct vrb_qp *qp, const struct raw_frame *f, uint32_t flow_tag)
{
	lock_acquire(&qp->lock);
	qp->now = f->time;	/* the timestamp of the completion */
	if (receives(qp->wq.state))
		receive(qp, f, flow_tag);
	else
		roce_count_raw_dropped(&qp->roce, false);
	lock_release(&qp->lock);
}
