/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains. The list of all of them and their reference counts have a lock of their own, which
 * is taken alone.
 */
#include "core/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/context.h"
#include "core/pd.h"
#include "core/qp.h"
#include "core/srq.h"
#include "util/atomic.h"
#include "util/compiler.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list registry = { &registry, &registry };

static struct xrc_domain *find_domain(const struct vrb_device *dev, const struct stat *st)
{
	struct list *pos;

	list_for_each (pos, &registry) {
		struct xrc_domain *d = list_entry(pos, struct xrc_domain, node);

		if (d->has_inode && d->dev == dev && d->st_dev == st->st_dev &&
		    d->st_ino == st->st_ino)
			return d;
	}
	return NULL;
}

static struct xrc_domain *new_domain(struct vrb_device *dev, const struct stat *st)
{
	struct xrc_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->dev = dev;
	d->has_inode = st;
	if (st) {
		d->st_dev = st->st_dev;
		d->st_ino = st->st_ino;
	}
	lock_init(&d->lock);
	list_init(&d->srqs);
	list_init(&d->qps);
	list_add_tail(&registry, &d->node);
	return d;
}

/* The domain with a reference; must hold registry_lock. */
static int get_domain(struct vrb_device *dev, const struct stat *st, int oflags,
		      struct xrc_domain **out)
{
	struct xrc_domain *d = st ? find_domain(dev, st) : NULL;

	if (d && (oflags & O_EXCL))
		return EEXIST;
	if (!d && !(oflags & O_CREAT))
		return ENOENT;
	if (!d)
		d = new_domain(dev, st);
	if (!d)
		return ENOMEM;
	d->refs++;
	*out = d;
	return 0;
}

static void put_domain(struct xrc_domain *d)
{
	pthread_mutex_lock(&registry_lock);
	if (--d->refs == 0) {
		list_del(&d->node);
		lock_destroy(&d->lock);
		free(d);
	}
	pthread_mutex_unlock(&registry_lock);
}

int vrb_xrcd_open(struct vrb_context *ctx, int fd, int oflags, struct vrb_xrcd **out)
{
	struct vrb_xrcd *x;
	struct stat st;
	int ret;

	/* Without an inode the domain is new, so a request for an existing one cannot be met. */
	if (oflags & ~(O_CREAT | O_EXCL) || (fd == -1 && !(oflags & O_CREAT)))
		return EINVAL;
	if (fd != -1 && fstat(fd, &st))
		return errno;
	x = calloc(1, sizeof(*x));
	if (!x)
		return ENOMEM;
	pthread_mutex_lock(&registry_lock);
	ret = get_domain(ctx->dev, fd == -1 ? NULL : &st, oflags, &x->domain);
	pthread_mutex_unlock(&registry_lock);
	if (ret) {
		free(x);
		return ret;
	}
	x->ctx = ctx;
	x->ibv.context = &ctx->vctx.context;
	vrb_context_take(ctx, &ctx->n_xrcd, INT32_MAX);
	*out = x;
	return 0;
}

int vrb_xrcd_close(struct vrb_xrcd *x)
{
	if (load_acquire(&x->users))	/* pairs with vrb_xrcd_put */
		return EBUSY;
	put_domain(x->domain);
	vrb_context_give(x->ctx, &x->ctx->n_xrcd);
	free(x);
	return 0;
}

void vrb_xrcd_get(struct vrb_xrcd *x)
{
	fetch_add_relaxed(&x->users, 1);
}

void vrb_xrcd_put(struct vrb_xrcd *x)
{
	fetch_sub_release(&x->users, 1);
}

void vrb_xrcd_add_srq(struct vrb_xrcd *x, struct vrb_srq *srq)
{
	vrb_xrcd_get(x);
	lock_acquire(&x->domain->lock);
	list_add_tail(&x->domain->srqs, &srq->node);
	lock_release(&x->domain->lock);
}

bool vrb_xrcd_del_srq(struct vrb_xrcd *x, struct vrb_srq *srq)
{
	bool idle;

	lock_acquire(&x->domain->lock);
	/* Acquire: pairs with the fetch_sub of who held an entry. */
	idle = !load_acquire(&srq->users);
	if (idle)
		list_del(&srq->node);
	lock_release(&x->domain->lock);
	return idle;
}

/* Must hold the domain's lock. */
static struct vrb_srq *find_srq(struct xrc_domain *d, uint32_t srqn)
{
	struct list *pos;

	list_for_each (pos, &d->srqs) {
		struct vrb_srq *srq = list_entry(pos, struct vrb_srq, node);

		if (srq->srqn == srqn)
			return srq;
	}
	return NULL;
}

struct vrb_srq *vrb_xrcd_find_srq(struct vrb_xrcd *x, uint32_t srqn)
{
	struct vrb_srq *srq;

	lock_acquire(&x->domain->lock);
	srq = find_srq(x->domain, srqn);
	if (srq)
		fetch_add_relaxed(&srq->users, 1);
	lock_release(&x->domain->lock);
	return srq;
}

uint32_t vrb_xrcd_srq_pdn(struct vrb_xrcd *x, uint32_t srqn)
{
	const struct vrb_srq *srq;
	uint32_t pdn;

	lock_acquire(&x->domain->lock);
	srq = find_srq(x->domain, srqn);
	pdn = srq ? srq->pd->pdn : 0;
	lock_release(&x->domain->lock);
	return pdn;
}

bool vrb_xrcd_uses_cq(struct vrb_xrcd *x, const struct vrb_cq *cq)
{
	struct list *pos;
	bool uses = false;

	lock_acquire(&x->domain->lock);
	list_for_each (pos, &x->domain->srqs)
		uses |= list_entry(pos, struct vrb_srq, node)->cq == cq;
	lock_release(&x->domain->lock);
	return uses;
}

void vrb_xrcd_add_qp(struct vrb_xrcd *x, struct vrb_qp *qp)
{
	vrb_xrcd_get(x);
	lock_acquire(&x->domain->lock);
	qp->handles = 1;
	list_add_tail(&x->domain->qps, &qp->xrc_node);
	lock_release(&x->domain->lock);
}

void vrb_xrcd_del_qp(struct vrb_xrcd *x, struct vrb_qp *qp)
{
	lock_acquire(&x->domain->lock);
	list_del(&qp->xrc_node);
	lock_release(&x->domain->lock);
	vrb_xrcd_put(x);
}

struct vrb_qp *vrb_xrcd_open_qp(struct vrb_xrcd *x, uint32_t qpn)
{
	struct vrb_qp *found = NULL;
	struct list *pos;

	lock_acquire(&x->domain->lock);
	list_for_each (pos, &x->domain->qps) {
		struct vrb_qp *qp = list_entry(pos, struct vrb_qp, xrc_node);

		if (qp->wq.qpn == qpn && qp->handles) {
			found = qp;
			qp->handles++;
			break;
		}
	}
	lock_release(&x->domain->lock);
	return found;
}

bool vrb_xrcd_close_qp(struct vrb_xrcd *x, struct vrb_qp *qp)
{
	bool last;

	lock_acquire(&x->domain->lock);
	last = --qp->handles == 0;
	lock_release(&x->domain->lock);
	return last;
}
