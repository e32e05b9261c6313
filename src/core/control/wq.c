/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues; wq.h documents the interface. */
#include "core/control/wq.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/live_objects.h"
#include "core/control/qp_create.h"
#include "core/control/qp_modify.h"
#include "core/cq/async_event.h"
#include "core/fastpath/post.h"
#include "core/mem/pd.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	STATES = IBV_WQS_ERR + 1,
	ATTR_MASK = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS,
	/*
	 * Not supported: FCS scatter, padding for a bus, and delayed drop: frames wait in the
	 * interface's ring for a poll, not for receives.
	 */
	SUPPORTED_FLAGS = IBV_WQ_FLAGS_CVLAN_STRIPPING,
	/* mlx5 lets no other be changed: it refuses this one and ignores the rest. */
	REFUSED_CHANGES = IBV_WQ_FLAGS_PCI_WRITE_END_PADDING,
};

/* The legal transitions of a work queue. */
static const bool legal[STATES][STATES] = {
	[IBV_WQS_RESET] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true },
	[IBV_WQS_RDY] = { [IBV_WQS_RESET] = true, [IBV_WQS_RDY] = true, [IBV_WQS_ERR] = true },
	[IBV_WQS_ERR] = { [IBV_WQS_RESET] = true, [IBV_WQS_ERR] = true },
};

/* When its QP fails, the program gets an event of the work queue. */
static void raise_event(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct vrb_wq *wq = qp->config.work_queue;

	wq->ibv.state = IBV_WQS_ERR;
	vrb_event_wq(&wq->ibv, &qp->ibv, &qp->acks, IBV_EVENT_WQ_FATAL);
}

static const struct vrb_qp_hooks wq_hooks = { .raise = raise_event };

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

static int post_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *unwanted;
	int err = vrb_context_check(wq->context);

	if (!bad)
		bad = &unwanted;
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
	err = vrb_qp_create_wq(ctx, attr, &wq_hooks, &wq->qp);
	if (err) {
		free(wq);
		return err;
	}
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
	/* The QP's destruction waits for the acknowledgements. */
	vrb_event_acks_init(&wq->qp->acks, &wq->ibv.mutex, &wq->ibv.cond,
			    &wq->ibv.events_completed);
	wq->qp->config.work_queue = wq;
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
	if (a->attr_mask & IBV_WQ_ATTR_FLAGS && a->flags_mask & REFUSED_CHANGES)
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
		/* From RESET; receives posted there are dropped, as on mlx5. */
		err = qp_to(wq, IBV_QPS_RESET, 0);
		if (!err)
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
	wq->qp->recv.strips_vlan = a->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING;
	lock_release(&wq->qp->lock);
}

int vrb_wq_modify(struct vrb_wq *wq, const struct ibv_wq_attr *attr)
{
	enum ibv_wq_state next;
	/* Not if another thread has begun to destroy it, and waits for acknowledgements. */
	int err = vrb_object_check(&wq->qp->ibv);

	if (!err)
		err = check_modify(wq, attr, &next);
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
	uint32_t users = load_acquire(&wq->users); /* pairs with vrb_rwq_table_destroy() */
	int err;

	if (users)
		return vrb_in_use("ibv_destroy_wq", users, "entries of indirection tables");
	err = vrb_qp_destroy(wq->qp);
	if (err)
		return err;
	pthread_mutex_destroy(&wq->ibv.mutex);
	pthread_cond_destroy(&wq->ibv.cond);
	free(wq);
	return 0;
}
