/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creation and destruction of queue pairs, and handles of shared ones.
 *
 * A QP holds references on its PD (or XRC domain), CQs and SRQ from creation to destruction.  It
 * enters the QP-number table last and leaves it first, so whoever finds it there finds it whole.
 */
#include "core/qp.h"

#include <errno.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/cq.h"
#include "core/device.h"
#include "core/drive.h"
#include "core/event.h"
#include "core/held.h"
#include "core/linger.h"
#include "core/pd.h"
#include "core/post.h"
#include "core/process.h"
#include "core/qp_init.h"
#include "core/raw_port.h"
#include "core/ring.h"
#include "core/rwq.h"
#include "core/srq.h"
#include "core/xrc/afar.h"
#include "core/xrc/loan.h"
#include "core/xrc/opener.h"
#include "core/xrc/xrcd.h"
#include "host/host.h"
#include "util/atomic.h"

enum {
	OPEN_MASK = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_CONTEXT |
		    IBV_QP_OPEN_ATTR_TYPE,
	OPEN_NEEDS = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
};

static size_t send_stride(const struct ibv_qp_init_attr_ex *a)
{
	return sizeof(struct send_wqe) + a->cap.max_inline_data + qp_init_tso_header(a) +
	       (a->qp_type == IBV_QPT_UD ? sizeof(struct net_path) : 0);
}

/* One piece of memory: send ring, receive ring or the copy of an SRQ's entry. */
static int make_rings(struct vrb_qp *qp, const struct qp_shape *s)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;
	struct wq_ring *sq = &qp->wq.sq.ring, *rq = &qp->wq.rq.ring;
	size_t sq_bytes = 0, rq_bytes = 0, copy_bytes = 0, tag_bytes = 0;
	uint8_t *mem;

	if (qp->rndv.owner) {
		ring_shape(sq, RNDV_SQ_DEPTH, TAG_MAX_SGE,
			   sizeof(struct send_wqe) + vrb_rndv_wqe_room());
		sq_bytes = ring_bytes(sq);
	} else if (s->sends) {
		ring_shape(sq, cap->max_send_wr, cap->max_send_sge, send_stride(&qp->init));
		sq_bytes = ring_bytes(sq);
	}
	if (s->shared || qp->srq) {
		uint32_t any = vrb_device_limits.orig_attr.max_srq_sge;

		copy_bytes = recv_stride(s->shared ? any : qp->srq->ring.max_sge);
	} else if (s->receives) {
		ring_shape(rq, cap->max_recv_wr, cap->max_recv_sge,
			   recv_stride(cap->max_recv_sge));
		rq_bytes = ring_bytes(rq);
	}
	if (qp->srq && qp->srq->tm)
		tag_bytes = recv_stride(TAG_MAX_SGE);
	mem = malloc(sq_bytes + rq_bytes + copy_bytes + tag_bytes);
	if (!mem)
		return ENOMEM;
	qp->rings = mem;
	sq->slots = mem;
	rq->slots = mem + sq_bytes;
	qp->copy = copy_bytes ? (struct recv_wqe *)(mem + sq_bytes + rq_bytes) : NULL;
	if (tag_bytes)
		qp->arrival.wqe = (struct recv_wqe *)(mem + sq_bytes + rq_bytes + copy_bytes);
	return 0;
}

struct recv_wqe *vrb_qp_any_copy(void)
{
	return malloc(recv_stride(vrb_device_limits.orig_attr.max_srq_sge));
}

static void init_public(struct vrb_qp *qp)
{
	const struct ibv_qp_init_attr_ex *a = &qp->init;

	qp->ibv.context = &qp->ctx->vctx.context;
	qp->ibv.qp_context = a->qp_context;
	qp->ibv.pd = qp->pd ? a->pd : NULL;
	qp->ibv.send_cq = qp->send_cq ? a->send_cq : NULL;
	qp->ibv.recv_cq = qp->recv_cq ? a->recv_cq : NULL;
	qp->ibv.srq = qp->srq ? a->srq : NULL;
	qp->ibv.handle = qp->wq.qpn;
	qp->ibv.qp_num = qp->wq.qpn;
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = a->qp_type;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
}

