/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows.
 *
 *	type 1:  FREE --bind--> BOUND --bind--> BOUND, a bind of length 0 makes it FREE
 *	type 2B: FREE --bind--> BOUND --invalidate--> FREE; bound, it serves only the QP that bound
 * it
 *
 * FREE entries are not live.  Every change is made under the table's lock with the entry retracted.
 */
#include "core/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/mrtab.h"
#include "core/pd.h"
#include "core/qp.h"
#include "util/atomic.h"

enum {
	WINDOW_ACCESS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED,
	NEEDS_LOCAL_WRITE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

int vrb_mw_alloc(struct vrb_pd *pd, enum ibv_mw_type type, struct vrb_mw **out)
{
	struct vrb_context *ctx = to_vrb_context(pd->ibv.context);
	struct mr_entry *e;
	struct vrb_mw *mw;
	int err;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return EINVAL;
	err = vrb_context_take(ctx, &ctx->n_mw, vrb_device_limits.orig_attr.max_mw);
	if (err)
		return err;
	mw = calloc(1, sizeof(*mw));
	e = mw ? mr_entry_alloc(&mw->index) : NULL;
	if (!e) {
		free(mw);
		vrb_context_give(ctx, &ctx->n_mw);
		return ENOMEM;
	}
	e->kind = MR_WINDOW;
	e->mw_type = type;
	e->bound = 0;
	e->pdn = pd->pdn;
	mw->ibv = (struct ibv_mw){
		.context = pd->ibv.context,
		.pd = &pd->ibv,
		.rkey = e->rkey,
		.handle = mw->index,
		.type = type,
	};
	vrb_pd_get(pd);
	*out = mw;
	return 0;
}

/* Must hold the table's lock. */
static void unbind(struct mr_entry *e)
{
	if (!e->bound)
		return;
	mr_entry_retract(e);
	e->bound = 0;
	fetch_sub_release(&mr_entry_at(e->parent)->windows, 1); /* pairs with vrb_mr_dereg() */
}

int vrb_mw_dealloc(struct vrb_mw *mw)
{
	struct vrb_context *ctx = to_vrb_context(mw->ibv.context);

	mr_table_lock();
	unbind(mr_entry_at(mw->index));
	mr_table_unlock();
	mr_entry_free(mw->index);
	vrb_pd_put(to_vrb_pd(mw->ibv.pd));
	vrb_context_give(ctx, &ctx->n_mw);
	free(mw);
	return 0;
}

int vrb_mw_prepare_bind(struct vrb_mw *mw, const struct ibv_mw_bind *bind, uint32_t *rkey)
{
	const struct ibv_mw_bind_info *info = &bind->bind_info;

	if (mw->ibv.type != IBV_MW_TYPE_1 || (info->mw_access_flags & ~WINDOW_ACCESS))
		return EINVAL;
	if (info->length) {
		if (!info->mr || info->mr->context != mw->ibv.context)
			return EINVAL;
		if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
			return EINVAL; /* type 1 is addressed by virtual address only */
		if (to_vrb_pd(mw->ibv.pd)->pdn != to_vrb_pd(info->mr->pd)->pdn)
			return EPERM;
	}
	*rkey = ibv_inc_rkey(mw->ibv.rkey);
	return 0;
}

/* May the region carry this window? Holds a reference on it. */
static bool region_allows(const struct mr_entry *mr, const struct mr_entry *w,
			  const struct ibv_mw_bind_info *info)
{
	if (mr->kind != MR_REGION && mr->kind != MR_DM)
		return false;
	if (mr->lkey != info->mr->lkey || mr->pdn != w->pdn)
		return false;
	if (!(mr->access & IBV_ACCESS_MW_BIND))
		return false;
	/* A window with a virtual address of its own makes no sense over a region that has none. */
	if (w->mw_type == IBV_MW_TYPE_1 && mr->zero_based)
		return false;
	if ((info->mw_access_flags & NEEDS_LOCAL_WRITE) && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return info->addr >= mr->va && info->length <= mr->length &&
	       info->addr - mr->va <= mr->length - info->length;
}

/* Must hold the table's lock and a reference on the region. */
static void bind_entry(struct mr_entry *w, struct mr_entry *mr, const struct ibv_mw_bind_info *info,
		       uint32_t rkey, uint32_t qpn)
{
	unbind(w);
	fetch_add_relaxed(&mr->windows, 1);
	w->parent = mr_key_index(mr->lkey);
	w->rkey = rkey;
	w->access = info->mw_access_flags;
	w->zero_based = !!(info->mw_access_flags & IBV_ACCESS_ZERO_BASED);
	w->va = w->zero_based ? 0 : info->addr;
	w->length = info->length;
	w->host = mr->host + (info->addr - mr->va);
	w->qpn = qpn;
	w->bound = 1;
	mr_entry_publish(w);
}

/* A type 2 window takes the key that its user chose: same index, any tag. It must be free. */
static bool type2_bindable(const struct mr_entry *w, const struct send_wqe *wqe, uint32_t current)
{
	return !w->bound && wqe->bind.info.length && (wqe->rkey ^ current) >> 8 == 0;
}

static enum reason bind_locked(struct wq_qp *qp, const struct send_wqe *wqe, struct vrb_mw *mw)
{
	const struct ibv_mw_bind_info *info = &wqe->bind.info;
	struct mr_entry *w = mr_entry_at(mw->index), *mr;
	bool ok;

	if (w->pdn != qp->pdn || (info->mw_access_flags & ~WINDOW_ACCESS))
		return REASON_WR_MW_BIND;
	if (w->mw_type == IBV_MW_TYPE_2 && !type2_bindable(w, wqe, w->rkey))
		return REASON_WR_MW_BIND;
	if (w->mw_type == IBV_MW_TYPE_1 && !info->length) {
		unbind(w);
		w->rkey = wqe->rkey;
		return REASON_NONE;
	}
	mr = info->mr ? mr_entry_get(info->mr->lkey) : NULL;
	if (!mr)
		return REASON_WR_MW_BIND;
	ok = region_allows(mr, w, info);
	if (ok)
		bind_entry(w, mr, info, wqe->rkey, qp->qpn);
	mr_entry_put(mr);
	return ok ? REASON_NONE : REASON_WR_MW_BIND;
}

enum reason vrb_mem_bind(struct wq_qp *qp, const struct send_wqe *wqe)
{
	struct vrb_mw *mw = wqe->bind.mw;
	enum reason why;

	mr_table_lock();
	why = bind_locked(qp, wqe, mw);
	mr_table_unlock();
	return why;
}

/*
 * Only type 2 windows that are bound can be invalidated, and 2B only through the QP that bound
 * them.
 */
static bool invalidatable(const struct mr_entry *e, const struct wq_qp *qp, uint32_t rkey)
{
	return e->kind == MR_WINDOW && e->mw_type == IBV_MW_TYPE_2 && e->rkey == rkey &&
	       e->pdn == qp->pdn && e->qpn == qp->qpn;
}

enum reason vrb_mem_invalidate(struct wq_qp *qp, uint32_t rkey, bool remote)
{
	struct mr_entry *e;
	bool ok;

	mr_table_lock();
	e = mr_entry_get(rkey);
	ok = e && invalidatable(e, qp, rkey);
	if (e)
		mr_entry_put(e);
	if (ok)
		unbind(e);
	mr_table_unlock();
	if (ok)
		return REASON_NONE;
	return remote ? REASON_REQ_INVALIDATE : REASON_WR_INVALIDATE;
}
