/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues and tables of them; rwq.h has the contract. */
#include "core/rwq.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/event.h"
#include "core/pd.h"
#include "core/post.h"
#include "core/qp_modify.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	STATES = IBV_WQS_ERR + 1,
	ATTR_MASK = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS,
	/*
	 * There is no FCS to scatter, no bus to pad for, and frames wait in the interface's ring
	 * for whoever takes them but not for receives to be posted.
	 */
	SUPPORTED_FLAGS = IBV_WQ_FLAGS_CVLAN_STRIPPING,
	MAX_LOG_TABLE = 9,
};

_Static_assert(1 << MAX_LOG_TABLE == VRB_MAX_RWQ_TABLE_SIZE, "what the device tells");

/* Where a work queue may go from where it is. */
static const bool legal[STATES][STATES] = {
	[IBV_WQS_RESET] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true },
	[IBV_WQS_RDY] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true, [IBV_WQS_ERR] = true },
	[IBV_WQS_ERR] = { [IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true },
};

static int check_attr(struct vrb_context *ctx, const struct ibv_wq_init_attr *a)
{
	const struct ibv_context *c = &ctx->vctx.context;

	if (a->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS || a->wq_type != IBV_WQT_RQ)
		return EINVAL;
	if (vrb_pd_check(a->pd) || a->pd->context != c || !a->cq || a->cq->context != c ||
	    !a->max_wr)
		return EINVAL;
	if (a->comp_mask & IBV_WQ_INIT_ATTR_FLAGS && a->create_flags & ~(uint32_t)SUPPORTED_FLAGS)
		return EOPNOTSUPP;
	return 0;
}

/* A move from RESET to RDY empties a work queue, as on mlx5: what is posted before it would be lost. */
static int takes_receives(const struct vrb_wq *wq)
{
	bool reset;

	lock_acquire(&wq->qp->lock);
	reset = wq->qp->wq.state == IBV_QPS_RESET;
	lock_release(&wq->qp->lock);
	return reset ? EINVAL : 0;
}

static int post_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *unwanted;
	int err = vrb_context_check(wq->context);

	if (!bad)
		bad = &unwanted;
	if (likely(!err))
		err = takes_receives(to_vrb_wq(wq));
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	return vrb_post_recv(to_vrb_wq(wq)->qp, wr, bad);
}

int vrb_wq_create(struct vrb_context *ctx, struct ibv_wq_init_attr *attr, struct vrb_wq **out)
{
	struct vrb_wq *wq;
	int err = check_attr(ctx, attr);

	if (err)
		return err;
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return ENOMEM;
	err = vrb_qp_create_wq(ctx, attr, &wq->qp);
	if (err) {
		free(wq);
		return err;
	}
	wq->ctx = ctx;
	wq->ibv = (struct ibv_wq){
		.context = &ctx->vctx.context,
		.wq_context = attr->wq_context,
		.pd = attr->pd,
		.cq = attr->cq,
		.wq_num = wq->qp->wq.qpn,
		.handle = wq->qp->wq.qpn,
		.state = IBV_WQS_RESET,
		.wq_type = IBV_WQT_RQ,
		.post_recv = post_recv,
	};
	wq->qp->work_queue = wq;
	*out = wq;
	return 0;
}

static enum ibv_wq_state state_of(const struct vrb_wq *wq)
{
	switch (wq->qp->wq.state) {
	case IBV_QPS_RTR:
		return IBV_WQS_RDY;
	case IBV_QPS_ERR:
		return IBV_WQS_ERR;
	default:
		return IBV_WQS_RESET;
	}
}

/* Where the change of flags is understood but not what it wants, EOPNOTSUPP. */
static int check_modify(const struct vrb_wq *wq, const struct ibv_wq_attr *a,
			enum ibv_wq_state *next)
{
	enum ibv_wq_state cur = state_of(wq);

	if (!a->attr_mask || a->attr_mask & ~(uint32_t)ATTR_MASK)
		return EINVAL;
	if (a->attr_mask & IBV_WQ_ATTR_CURR_STATE && a->curr_wq_state != cur)
		return EINVAL;
	*next = a->attr_mask & IBV_WQ_ATTR_STATE ? a->wq_state : cur;
	if ((unsigned int)*next >= STATES || !legal[cur][*next])
		return EINVAL;
	if (a->attr_mask & IBV_WQ_ATTR_FLAGS && a->flags_mask & ~(uint32_t)SUPPORTED_FLAGS)
		return EOPNOTSUPP;
	return 0;
}

static int qp_to(struct vrb_wq *wq, enum ibv_qp_state state, int more)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = VRB_PORT_NUM };

	return vrb_qp_modify(wq->qp, &attr, IBV_QP_STATE | more);
}

static int go(struct vrb_wq *wq, enum ibv_wq_state next)
{
	int err;

	if (next == state_of(wq) && next != IBV_WQS_RESET)
		return 0;
	switch (next) {
	case IBV_WQS_RDY:
		err = qp_to(wq, IBV_QPS_INIT, IBV_QP_PORT);
		return err ? err : qp_to(wq, IBV_QPS_RTR, 0);
	case IBV_WQS_ERR:
		return qp_to(wq, IBV_QPS_ERR, 0);
	default:
		return qp_to(wq, IBV_QPS_RESET, 0);
	}
}