static void init_wq(struct vrb_qp *qp)
{
	struct wq_qp *wq = &qp->wq;

	wq->ops = &vrb_qp_ops;
	wq->type = qp->init.qp_type;
	wq->state = IBV_QPS_RESET;
	qp->near.retry = VRB_NEVER;
	qp->near.from_slot = -1;
	wq->mig_state = IBV_MIG_MIGRATED;
	wq->max_msg = VRB_MAX_MSG;
	wq->has_srq = qp->srq;
	wq->use_grh_area = wq->type == IBV_QPT_UD;
	wq->sq.max_inline = qp->init.cap.max_inline_data;
	wq->sq.sig_all = qp->init.sq_sig_all != 0;
	qp->limits = (struct wr_limits){
		.qp_type = wq->type,
		.max_sge = qp->init.cap.max_send_sge,
		.max_inline = wq->sq.max_inline,
		.max_msg = wq->max_msg,
		.max_tso_header = qp_init_tso_header(&qp->init),
		.pdn = qp->wq.pdn,
	};
}

/* Pointers to what the QP uses; no references yet. */
static void note_objects(struct vrb_qp *qp, const struct qp_shape *s)
{
	const struct ibv_qp_init_attr_ex *a = &qp->init;

	if (s->shared) {
		qp->xrcd = to_vrb_xrcd(a->xrcd);
		qp->domain = qp->xrcd->domain;
		return;
	}
	qp->pd = to_vrb_pd(a->pd);
	qp->wq.pdn = qp->wq.send_pdn = qp->wq.recv_pdn = qp->pd->pdn;
	qp->send_cq = s->sends ? to_vrb_cq(a->send_cq) : NULL;
	if (!s->receives)
		return;
	qp->recv_cq = a->recv_cq ? to_vrb_cq(a->recv_cq) : NULL;
	if (!a->srq)
		return;
	qp->srq = to_vrb_srq(a->srq);
	qp->wq.recv_pdn = qp->srq->pd->pdn;
}

static void take_references(struct vrb_qp *qp)
{
	if (qp->pd)
		vrb_pd_get(qp->pd);
	if (qp->send_cq)
		fetch_add_relaxed(&qp->send_cq->users, 1);
	if (qp->recv_cq)
		fetch_add_relaxed(&qp->recv_cq->users, 1);
	if (qp->srq)
		fetch_add_relaxed(&qp->srq->users, 1);
	if (qp->xrcd)
		vrb_xrcd_add_qp(qp->xrcd, qp);
}

/* Release: what this QP did to them comes before whoever destroys them next. */
static void drop_references(struct vrb_qp *qp)
{
	if (qp->xrcd)
		vrb_xrcd_del_qp(qp->xrcd, qp);
	if (qp->srq)
		fetch_sub_release(&qp->srq->users, 1);
	if (qp->recv_cq)
		fetch_sub_release(&qp->recv_cq->users, 1);
	if (qp->send_cq)
		fetch_sub_release(&qp->send_cq->users, 1);
	if (qp->pd)
		vrb_pd_put(qp->pd);
}

static void free_qp(struct vrb_qp *qp)
{
	pthread_mutex_destroy(&qp->ibv.mutex);
	pthread_cond_destroy(&qp->ibv.cond);
	lock_destroy(&qp->lock);
	lock_destroy(&qp->batch.lock);
	vrb_rss_destroy(qp->rss);
	held_free(&qp->held);
	free(qp->rd_atomic);
	free(qp->rings);
	free(qp);
}

static unsigned int next_shard;	/* atomic */

/* That a CQ's QPs are of, as a rule all; 0: none but those that have to be of shard 0. */
static unsigned int shard_of(const struct vrb_cq *cq)
{
	uint32_t own = load_relaxed(&cq->shards) >> 1;

	return own ? 1 + (unsigned int)__builtin_ctz(own) : 0;
}

/*
 * The QPs of a CQ are of one shard, so that who polls it has one receiver to look at.  Those that take frames, or need vrb.drive to take a
 * packet, are of shard 0.
 */
static unsigned int choose_shard(const struct vrb_qp *qp)
{
	const struct vrb_cq *recv = qp->recv_cq, *send = qp->send_cq;
	unsigned int shard;

	if (!recv || !send || qp->domain || qp->init.qp_type == IBV_QPT_RAW_PACKET)
		return 0;
	shard = shard_of(recv);
	if (!shard)
		shard = shard_of(send);
	return shard ? shard : 1 + fetch_add_relaxed(&next_shard, 1) % (HOST_SHARDS - 1);
}

/* A QP whose home can move to another process has a block of numbers for itself. */
static int number(struct vrb_qp *qp)
{
	if (qp->domain && qp->domain->has_inode)
		return host_qpn_alloc_alone(vrb.host, &qp->wq.qpn);
	qp->shard = (uint8_t)choose_shard(qp);
	if (qp->recv_cq)
		fetch_or_acq_rel(&qp->recv_cq->shards, 1u << qp->shard);
	if (qp->send_cq)
		fetch_or_acq_rel(&qp->send_cq->shards, 1u << qp->shard);
	return host_qpn_alloc(vrb.host, qp->shard, &qp->wq.qpn);
}

