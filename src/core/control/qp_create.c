/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP holds references on its PD (or XRC domain), CQs and SRQ from creation to destruction. It
 * enters the QP table last and leaves it first, so a lookup always finds a complete QP.
 */
#include "core/control/qp_create.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/ring.h"
#include "core/base/state.h"
#include "core/control/qp_init.h"
#include "core/cq/async_event.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/fastpath/post.h"
#include "core/local/peer_link.h"
#include "core/mem/pd.h"
#include "core/progress/drain.h"
#include "core/progress/served_qps.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/qp/xrcd.h"
#include "core/raw/raw_port.h"
#include "core/raw/raw_tx.h"
#include "core/raw/rss.h"
#include "core/rx/reorder.h"
#include "core/tx/transport_ops.h"
#include "host/host.h"
#include "util/atomic.h"

static size_t send_stride(const struct ibv_qp_init_attr_ex *a)
{
	return sizeof(struct send_wqe) + a->cap.max_inline_data + qp_init_tso_header(a) +
	       (a->qp_type == IBV_QPT_UD ? sizeof(struct net_path) : 0);
}

/* The copy of an SRQ's entry in use, and with tag matching that of a tagged receive. */
static int make_recv_copies(struct vrb_qp *qp, const struct qp_shape *s)
{
	uint32_t any = vrb_device_limits.orig_attr.max_srq_sge;
	size_t copy = recv_stride(s->shared ? any : qp->config.srq->ring.max_sge);
	bool tags = qp->config.srq && qp->config.srq->tm;
	uint8_t *mem = malloc(copy + (tags ? recv_stride(TAG_MAX_SGE) : 0));

	if (!mem)
		return ENOMEM;
	qp->config.recv_copies = mem;
	qp->recv.srq_wqe = (struct recv_wqe *)mem;
	if (tags)
		qp->recv.arrival.wqe = (struct recv_wqe *)(mem + copy);
	return 0;
}

/*
 * Memory for both rings in one piece from the PD's allocator, if it has one: at once, since it may
 * refuse.
 */
static int make_custom_memory(struct vrb_qp *qp, const struct qp_shape *s)
{
	struct wq_ring *sq = &qp->wq.sq.ring, *rq = &qp->wq.rq.ring;
	size_t sends = sq->slots ? 0 : ring_bytes(sq), receives = ring_bytes(rq);
	enum pd_memory kind = s == &qp_shape_wq ? PD_MEMORY_WQ : PD_MEMORY_QP;
	void *mem;
	int err;

	if (!sends && !receives)
		return 0;
	err = vrb_pd_custom_memory(qp->config.pd, sends + receives, kind, &mem);
	if (err || !mem)
		return err;
	qp->config.rings_kind = kind;
	if (sends)
		sq->slots = mem;
	if (receives)
		rq->slots = (uint8_t *)mem + sends;
	return 0;
}

/*
 * The rings get their memory when the program first posts (ring.h). The device's own send queue of
 * a QP with tag matching has it from the start, because its requests cannot be refused.
 */
static int shape_rings(struct vrb_qp *qp, const struct qp_shape *s)
{
	const struct ibv_qp_cap *cap = &qp->config.init.cap;
	struct wq_ring *sq = &qp->wq.sq.ring, *rq = &qp->wq.rq.ring;

	if (qp->recv.rndv.owner) {
		ring_shape(sq, RNDV_SQ_DEPTH, TAG_MAX_SGE,
			   sizeof(struct send_wqe) + vrb_rndv_wqe_room());
		if (!ring_has_memory(sq))
			return ENOMEM;
	} else if (s->sends) {
		ring_shape(sq, cap->max_send_wr, cap->max_send_sge, send_stride(&qp->config.init));
	}
	if (s->shared || qp->config.srq)
		return make_recv_copies(qp, s);
	if (s->receives)
		ring_shape(rq, cap->max_recv_wr, cap->max_recv_sge,
			   recv_stride(cap->max_recv_sge));
	return 0;
}

static int make_rings(struct vrb_qp *qp, const struct qp_shape *s)
{
	int err = shape_rings(qp, s);

	return err ? err : make_custom_memory(qp, s);
}

static void free_rings(struct vrb_qp *qp)
{
	struct wq_ring *sq = &qp->wq.sq.ring, *rq = &qp->wq.rq.ring;

	if (qp->config.rings_kind) {
		vrb_pd_memory_free(qp->config.pd, sq->slots ? sq->slots : rq->slots,
				   qp->config.rings_kind, true);
	} else {
		free(sq->slots);
		free(rq->slots);
	}
	sq->slots = rq->slots = NULL;
	qp->config.rings_kind = 0;
}

