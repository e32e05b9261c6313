/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues. srq->lock protects the ring and the armed limit; it ranks below qp->lock.
 */
#include "core/qp/srq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/ring.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/base/xrc_ops.h"
#include "core/cq/async_event.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/mem/pd.h"
#include "core/qp/tag_match.h"
#include "core/qp/xrcd.h"
#include "host/host.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	INIT_MASK = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
		    IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
};

/* Attributes that each type requires. Of a basic queue mlx5 does not look at the mask. */
static const uint32_t needed[] = {
	[IBV_SRQT_BASIC] = 0,
	[IBV_SRQT_XRC] = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	[IBV_SRQT_TM] = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
};

static uint32_t next_srqn;

static enum ibv_srq_type type_of(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
}

static bool type_ok(const struct ibv_context *c, const struct ibv_srq_init_attr_ex *attr)
{
	unsigned int type = type_of(attr);

	if (type >= ARRAY_SIZE(needed) || (attr->comp_mask & needed[type]) != needed[type])
		return false;
	if (needed[type] & IBV_SRQ_INIT_ATTR_CQ && (!attr->cq || attr->cq->context != c))
		return false;
	return !(needed[type] & IBV_SRQ_INIT_ATTR_XRCD) ||
	       (attr->xrcd && attr->xrcd->context == c);
}

static int check_attr(struct vrb_context *ctx, const struct ibv_srq_init_attr_ex *attr)
{
	const struct ibv_device_attr *dev = &vrb_device_limits.orig_attr;
	struct ibv_context *c = &ctx->vctx.context;
	int err;

	if (attr->comp_mask & ~INIT_MASK && type_of(attr) != IBV_SRQT_BASIC)
		return EOPNOTSUPP;
	err = vrb_pd_check(attr->pd);
	if (err)
		return err;
	if (attr->pd->context != c)
		return EINVAL;
	/* No entries are as good as one, as on mlx5. */
	if (attr->attr.max_wr > (uint32_t)dev->max_srq_wr ||
	    attr->attr.max_sge > (uint32_t)dev->max_srq_sge)
		return EINVAL;
	return type_ok(c, attr) ? 0 : EINVAL;
}

static uint32_t grant_depth(uint32_t wanted)
{
	return min(ring_beyond(wanted), (uint32_t)vrb_device_limits.orig_attr.max_srq_wr);
}

static void init_public(struct vrb_srq *srq, const struct ibv_srq_init_attr_ex *attr)
{
	srq->ibv.context = &srq->ctx->vctx.context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = attr->pd;
	srq->ibv.handle = srq->srqn;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	vrb_event_acks_init(&srq->acks, &srq->ibv.mutex, &srq->ibv.cond,
			    &srq->ibv.events_completed);
}

/* In the list of its CQ. */
static void link_cq(struct vrb_cq *cq, struct vrb_srq *srq)
{
	lock_acquire(&cq->lock);
	list_add_tail(&cq->srqs, &srq->cq_node);
	lock_release(&cq->lock);
}

static void unlink_cq(struct vrb_cq *cq, struct vrb_srq *srq)
{
	lock_acquire(&cq->lock);
	list_del(&srq->cq_node);
	lock_release(&cq->lock);
}

static void take_references(struct vrb_srq *srq, const struct ibv_srq_init_attr_ex *attr)
{
	srq->pd = to_vrb_pd(attr->pd);
	vrb_pd_get(srq->pd);
	if (srq->type == IBV_SRQT_BASIC)
		return;
	srq->cq = to_vrb_cq(attr->cq);
	fetch_add_relaxed(&srq->cq->users, 1);
	link_cq(srq->cq, srq);
	if (srq->type != IBV_SRQT_XRC)
		return;
	fetch_or_acq_rel(&srq->cq->shards, 1);	/* the main RX queue executes XRC requests */
	srq->xrcd = to_vrb_xrcd(attr->xrcd);
	vrb_xrcd_add_srq(srq->xrcd, srq);
}

/* Other processes and hosts refer to an XRC SRQ, so its number is unique on the host. */
static int number_srq(struct vrb_srq *srq)
{
	if (srq->type == IBV_SRQT_XRC)
		return host_qpn_alloc(vrb.host, 0, &srq->srqn);
	srq->srqn = (fetch_add_relaxed(&next_srqn, 1) + 1) & ROCE_SRQN_MASK;
	return 0;
}

static bool ring_alloc(struct vrb_pd *pd, struct wq_ring *ring, bool *custom)
{
	ring->slots = vrb_pd_memory(pd, ring_bytes(ring), PD_MEMORY_SRQ, custom);
	return ring->slots;
}