static int build(struct vrb_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		 const struct qp_shape *s)
{
	int ret;

	qp->target = qp;
	qp->init = *attr;
	if (!qp_init_has(attr, IBV_QP_INIT_ATTR_CREATE_FLAGS))
		qp->init.create_flags = 0;
	qp->strips = qp->init.create_flags & IBV_QP_CREATE_CVLAN_STRIPPING;
	if (qp_init_has(attr, QP_INIT_RSS)) {
		ret = vrb_rss_create(qp->ctx, attr, &qp->rss);
		if (ret)
			return ret;
	}
	note_objects(qp, s);
	/* With no send queue of its own, a QP that matches tags gets one of the device's. */
	vrb_rndv_init(qp, qp->srq && qp->srq->tm && !attr->cap.max_send_wr);
	qp_init_grant(&qp->init.cap, s, qp->srq);
	ret = make_rings(qp, s);
	if (ret)
		return ret;
	ret = qp->wq.qpn ? 0 : number(qp);
	if (ret)
		return ret;
	list_init(&qp->touched);
	list_init(&qp->xrc_node);
	list_init(&qp->raw.node);
	list_init(&qp->openers);
	list_init(&qp->handle_list);
	init_public(qp);
	init_wq(qp);
	roce_qp_init(&qp->roce, &qp->wq, NULL, 0);
	if (qp_init_has(attr, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
		qp->send_ops = attr->send_ops_flags;
		vrb_wr_ex_init(qp);
	}
	return 0;
}

static bool is_raw(enum ibv_qp_type type)
{
	return type == IBV_QPT_RAW_PACKET;
}

static int create(struct vrb_context *ctx, struct ibv_qp_init_attr_ex *attr, const struct qp_shape *s,
		  struct vrb_qp **out)
{
	struct vrb_qp *qp;
	int ret = qp_init_check(ctx, attr, s);

	if (ret)
		return ret;
	ret = vrb_context_take(ctx, &ctx->n_qp, vrb_device_limits.orig_attr.max_qp);
	if (ret)
		return ret;
	if (is_raw(attr->qp_type))
		ret = vrb_raw_get(ctx->dev);
	if (ret)
		goto give_count;
	ret = ENOMEM;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		goto put_raw;
	qp->ctx = ctx;
	lock_init(&qp->lock);
	lock_init(&qp->batch.lock);
	ret = build(qp, attr, s);
	if (ret)
		goto free_memory;
	ret = vrb_drive_insert(qp);
	if (ret)
		goto free_number;
	take_references(qp);
	attr->cap = qp->init.cap;
	vrb_live_add(&qp->live, qp, qp->ibv.context, qp->ibv.handle);
	*out = qp;
	return 0;
free_number:
	host_qpn_free(vrb.host, qp->wq.qpn);
free_memory:
	free_qp(qp);
put_raw:
	if (is_raw(attr->qp_type))
		vrb_raw_put(ctx->dev);
give_count:
	vrb_context_give(ctx, &ctx->n_qp);
	return ret;
}

int vrb_qp_create(struct vrb_context *ctx, struct ibv_qp_init_attr_ex *attr, struct vrb_qp **out)
{
	return create(ctx, attr, qp_shape_of(attr), out);
}

int vrb_qp_create_wq(struct vrb_context *ctx, struct ibv_wq_init_attr *attr, struct vrb_qp **out)
{
	bool strips = (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) &&
		      (attr->create_flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->wq_context,
		.qp_type = IBV_QPT_RAW_PACKET,
		.recv_cq = attr->cq,
		.cap = { .max_recv_wr = attr->max_wr, .max_recv_sge = attr->max_sge },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = attr->pd,
		.create_flags = strips ? IBV_QP_CREATE_CVLAN_STRIPPING : 0,
	};
	int ret = create(ctx, &ex, &qp_shape_wq, out);

	if (!ret) {
		attr->max_wr = ex.cap.max_recv_wr;
		attr->max_sge = ex.cap.max_recv_sge;
	}
	return ret;
}

struct vrb_qp *vrb_qp_new_receiver(struct vrb_context *ctx, struct vrb_xrcd *xrcd, uint32_t qpn)
{
	const struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = &xrcd->ibv,
	};
	struct vrb_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->ctx = ctx;
	qp->adopted = true;
	qp->wq.qpn = qpn;
	lock_init(&qp->lock);
	lock_init(&qp->batch.lock);
	if (!build(qp, &attr, qp_shape_of(&attr)))
		return qp;
	free_qp(qp);
	return NULL;
}

void vrb_qp_free_new(struct vrb_qp *qp)
{
	free_qp(qp);
}