void vrb_qp_init_public(struct vrb_qp *qp)
{
	const struct ibv_qp_init_attr_ex *a = &qp->config.init;

	qp->ibv.context = &qp->config.ctx->vctx.context;
	qp->ibv.qp_context = a->qp_context;
	qp->ibv.pd = qp->config.pd ? a->pd : NULL;
	qp->ibv.send_cq = qp->config.send_cq ? a->send_cq : NULL;
	qp->ibv.recv_cq = qp->config.recv_cq ? a->recv_cq : NULL;
	qp->ibv.srq = qp->config.srq ? a->srq : NULL;
	qp->ibv.handle = qp->wq.qpn;
	qp->ibv.qp_num = qp->wq.qpn;
	qp->ibv.state = IBV_QPS_RESET;
	qp->ibv.qp_type = a->qp_type;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	vrb_event_acks_init(&qp->acks, &qp->ibv.mutex, &qp->ibv.cond, &qp->ibv.events_completed);
}

static void init_wq(struct vrb_qp *qp)
{
	struct wq_qp *wq = &qp->wq;

	wq->has_srq = qp->config.srq;
	wq->use_grh_area = wq->type == IBV_QPT_UD;
	wq->sq.max_inline = qp->config.init.cap.max_inline_data;
	wq->sq.sig_all = qp->config.init.sq_sig_all != 0;
	qp->post.limits = (struct wr_limits){
		.qp_type = wq->type,
		.max_sge = qp->config.init.cap.max_send_sge,
		.max_inline = wq->sq.max_inline,
		.max_msg = wq->max_msg,
		.max_tso_header = qp_init_tso_header(&qp->config.init),
		.pdn = qp->wq.pdn,
	};
}

/* Sets pointers to the QP's objects; takes no references. */
static void note_objects(struct vrb_qp *qp, const struct qp_shape *s)
{
	const struct ibv_qp_init_attr_ex *a = &qp->config.init;

	if (s->shared) {
		qp->config.xrcd = to_vrb_xrcd(a->xrcd);
		qp->config.domain = qp->config.xrcd->domain;
		return;
	}
	qp->config.pd = to_vrb_pd(a->pd);
	qp->wq.pdn = qp->wq.send_pdn = qp->wq.recv_pdn = qp->config.pd->pdn;
	qp->post.senders = vrb_pd_senders(qp->config.pd);
	qp->config.send_cq = s->sends ? to_vrb_cq(a->send_cq) : NULL;
	if (!s->receives)
		return;
	qp->config.recv_cq = a->recv_cq ? to_vrb_cq(a->recv_cq) : NULL;
	if (!a->srq)
		return;
	qp->config.srq = to_vrb_srq(a->srq);
	qp->wq.recv_pdn = qp->config.srq->pd->pdn;
}

static void take_references(struct vrb_qp *qp)
{
	if (qp->config.pd)
		vrb_pd_get(qp->config.pd);
	if (qp->config.send_cq)
		fetch_add_relaxed(&qp->config.send_cq->users, 1);
	if (qp->config.recv_cq)
		fetch_add_relaxed(&qp->config.recv_cq->users, 1);
	if (qp->config.srq)
		fetch_add_relaxed(&qp->config.srq->users, 1);
	if (qp->config.xrcd)
		vrb_xrcd_add_qp(qp->config.xrcd, qp);
}

/* Release: all accesses of this QP precede the destruction of these objects. */
static void drop_references(struct vrb_qp *qp)
{
	if (qp->config.xrcd)
		vrb_xrcd_del_qp(qp->config.xrcd, qp);
	if (qp->config.srq)
		fetch_sub_release(&qp->config.srq->users, 1);
	if (qp->config.recv_cq)
		fetch_sub_release(&qp->config.recv_cq->users, 1);
	if (qp->config.send_cq)
		fetch_sub_release(&qp->config.send_cq->users, 1);
	if (qp->config.pd)
		vrb_pd_put(qp->config.pd);
}

void vrb_qp_free(struct vrb_qp *qp)
{
	pthread_mutex_destroy(&qp->ibv.mutex);
	pthread_cond_destroy(&qp->ibv.cond);
	vrb_qp_fini(qp);
	vrb_rss_destroy(qp->config.rss);
	reorder_free(&qp->recv.reorder);
	free_rings(qp);
	free(qp->config.recv_copies);
	free(qp);
}

static unsigned int next_shard;	/* atomic */

/* The shard of a CQ's QPs, apart from those that must use shard 0; 0 if it has none yet. */
static unsigned int shard_of(const struct vrb_cq *cq)
{
	uint32_t own = load_relaxed(&cq->shards) >> 1;

	return own ? 1 + (unsigned int)__builtin_ctz(own) : 0;
}

