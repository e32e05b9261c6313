/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows.
 *
 *	type 1:  FREE --bind--> BOUND --bind--> BOUND; a bind of length 0 makes it FREE
 *	type 2B: FREE --bind--> BOUND --invalidate--> FREE; so does a bind of length 0.  While bound
 *		 it serves only the QP that bound it, and only that QP can free it.  A FREE window
 *		 can be bound by any QP of its PD.
 *
 * FREE entries are not live. Every change happens under the table's lock with the entry retracted.
 *
 * A queued bind names its window and region by lkey. A window's lkey has no other use: unlike the
 * rkey it does not change with a bind, and it differs when the entry's index is reused.
 */
#include "core/mem/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/mem/key_table.h"
#include "core/mem/pd.h"
#include "run/log.h"
#include "util/atomic.h"

enum {
	/* What a window can grant. Devices ignore other flags, such as LOCAL_WRITE. */
	WINDOW_ACCESS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED,
	TAG_MASK = 0xff,	/* the part of a type 2 rkey that the program chooses */
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
	err = vrb_context_take(ctx, CTX_MW, vrb_device_limits.orig_attr.max_mw);
	if (err)
		return err;
	mw = calloc(1, sizeof(*mw));
	e = mw ? mr_entry_alloc(&mw->index) : NULL;
	if (!e) {
		free(mw);
		vrb_context_give(ctx, CTX_MW);
		return ENOMEM;
	}
	mr_table_lock();
	e->kind = MR_WINDOW;
	e->mw_type = type;
	e->bound = 0;
	e->shared = 0;
	e->pdn = pd->pdn;
	mr_table_unlock();
	mw->key = e->lkey;
	mw->ibv = (struct ibv_mw){
		.context = pd->ibv.context,
		.pd = &pd->ibv,
		.rkey = e->rkey,
		.handle = mw->index,
		.type = type,
	};
	vrb_pd_get(pd);
	vrb_live_add(&mw->live, mw, mw->ibv.context, mw->ibv.handle);
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

int vrb_mw_dealloc(struct vrb_mw *mw, const struct vrb_mr_waits *waits)
{
	struct vrb_context *ctx = to_vrb_context(mw->ibv.context);

	struct mr_entry *e = mr_entry_at(mw->index);

	mr_table_lock();
	unbind(e);
	/* Makes queued binds fail. Relaxed: mr_entry_peek() may read it without a lock. */
	store_relaxed(&e->kind, MR_FREE);
	mr_table_unlock();
	waits->copies(to_vrb_pd(mw->ibv.pd));	/* one may have just begun to read the entry */
	mr_entry_free(mw->index);
	vrb_live_del(&mw->live);
	vrb_pd_put(to_vrb_pd(mw->ibv.pd));
	vrb_context_give(ctx, CTX_MW);
	free(mw);
	return 0;
}

/* What providers check before they post the bind: the reason for EINVAL, or NULL. */
static const char *unbindable(const struct vrb_mw *mw, const struct ibv_mw_bind_info *info)
{
	if (mw->ibv.type != IBV_MW_TYPE_1)
		return "a type 2 window is bound by a work request";
	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return "a type 1 window cannot be zero-based";
	if (!info->mr && info->length)
		return "a bind of nonzero length needs a memory region";
	return NULL;
}

int vrb_mw_prepare_bind(struct vrb_mw *mw, const struct ibv_mw_bind *bind, uint32_t *rkey)
{
	const struct ibv_mw_bind_info *info = &bind->bind_info;
	const char *why = unbindable(mw, info);

	if (why) {
		log_info(LOG_CORE, "ibv_bind_mw: rkey 0x%x: %s", mw->ibv.rkey, why);
		return EINVAL;
	}
	if (info->length && to_vrb_pd(mw->ibv.pd)->pdn != to_vrb_pd(info->mr->pd)->pdn) {
		log_info(LOG_CORE, "ibv_bind_mw: rkey 0x%x: window and region are in different PDs",
			 mw->ibv.rkey);
		return EPERM;
	}
	*rkey = ibv_inc_rkey(mw->ibv.rkey);
	return 0;
}

void vrb_mw_fill_bind(struct send_wqe *w, const struct ibv_mw *mw,
		      const struct ibv_mw_bind_info *info)
{
	w->bind.window = mw ? ((const struct vrb_mw *)mw)->key : 0;
	w->bind.region = info->mr ? info->mr->lkey : 0;
	w->bind.addr = info->addr;
	w->bind.length = info->length;
	w->bind.access = info->mw_access_flags & WINDOW_ACCESS;
}

/* Must hold a reference on the region. */
static bool region_allows(const struct mr_entry *mr, const struct mr_entry *w,
			  const struct send_wqe *wqe)
{
	if (mr->kind != MR_REGION && mr->kind != MR_DM)
		return false;
	if (mr->lkey != wqe->bind.region || mr->pdn != w->pdn)
		return false;
	if (!(mr->access & IBV_ACCESS_MW_BIND))
		return false;
	/* A type 1 window is addressed by virtual address; a zero-based region has none. */
	if (w->mw_type == IBV_MW_TYPE_1 && mr->zero_based)
		return false;
	if ((wqe->bind.access & NEEDS_LOCAL_WRITE) && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return wqe->bind.addr >= mr->va && wqe->bind.length <= mr->length &&
	       wqe->bind.addr - mr->va <= mr->length - wqe->bind.length;
}

/* Must hold the table's lock and a reference on the region. */
static void bind_entry(struct mr_entry *w, struct mr_entry *mr, const struct send_wqe *wqe,
		       uint32_t qpn)
{
	unbind(w);
	fetch_add_relaxed(&mr->windows, 1);
	w->parent = mr_key_index(mr->lkey);
	w->access = wqe->bind.access;
	w->zero_based = !!(wqe->bind.access & IBV_ACCESS_ZERO_BASED);
	w->va = w->zero_based ? 0 : wqe->bind.addr;
	w->length = wqe->bind.length;
	w->host = mr->host + (wqe->bind.addr - mr->va);
	w->qpn = qpn;
	w->bound = 1;
}

/* The window that a request names, or NULL if it is gone. Must hold the table's lock. */
static struct mr_entry *window_of(const struct send_wqe *wqe)
{
	struct mr_entry *w = mr_entry_find(wqe->bind.window);

	return w && w->kind == MR_WINDOW && w->lkey == wqe->bind.window ? w : NULL;
}

/* A type 2 window must be free, or bound by this QP if the request frees it. */
static bool bindable(const struct mr_entry *w, const struct send_wqe *wqe, uint32_t qpn)
{
	if (w->mw_type == IBV_MW_TYPE_1)
		return true;
	return wqe->bind.length ? !w->bound : w->bound && w->qpn == qpn;
}

/*
 * The program chooses only the tag of a type 2 rkey; the rest of the key in the request is ignored.
 */
static uint32_t new_key(const struct mr_entry *w, const struct send_wqe *wqe)
{
	if (w->mw_type == IBV_MW_TYPE_1)
		return wqe->rkey;
	return (w->rkey & ~TAG_MASK) | (wqe->rkey & TAG_MASK);
}

static bool bind_to_region(struct mr_entry *w, const struct send_wqe *wqe, uint32_t qpn)
{
	struct mr_entry *mr = mr_entry_get(wqe->bind.region);
	bool ok;

	if (!mr)
		return false;
	ok = region_allows(mr, w, wqe);
	if (ok)
		bind_entry(w, mr, wqe, qpn);
	mr_entry_put(mr);
	return ok;
}

static bool bind_locked(struct wq_qp *qp, const struct send_wqe *wqe)
{
	struct mr_entry *w = window_of(wqe);

	if (!w || w->pdn != qp->pdn || !bindable(w, wqe, qp->qpn))
		return false;
	if (!wqe->bind.length)
		unbind(w);
	else if (!bind_to_region(w, wqe, qp->qpn))
		return false;
	w->rkey = new_key(w, wqe);
	if (w->bound)
		mr_entry_publish(w);
	return true;
}

enum reason vrb_mem_bind(struct wq_qp *qp, const struct send_wqe *wqe)
{
	bool ok;

	mr_table_lock();
	ok = bind_locked(qp, wqe);
	mr_table_unlock();
	return ok ? REASON_NONE : REASON_WR_MW_BIND;
}

/* Only a bound type 2 window can be invalidated, and type 2B only through the QP that bound it. */
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