void vrb_qp_enter_domain(struct vrb_qp *qp)
{
	take_references(qp);
}

static struct vrb_qp *new_handle(struct vrb_context *ctx, const struct ibv_qp_open_attr *attr)
{
	struct vrb_qp *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->ctx = ctx;
	handle->target = handle;
	handle->xrcd = to_vrb_xrcd(attr->xrcd);
	handle->wq.qpn = attr->qp_num & ROCE_QPN_MASK;
	handle->init.qp_type = IBV_QPT_XRC_RECV;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		handle->init.qp_context = attr->qp_context;
	lock_init(&handle->lock);
	lock_init(&handle->batch.lock);
	init_public(handle);
	return handle;
}

/* A handle has nothing of its own but what the program sees. */
int vrb_qp_open(struct vrb_context *ctx, const struct ibv_qp_open_attr *attr, struct vrb_qp **out)
{
	struct vrb_qp *handle, *target;
	int err = 0;

	if (attr->comp_mask & ~OPEN_MASK || (attr->comp_mask & OPEN_NEEDS) != OPEN_NEEDS ||
	    attr->qp_type != IBV_QPT_XRC_RECV || !attr->xrcd ||
	    attr->xrcd->context != &ctx->vctx.context)
		return EINVAL;
	handle = new_handle(ctx, attr);
	if (!handle)
		return ENOMEM;
	target = vrb_xrcd_open_qp(handle->xrcd, attr->qp_num, handle);
	if (target) {
		handle->target = target;
		lock_acquire(&target->lock);
		handle->ibv.state = target->wq.state;
		lock_release(&target->lock);
	} else {
		handle->afar = true;
		err = vrb_afar_open(handle);
	}
	if (err) {
		free_qp(handle);
		return err;
	}
	vrb_xrcd_get(handle->xrcd);
	vrb_live_add(&handle->live, handle, handle->ibv.context, handle->ibv.handle);
	*out = handle;
	return 0;
}

/* No packet, timer or completion of the QP is left after this. */
static void stop(struct vrb_qp *qp)
{
	vrb_drive_remove(qp);
	lock_acquire(&qp->lock);
	vrb_loan_drop(qp);
	vrb_opener_drop(qp);
	vrb_near_drop(qp);
	vrb_qp_drop_taken(qp);
	if (qp->rndv.owner)
		vrb_rndv_abandon(qp);
	lock_release(&qp->lock);
	if (qp->send_cq)
		vrb_cq_purge(qp->send_cq, qp);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		vrb_cq_purge(qp->recv_cq, qp);
}

static void wait_for_acks(struct vrb_qp *qp)
{
	vrb_event_forget(qp->ctx, &qp->ibv);
	vrb_event_wait_acked(&qp->ibv.mutex, &qp->ibv.cond, &qp->ibv.events_completed);
}

static void destroy_real(struct vrb_qp *qp)
{
	struct vrb_context *ctx = qp->ctx;
	bool adopted = qp->adopted;

	vrb_linger_qp(qp);
	vrb_opener_inherit(qp);
	stop(qp);
	wait_for_acks(qp);
	host_qpn_free(vrb.host, qp->wq.qpn);
	vrb_cntr_release(qp);
	drop_references(qp);
	if (is_raw(qp->wq.type))
		vrb_raw_put(ctx->dev);
	free_qp(qp);
	if (!adopted)
		vrb_context_give(ctx, &ctx->n_qp);
}

/* By multicast groups or flows. */
static bool in_use(struct vrb_qp *qp)
{
	bool used;

	lock_acquire(&vrb.drive);
	used = qp->groups || qp->flows;
	lock_release(&vrb.drive);
	return used;
}

/* The shared QP lives in its creator's domain handle, which it keeps open. */
static void destroy_handle(struct vrb_qp *handle)
{
	struct vrb_qp *target;

	if (!handle->afar || !vrb_afar_close(handle)) {
		target = load_acquire(&handle->target);
		if (vrb_xrcd_close_qp(target, handle))
			destroy_real(target);
	}
	wait_for_acks(handle);
	vrb_xrcd_put(handle->xrcd);
	free_qp(handle);
}

int vrb_qp_destroy(struct vrb_qp *qp)
{
	if (qp->afar || qp->target != qp) {
		vrb_live_del(&qp->live);
		destroy_handle(qp);
		return 0;
	}
	if (in_use(qp))
		return EBUSY;
	vrb_live_del(&qp->live);
	if (qp->xrcd && !vrb_xrcd_close_qp(qp, qp))
		wait_for_acks(qp);	/* handles are left; the last one destroys it */
	else
		destroy_real(qp);
	return 0;
}