/*
 * All QPs of a CQ share a shard, so that a poller checks one rx queue. QPs that receive frames, or
 * take packets under vrb.poll_lock, use shard 0.
 */
static unsigned int choose_shard(const struct vrb_qp *qp)
{
	const struct vrb_cq *recv = qp->config.recv_cq, *send = qp->config.send_cq;
	unsigned int shard;

	if (!recv || !send || qp->config.domain || qp->config.init.qp_type == IBV_QPT_RAW_PACKET)
		return 0;
	shard = shard_of(recv);
	if (!shard)
		shard = shard_of(send);
	return shard ? shard : 1 + fetch_add_relaxed(&next_shard, 1) % (HOST_SHARDS - 1);
}

/* A QP whose home can move to another process gets its own block of QP numbers. */
static int number(struct vrb_qp *qp)
{
	if (qp->config.domain && qp->config.domain->has_inode)
		return host_qpn_alloc_alone(vrb.host, &qp->wq.qpn);
	qp->config.shard = (uint8_t)choose_shard(qp);
	if (qp->config.recv_cq)
		fetch_or_acq_rel(&qp->config.recv_cq->shards, 1u << qp->config.shard);
	if (qp->config.send_cq)
		fetch_or_acq_rel(&qp->config.send_cq->shards, 1u << qp->config.shard);
	return host_qpn_alloc(vrb.host, qp->config.shard, &qp->wq.qpn);
}

static int build(struct vrb_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		 const struct qp_shape *s)
{
	int ret;

	qp->config.init = *attr;
	if (!qp_init_has(attr, IBV_QP_INIT_ATTR_CREATE_FLAGS))
		qp->config.init.create_flags = 0;
	qp->recv.strips_vlan = qp->config.init.create_flags & IBV_QP_CREATE_CVLAN_STRIPPING;
	if (qp_init_has(attr, QP_INIT_RSS)) {
		ret = vrb_rss_create(qp->config.ctx, attr, &qp->config.rss);
		if (ret)
			return ret;
	}
	note_objects(qp, s);
	/* A QP with tag matching but without a send queue uses one of the device's. */
	vrb_rndv_init(qp, qp->config.srq && qp->config.srq->tm && !attr->cap.max_send_wr);
	qp_init_grant(&qp->config.init.cap, s, qp->config.srq);
	if (qp->recv.rndv.owner)
		qp->config.init.cap.max_send_wr = 0;
	ret = make_rings(qp, s);
	if (ret)
		return ret;
	ret = qp->wq.qpn ? 0 : number(qp);
	if (ret)
		return ret;
	vrb_qp_init_public(qp);
	init_wq(qp);
	qp->config.wr_calls = s->sends && qp_init_has(attr, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
	if (qp->config.wr_calls)
		vrb_wr_ex_init(qp);
	return 0;
}

static bool is_raw(enum ibv_qp_type type)
{
	return type == IBV_QPT_RAW_PACKET;
}

/* Numbers the QPs that the program creates, not those that the library creates for itself. */
static uint32_t next_place(void)
{
	static uint32_t created;

	return fetch_add_relaxed(&created, 1) + 1;
}

/* A UD QP and what only such a QP has: more than a kilobyte, which connected QPs do without. */
struct datagram_qp {
	struct vrb_qp qp;	/* first: freed as one */
	struct roce_ud ud;
	struct ud_dest dest[UD_DESTS];
};

static struct vrb_qp *new_qp(struct vrb_context *ctx, enum ibv_qp_type type,
			     const struct vrb_qp_hooks *hooks)
{
	struct datagram_qp *d = NULL;
	struct vrb_qp *qp;

	if (type == IBV_QPT_UD)
		qp = (struct vrb_qp *)(d = calloc(1, sizeof(*d)));
	else
		qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	if (d) {
		roce_set_ud(&qp->roce, &d->ud);
		qp->peer.ud = d->dest;
	}
	vrb_qp_init(qp, type, is_raw(type) ? &vrb_raw_ops : &vrb_transport_ops);
	qp->config.ctx = ctx;
	qp->config.hooks = hooks;
	return qp;
}

static int create(struct vrb_context *ctx, struct ibv_qp_init_attr_ex *attr,
		  const struct qp_shape *s, const struct vrb_qp_hooks *hooks, struct vrb_qp **out)
{
	struct vrb_qp *qp;
	int ret = qp_init_check(ctx, attr, s);

	if (ret)
		return ret;
	ret = vrb_context_take(ctx, CTX_QP, vrb_device_limits.orig_attr.max_qp);
	if (ret)
		return ret;
	if (is_raw(attr->qp_type))
		ret = vrb_raw_get(ctx->dev);
	if (ret)
		goto give_count;
	ret = ENOMEM;
	qp = new_qp(ctx, attr->qp_type, hooks);
	if (!qp)
		goto put_raw;
	ret = build(qp, attr, s);
	if (ret)
		goto free_memory;
	qp->config.place = next_place();
	ret = vrb_progress_add_qp(qp);
	if (ret)
		goto free_number;
	take_references(qp);
	attr->cap = qp->config.init.cap;
	vrb_live_add(&qp->live, qp, qp->ibv.context, qp->ibv.handle);
	*out = qp;
	return 0;
free_number:
	host_qpn_free(vrb.host, qp->wq.qpn);
free_memory:
	vrb_qp_free(qp);
put_raw:
	if (is_raw(attr->qp_type))
		vrb_raw_put(ctx->dev);
give_count:
	vrb_context_give(ctx, CTX_QP);
	return ret;
}

int vrb_qp_create(struct vrb_context *ctx, struct ibv_qp_init_attr_ex *attr,
		  const struct vrb_qp_hooks *hooks, struct vrb_qp **out)
{
	return create(ctx, attr, qp_shape_of(attr), hooks, out);
}

int vrb_qp_create_wq(struct vrb_context *ctx, struct ibv_wq_init_attr *attr,
		     const struct vrb_qp_hooks *hooks, struct vrb_qp **out)
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
	int ret = create(ctx, &ex, &qp_shape_wq, hooks, out);

	if (!ret) {
		attr->max_wr = ex.cap.max_recv_wr;
		attr->max_sge = ex.cap.max_recv_sge;
	}
	return ret;
}