static void set_flags(struct vrb_wq *wq, const struct ibv_wq_attr *a)
{
	if (!(a->flags_mask & IBV_WQ_FLAGS_CVLAN_STRIPPING))
		return;
	lock_acquire(&wq->qp->lock);
	wq->qp->strips = a->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING;
	lock_release(&wq->qp->lock);
}

int vrb_wq_modify(struct vrb_wq *wq, const struct ibv_wq_attr *attr)
{
	enum ibv_wq_state next;
	int err = check_modify(wq, attr, &next);

	if (!err)
		err = go(wq, next);
	if (err)
		return err;
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS)
		set_flags(wq, attr);
	wq->ibv.state = state_of(wq);
	return 0;
}

int vrb_wq_destroy(struct vrb_wq *wq)
{
	int err;

	if (load_acquire(&wq->users)) /* pairs with vrb_rwq_table_destroy() */
		return EBUSY;
	err = vrb_qp_destroy(wq->qp);
	if (err)
		return err;
	vrb_event_forget(wq->ctx, &wq->ibv);
	vrb_event_wait_acked(&wq->ibv.mutex, &wq->ibv.cond, &wq->ibv.events_completed);
	pthread_mutex_destroy(&wq->ibv.mutex);
	pthread_cond_destroy(&wq->ibv.cond);
	free(wq);
	return 0;
}

void vrb_wq_failed(struct vrb_wq *wq)
{
	wq->ibv.state = IBV_WQS_ERR;
	vrb_event_wq(&wq->ibv, IBV_EVENT_WQ_FATAL);
}

static int check_table(struct vrb_context *ctx, const struct ibv_rwq_ind_table_init_attr *a)
{
	if (a->comp_mask || a->log_ind_tbl_size > MAX_LOG_TABLE || !a->ind_tbl)
		return EINVAL;
	for (uint32_t i = 0; i < 1u << a->log_ind_tbl_size; i++) {
		if (!a->ind_tbl[i] || a->ind_tbl[i]->context != &ctx->vctx.context)
			return EINVAL;
	}
	return 0;
}

int vrb_rwq_table_create(struct vrb_context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
			 struct vrb_rwq_table **out)
{
	static uint32_t next_number;
	uint32_t n = 1u << (attr->log_ind_tbl_size & 31);
	struct vrb_rwq_table *t;
	int err = check_table(ctx, attr);

	if (!err)
		err = vrb_context_take(ctx, &ctx->n_rwq_table, VRB_MAX_RWQ_TABLES);
	if (err)
		return err;
	t = calloc(1, sizeof(*t) + n * sizeof(t->wq[0]));
	if (!t) {
		vrb_context_give(ctx, &ctx->n_rwq_table);
		return ENOMEM;
	}
	t->ctx = ctx;
	t->mask = n - 1;
	for (uint32_t i = 0; i < n; i++) {
		t->wq[i] = to_vrb_wq(attr->ind_tbl[i]);
		fetch_add_relaxed(&t->wq[i]->users, 1);
	}
	t->ibv.context = &ctx->vctx.context;
	t->ibv.ind_tbl_num = t->ibv.ind_tbl_handle = (int)fetch_add_relaxed(&next_number, 1);
	*out = t;
	return 0;
}

int vrb_rwq_table_destroy(struct vrb_rwq_table *t)
{
	if (load_acquire(&t->users)) /* pairs with vrb_rss_destroy() */
		return EBUSY;
	for (uint32_t i = 0; i <= t->mask; i++)
		fetch_sub_release(&t->wq[i]->users, 1);
	vrb_context_give(t->ctx, &t->ctx->n_rwq_table);
	free(t);
	return 0;
}

/* It has no queue of its own, neither to send nor to receive. */
static int check_rss(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_qp_cap *cap = &a->cap;

	if (a->comp_mask & (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER))
		return EINVAL;
	if (!a->rwq_ind_tbl || a->rwq_ind_tbl->context != &ctx->vctx.context || a->srq)
		return EINVAL;
	return cap->max_send_wr || cap->max_recv_wr || cap->max_recv_sge ? EINVAL : 0;
}

int vrb_rss_create(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *attr,
		   struct vrb_rss **out)
{
	struct vrb_rss *rss;
	int err = check_rss(ctx, attr);

	if (err)
		return err;
	rss = calloc(1, sizeof(*rss));
	if (!rss)
		return ENOMEM;
	err = flow_hash_init(&rss->hash, &attr->rx_hash_conf);
	if (err) {
		free(rss);
		return err;
	}
	rss->table = to_vrb_rwq_table(attr->rwq_ind_tbl);
	fetch_add_relaxed(&rss->table->users, 1);
	*out = rss;
	return 0;
}

void vrb_rss_destroy(struct vrb_rss *rss)
{
	if (!rss)
		return;
	fetch_sub_release(&rss->table->users, 1);
	free(rss);
}