static void ring_free(struct vrb_pd *pd, const struct wq_ring *ring, bool custom)
{
	vrb_pd_memory_free(pd, ring->slots, PD_MEMORY_SRQ, custom);
}

int vrb_srq_create(struct vrb_context *ctx, struct ibv_srq_init_attr_ex *attr, struct vrb_srq **out)
{
	struct vrb_srq *srq;
	uint32_t sge;
	int ret = check_attr(ctx, attr);

	if (ret)
		return ret;
	ret = vrb_context_take(ctx, CTX_SRQ, vrb_device_limits.orig_attr.max_srq);
	if (ret)
		return ret;
	ret = ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		goto give_count;
	sge = ring_round_up(attr->attr.max_sge);
	ring_shape(&srq->ring, grant_depth(attr->attr.max_wr), sge, recv_stride(sge));
	if (!ring_alloc(to_vrb_pd(attr->pd), &srq->ring, &srq->custom))
		goto free_srq;
	srq->ctx = ctx;
	srq->type = type_of(attr);
	ret = srq->type == IBV_SRQT_TM ? vrb_tm_create(&attr->tm_cap, &srq->tm) : 0;
	if (!ret)
		ret = number_srq(srq);
	if (ret)
		goto free_ring;
	lock_init(&srq->lock);
	list_init(&srq->node);
	init_public(srq, attr);
	take_references(srq, attr);
	attr->attr.max_wr = srq->ring.limit;
	attr->attr.max_sge = srq->ring.max_sge;
	vrb_live_add(&srq->live, srq, srq->ibv.context, srq->ibv.handle);
	*out = srq;
	return 0;
free_ring:
	vrb_tm_free(srq->tm);
	ring_free(to_vrb_pd(attr->pd), &srq->ring, srq->custom);
free_srq:
	free(srq);
give_count:
	vrb_context_give(ctx, CTX_SRQ);
	return ret;
}

static int in_use(const struct vrb_srq *srq)
{
	return vrb_in_use("ibv_destroy_srq", load_acquire(&srq->users),
			  "QPs, or messages of XRC QPs");
}

int vrb_srq_destroy(struct vrb_srq *srq)
{
	/* After its removal from the domain, an XRC SRQ cannot gain new references. */
	if (srq->xrcd && !vrb_xrcd_del_srq(srq->xrcd, srq)) {
		/* As on a device, which does not wait for the end of messages. */
		vrb.xrc->abandon(srq);
		if (!vrb_xrcd_del_srq(srq->xrcd, srq))
			return in_use(srq);
	}
	if (load_acquire(&srq->users))	/* pairs with fetch_sub in vrb_qp_destroy */
		return in_use(srq);
	vrb_live_del(&srq->live);
	if (srq->cq)
		unlink_cq(srq->cq, srq);
	vrb_event_forget(srq->ctx, &srq->ibv);
	vrb_event_wait_acked(&srq->acks);
	if (srq->cq) {
		vrb_cq_purge(srq->cq, srq);
		fetch_sub_release(&srq->cq->users, 1);
	}
	if (srq->xrcd) {
		vrb_xrcd_put(srq->xrcd);
		host_qpn_free(vrb.host, srq->srqn);
	}
	ring_free(srq->pd, &srq->ring, srq->custom);
	vrb_pd_put(srq->pd);
	vrb_context_give(srq->ctx, CTX_SRQ);
	pthread_mutex_destroy(&srq->ibv.mutex);
	pthread_cond_destroy(&srq->ibv.cond);
	lock_destroy(&srq->lock);
	vrb_tm_free(srq->tm);
	free(srq);
	return 0;
}

bool vrb_srq_failed(const struct vrb_srq *srq)
{
	return load_relaxed(&srq->failed) || (srq->cq && load_relaxed(&srq->cq->overrun));
}

bool vrb_srq_fail(struct vrb_srq *srq)
{
	if (vrb_srq_failed(srq))
		return false;
	store_relaxed(&srq->failed, true);	/* relaxed: a flag that publishes no data */
	vrb_event_srq(&srq->ibv, &srq->acks, IBV_EVENT_SRQ_ERR);
	return true;
}

/* Moves the posted entries to the new ring, whose memory is allocated. */
static void change_ring(struct vrb_srq *srq, const struct wq_ring *to)
{
	for (uint32_t i = srq->tail; i != srq->head; i++)
		memcpy(wq_slot(to, i), wq_slot(&srq->ring, i), to->stride);
	srq->ring = *to;
}

