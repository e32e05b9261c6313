/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/open_qp.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/control/qp_create.h"
#include "core/qp/qp.h"
#include "core/qp/xrcd.h"
#include "core/xrc/delegation.h"
#include "core/xrc/open_table.h"
#include "core/xrc/remote_handle.h"
#include "util/atomic.h"

enum {
	OPEN_MASK = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_CONTEXT |
		    IBV_QP_OPEN_ATTR_TYPE,
	OPEN_NEEDS = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
};

static void release(struct vrb_qp *qp)
{
	vrb_delegation_free(qp);
	vrb_open_table_drop(qp);
}

const struct vrb_qp_hooks vrb_xrc_qp_hooks = {
	.redirect = vrb_delegation_redirect,
	.expired = vrb_delegation_expired,
	.raise = vrb_open_table_event,
	.modified = vrb_delegation_modified,
	.release = release,
};

static struct vrb_qp *new_handle(struct vrb_context *ctx, const struct ibv_qp_open_attr *attr)
{
	struct vrb_qp *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->config.ctx = ctx;
	handle->config.target = handle;
	handle->config.xrcd = to_vrb_xrcd(attr->xrcd);
	handle->wq.qpn = attr->qp_num & ROCE_QPN_MASK;
	handle->config.init.qp_type = IBV_QPT_XRC_RECV;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		handle->config.init.qp_context = attr->qp_context;
	lock_init(&handle->lock);
	lock_init_shared(&handle->post.batch.lock);
	vrb_qp_init_public(handle);
	return handle;
}

int vrb_qp_open(struct vrb_context *ctx, const struct ibv_qp_open_attr *attr, struct vrb_qp **out)
{
	struct vrb_qp *handle, *target;
	int err = 0;

	if (attr->comp_mask & ~OPEN_MASK)
		return EOPNOTSUPP; /* as from rdma-core */
	if ((attr->comp_mask & OPEN_NEEDS) != OPEN_NEEDS || attr->qp_type != IBV_QPT_XRC_RECV ||
	    !attr->xrcd || attr->xrcd->context != &ctx->vctx.context)
		return EINVAL;
	handle = new_handle(ctx, attr);
	if (!handle)
		return ENOMEM;
	target = vrb_xrcd_open_qp(handle->config.xrcd, attr->qp_num, handle);
	if (target) {
		handle->config.target = target;
		lock_acquire(&target->lock);
		handle->ibv.state = target->wq.state;
		lock_release(&target->lock);
	} else {
		handle->config.remote = true;
		err = vrb_remote_open(handle);
	}
	if (err) {
		vrb_qp_free(handle);
		return err;
	}
	vrb_xrcd_get(handle->config.xrcd);
	vrb_live_add(&handle->live, handle, handle->ibv.context, handle->ibv.handle);
	*out = handle;
	return 0;
}

/* This process has closed its last handle. Another process that has the QP open may import it. */
static void destroy(struct vrb_qp *qp)
{
	vrb_open_table_migrate(qp);
	vrb_qp_teardown(qp);
}

/* The shared QP keeps the domain handle of one that has it open, too; see adopt() in xrcd.c. */
static void close_handle(struct vrb_qp *handle)
{
	struct vrb_qp *target;

	if (!handle->config.remote || !vrb_remote_close(handle)) {
		target = load_acquire(&handle->config.target);
		if (vrb_xrcd_close_qp(target, handle))
			destroy(target);
	}
	vrb_qp_wait_for_acks(handle);
	vrb_xrcd_put(handle->config.xrcd);
	vrb_qp_free(handle);
}

/* If it is not the last handle, that destroys the QP. */
static void close_creators(struct vrb_qp *qp)
{
	struct vrb_context *ctx = qp->config.ctx;

	vrb_xrcd_creator_closes(qp);
	vrb_qp_wait_for_acks(qp);
	if (vrb_xrcd_close_qp(qp, qp))
		destroy(qp);
	else
		vrb_context_give(ctx, CTX_QP);
}

int vrb_qp_close(struct vrb_qp *qp)
{
	vrb_live_del(&qp->live);
	if (qp->config.remote || qp->config.target != qp)
		close_handle(qp);
	else
		close_creators(qp);
	return 0;
}