struct vrb_qp *vrb_qp_new_receiver(struct vrb_context *ctx, struct vrb_xrcd *xrcd, uint32_t qpn,
				   const struct vrb_qp_hooks *hooks)
{
	const struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = &xrcd->ibv,
	};
	struct vrb_qp *qp = new_qp(ctx, attr.qp_type, hooks);

	if (!qp)
		return NULL;
	qp->config.imported = true;
	qp->wq.qpn = qpn;
	if (!build(qp, &attr, qp_shape_of(&attr)))
		return qp;
	vrb_qp_free(qp);
	return NULL;
}

void vrb_qp_enter_domain(struct vrb_qp *qp)
{
	take_references(qp);
}

/* Afterwards the QP has no packets, timers or completions. */
static void stop(struct vrb_qp *qp)
{
	vrb_progress_remove_qp(qp);
	lock_acquire(&qp->lock);
	if (qp->config.hooks && qp->config.hooks->release)
		qp->config.hooks->release(qp);
	vrb_peer_drop(qp);
	vrb_qp_drop_wqe(qp);
	if (qp->recv.rndv.owner)
		vrb_rndv_abandon(qp);
	lock_release(&qp->lock);
	if (qp->config.send_cq)
		vrb_cq_purge(qp->config.send_cq, qp);
	if (qp->config.recv_cq && qp->config.recv_cq != qp->config.send_cq)
		vrb_cq_purge(qp->config.recv_cq, qp);
}

void vrb_qp_wait_for_acks(struct vrb_qp *qp)
{
	vrb_event_forget(qp->config.ctx, &qp->ibv);
	vrb_event_wait_acked(&qp->acks);
}

void vrb_qp_teardown(struct vrb_qp *qp)
{
	struct vrb_context *ctx = qp->config.ctx;
	bool imported = qp->config.imported;

	vrb_drain_qp(qp);
	stop(qp);
	vrb_qp_wait_for_acks(qp);
	host_qpn_free(vrb.host, qp->wq.qpn);
	vrb_cntr_release(qp->comp.cntr);
	free_rings(qp);		/* the PD may go with its reference */
	drop_references(qp);
	if (is_raw(qp->wq.type))
		vrb_raw_put(ctx->dev);
	vrb_qp_free(qp);
	if (!imported)
		vrb_context_give(ctx, CTX_QP);
}

/* The multicast groups that the QP is attached to, and the flows that name it. */
static unsigned int in_use(struct vrb_qp *qp)
{
	unsigned int n;

	lock_acquire(&vrb.poll_lock);
	n = qp->dispatch.groups + qp->dispatch.flows;
	lock_release(&vrb.poll_lock);
	return n;
}

int vrb_qp_destroy(struct vrb_qp *qp)
{
	unsigned int users = in_use(qp);

	if (users)
		return vrb_in_use("ibv_destroy_qp", users, "multicast groups, flows");
	vrb_live_del(&qp->live);
	vrb_qp_teardown(qp);
	return 0;
}