static bool depth_ok(uint32_t depth)
{
	return depth >= 1 && depth <= (uint32_t)vrb_device_limits.orig_attr.max_srq_wr;
}

static bool attr_ok(const struct vrb_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t most = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->ring.limit;

	if (mask & IBV_SRQ_MAX_WR && most < srq->head - srq->tail)
		return false;
	return !(mask & IBV_SRQ_LIMIT) || attr->srq_limit <= most;
}

static int modify_locked(struct vrb_srq *srq, const struct ibv_srq_attr *attr, int mask,
			 const struct wq_ring *ring)
{
	if (!attr_ok(srq, attr, mask))
		return EINVAL;
	if (mask & IBV_SRQ_MAX_WR)
		change_ring(srq, ring);
	if (mask & IBV_SRQ_LIMIT)
		srq->limit = attr->srq_limit;
	return 0;
}

/* Unknown bits of the mask change nothing, as on mlx5 and rxe. */
int vrb_srq_modify(struct vrb_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	bool resizes = mask & IBV_SRQ_MAX_WR, custom = false, unused_custom;
	struct wq_ring ring = { 0 }, unused;
	int ret;

	if (vrb_srq_failed(srq) || (resizes && !depth_ok(attr->max_wr)))
		return EINVAL;
	if (resizes) {
		ring_shape(&ring, grant_depth(attr->max_wr), srq->ring.max_sge, srq->ring.stride);
		if (!ring_alloc(srq->pd, &ring, &custom))
			return ENOMEM;
	}
	lock_acquire(&srq->lock);
	unused = srq->ring;
	unused_custom = srq->custom;
	ret = modify_locked(srq, attr, mask, &ring);
	if (!ret && resizes)
		srq->custom = custom;
	lock_release(&srq->lock);
	if (resizes)
		ring_free(srq->pd, ret ? &ring : &unused, ret ? custom : unused_custom);
	return ret;
}

int vrb_srq_query(struct vrb_srq *srq, struct ibv_srq_attr *attr)
{
	if (vrb_srq_failed(srq))
		return EINVAL;
	lock_acquire(&srq->lock);
	attr->max_wr = srq->ring.limit;
	attr->max_sge = srq->ring.max_sge;
	attr->srq_limit = srq->limit;
	lock_release(&srq->lock);
	return 0;
}

bool vrb_srq_take_locked(struct vrb_srq *srq, struct recv_wqe *copy, uint32_t *index, bool *limit)
{
	const struct recv_wqe *entry;

	*limit = false;
	if (srq->head == srq->tail)
		return false;
	*index = srq->tail++;
	entry = wq_slot(&srq->ring, *index);
	memcpy(copy, entry, recv_stride(entry->num_sge));
	*limit = srq->limit && srq->head - srq->tail < srq->limit;
	if (*limit)
		srq->limit = 0;
	return true;
}

uint32_t vrb_srq_waiting(struct vrb_srq *srq)
{
	uint32_t n;

	lock_acquire(&srq->lock);
	n = srq->head - srq->tail;
	lock_release(&srq->lock);
	return n;
}

bool vrb_srq_take(struct vrb_srq *srq, struct recv_wqe *copy, uint32_t *index)
{
	bool any, limit;

	lock_acquire(&srq->lock);
	any = vrb_srq_take_locked(srq, copy, index, &limit);
	lock_release(&srq->lock);
	if (limit)
		vrb_event_srq(&srq->ibv, &srq->acks, IBV_EVENT_SRQ_LIMIT_REACHED);
	return any;
}

void vrb_cq_add_srq(struct vrb_srq *srq, uint32_t qp_num, uint32_t *released,
		    const struct wq_cqe *wc, uint32_t index, uint64_t now)
{
	struct wq_cqe copy;

	if (tapped()) {
		copy = *wc;
		wc = &copy;
		vrb_tap_complete(&(struct tap_completion){
			.srq = srq, .cq = srq->cq, .index = index, .wc = &copy });
	}
	vrb_cq_add(srq->cq, srq, released, qp_num, wc, now);
}

void vrb_cq_fail_srqs(struct vrb_cq *cq)
{
	struct list *pos;

	lock_acquire(&cq->lock);
	list_for_each (pos, &cq->srqs) {
		struct vrb_srq *srq = list_entry(pos, struct vrb_srq, cq_node);

		vrb_event_srq(&srq->ibv, &srq->acks, IBV_EVENT_SRQ_ERR);
	}
	lock_release(&cq->lock);
}
