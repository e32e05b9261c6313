/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains. registry_lock protects the list of all domains and their reference counts; only the
 * domains' and the host's locks are taken under it.
 */
#include "core/qp/xrcd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/base/xrc_ops.h"
#include "core/cq/async_event.h"
#include "core/device/device.h"
#include "core/mem/pd.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "host/host.h"
#include "util/atomic.h"
#include "util/hash.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list registry = { &registry, &registry };

static struct xrc_domain *find_domain(const struct xrc_key *key)
{
	struct list *pos;

	list_for_each (pos, &registry) {
		struct xrc_domain *d = list_entry(pos, struct xrc_domain, node);

		if (d->has_inode && !memcmp(&d->key, key, sizeof(*key)))
			return d;
	}
	return NULL;
}

struct xrc_domain *vrb_xrcd_find_domain(const struct xrc_key *key)
{
	struct xrc_domain *d;

	pthread_mutex_lock(&registry_lock);
	d = find_domain(key);
	pthread_mutex_unlock(&registry_lock);
	return d;
}

/* The name of the host mark that every process with the domain holds. */
static uint64_t mark_of(const struct xrc_key *key)
{
	return hash_bytes(HASH_START, key, sizeof(*key));
}

/*
 * Keeps the inode number from being reused while the domain exists. O_PATH, because closing any
 * other descriptor would drop the program's record locks on the file. If this fails (no /proc, no
 * free descriptors), the domain's key is unique only as long as the program keeps the file.
 */
static int pin_inode(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_PATH | O_CLOEXEC);
}

static struct xrc_domain *new_domain(const struct xrc_key *key, int fd)
{
	struct xrc_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->has_inode = key;
	d->pin = -1;
	if (key) {
		d->key = *key;
		d->pin = pin_inode(fd);
	}
	lock_init(&d->lock);
	list_init(&d->srqs);
	list_init(&d->qps);
	list_add_tail(&registry, &d->node);
	return d;
}

/*
 * Gets a reference to the domain of the key; key NULL: creates one without inode. Must hold
 * registry_lock.
 */
static int get_domain(const struct xrc_key *key, int fd, int oflags, struct xrc_domain **out)
{
	struct xrc_domain *d = key ? find_domain(key) : NULL;
	int err = 0;

	if (d && (oflags & O_EXCL))
		return EEXIST;
	if (!d && key)
		err = host_mark(vrb.host, mark_of(key), oflags & O_CREAT, oflags & O_EXCL);
	if (err)
		return err;
	if (!d) {
		d = new_domain(key, fd);
		if (!d && key)
			host_unmark(vrb.host, mark_of(key));
	}
	if (!d)
		return ENOMEM;
	d->refs++;
	*out = d;
	return 0;
}

static void free_domain(struct xrc_domain *d)
{
	if (d->has_inode)
		vrb.xrc->domain_closed(d);
	if (d->pin >= 0)
		close(d->pin);
	lock_destroy(&d->lock);
	free(d);
}

static void put_domain(struct xrc_domain *d)
{
	bool last;

	pthread_mutex_lock(&registry_lock);
	last = --d->refs == 0;
	if (last) {
		list_del(&d->node);
		if (d->has_inode)
			host_unmark(vrb.host, mark_of(&d->key));
	}
	pthread_mutex_unlock(&registry_lock);
	if (last)
		free_domain(d);
}

int vrb_xrcd_open(struct vrb_context *ctx, int fd, int oflags, struct vrb_xrcd **out)
{
	struct xrc_key key = { .guid = ctx->dev->node_guid };
	struct vrb_xrcd *x;
	struct stat st;
	int ret;

	/*
	 * As ib_uverbs does: other flags of open(2) mean nothing, and a domain without an inode is
	 * always new, with or without O_CREAT.
	 */
	if (fd != -1 && fstat(fd, &st))
		return errno;
	if (fd != -1) {
		key.dev = st.st_dev;
		key.ino = st.st_ino;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return ENOMEM;
	pthread_mutex_lock(&registry_lock);
	ret = get_domain(fd == -1 ? NULL : &key, fd, oflags, &x->domain);
	pthread_mutex_unlock(&registry_lock);
	if (ret) {
		free(x);
		return ret;
	}
	x->ctx = ctx;
	x->ibv.context = &ctx->vctx.context;
	vrb_context_take(ctx, CTX_XRCD, INT32_MAX);
	*out = x;
	return 0;
}

void vrb_xrcd_forget_all(void)
{
	struct list *pos;

	list_for_each (pos, &registry) {
		struct xrc_domain *d = list_entry(pos, struct xrc_domain, node);

		if (d->pin >= 0)
			close(d->pin);
		d->pin = -1;
	}
	list_init(&registry);
	pthread_mutex_init(&registry_lock, NULL);
}

int vrb_xrcd_close(struct vrb_xrcd *x)
{
	uint32_t users = load_acquire(&x->users);	/* pairs with vrb_xrcd_put */

	if (users)
		return vrb_in_use("ibv_close_xrcd", users, "XRC QPs, SRQs");
	put_domain(x->domain);
	vrb_context_give(x->ctx, CTX_XRCD);
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
	/* Acquire: pairs with the fetch_sub that drops an entry. */
	idle = !load_acquire(&srq->users);
	if (idle)
		list_del(&srq->node);
	lock_release(&x->domain->lock);
	return idle;
}

static void del_srqs(struct xrc_domain *d, const struct vrb_context *ctx)
{
	struct list *pos, *tmp;

	lock_acquire(&d->lock);
	list_for_each_safe (pos, tmp, &d->srqs)
		if (list_entry(pos, struct vrb_srq, node)->ctx == ctx)
			list_del(pos);
	lock_release(&d->lock);
}

void vrb_xrcd_remove_context(const struct vrb_context *ctx)
{
	struct list *pos;

	pthread_mutex_lock(&registry_lock);
	list_for_each (pos, &registry)
		del_srqs(list_entry(pos, struct xrc_domain, node), ctx);
	pthread_mutex_unlock(&registry_lock);
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

struct vrb_srq *vrb_xrcd_find_srq(struct xrc_domain *d, uint32_t srqn)
{
	struct vrb_srq *srq;

	if (!d)
		return NULL;
	lock_acquire(&d->lock);
	srq = find_srq(d, srqn);
	if (srq)
		fetch_add_relaxed(&srq->users, 1);
	lock_release(&d->lock);
	return srq;
}

uint32_t vrb_xrcd_srq_pdn(struct xrc_domain *d, uint32_t srqn)
{
	const struct vrb_srq *srq;
	uint32_t pdn;

	if (!d)
		return 0;
	lock_acquire(&d->lock);
	srq = find_srq(d, srqn);
	pdn = srq ? srq->pd->pdn : 0;
	lock_release(&d->lock);
	return pdn;
}

bool vrb_xrcd_uses_cq(struct xrc_domain *d, const struct vrb_cq *cq)
{
	struct list *pos;
	bool uses = false;

	if (!d)
		return false;
	lock_acquire(&d->lock);
	list_for_each (pos, &d->srqs)
		uses |= list_entry(pos, struct vrb_srq, node)->cq == cq;
	lock_release(&d->lock);
	return uses;
}

void vrb_xrcd_add_qp(struct vrb_xrcd *x, struct vrb_qp *qp)
{
	vrb_xrcd_get(x);
	lock_acquire(&x->domain->lock);
	qp->xrc.creator = qp->config.imported ? VRB_CREATOR_NONE : VRB_CREATOR_OPEN;
	list_add_tail(&x->domain->qps, &qp->xrc.node);
	lock_release(&x->domain->lock);
}

void vrb_xrcd_del_qp(struct vrb_xrcd *x, struct vrb_qp *qp)
{
	lock_acquire(&x->domain->lock);
	list_del(&qp->xrc.node);
	lock_release(&x->domain->lock);
	vrb_xrcd_put(x);
}

/* Does this process have handles of the QP? Must hold the domain's lock. */
static bool has_handles(const struct vrb_qp *qp)
{
	return qp->xrc.creator != VRB_CREATOR_NONE || !list_empty(&qp->xrc.handles);
}

/*
 * The QP goes over to the context and domain handle of one that has it open, because those that it
 * had may be closed now. Must hold the locks of all rx queues, qp->lock and the domain's lock.
 */
static void adopt(struct vrb_qp *qp)
{
	const struct vrb_qp *heir = list_entry(qp->xrc.handles.next, struct vrb_qp, xrc.node);

	vrb_xrcd_get(heir->config.xrcd);
	vrb_xrcd_put(qp->config.xrcd);
	qp->config.xrcd = heir->config.xrcd;
	qp->config.ctx = heir->config.ctx;
	qp->config.imported = true;
}

void vrb_xrcd_add_handle(struct vrb_qp *qp, struct vrb_qp *handle)
{
	lock_acquire(&qp->config.domain->lock);
	list_add_tail(&qp->xrc.handles, &handle->xrc.node);
	lock_release(&qp->config.domain->lock);
}

struct vrb_qp *vrb_xrcd_open_qp(struct vrb_xrcd *x, uint32_t qpn, struct vrb_qp *handle)
{
	struct vrb_qp *found = NULL;
	struct list *pos;

	lock_acquire(&x->domain->lock);
	list_for_each (pos, &x->domain->qps) {
		struct vrb_qp *qp = list_entry(pos, struct vrb_qp, xrc.node);

		if (qp->wq.qpn == qpn && has_handles(qp)) {
			found = qp;
			list_add_tail(&qp->xrc.handles, &handle->xrc.node);
			break;
		}
	}
	lock_release(&x->domain->lock);
	return found;
}

void vrb_xrcd_creator_closes(struct vrb_qp *qp)
{
	lock_acquire(&qp->config.domain->lock);
	qp->xrc.creator = VRB_CREATOR_CLOSES;
	lock_release(&qp->config.domain->lock);
}

bool vrb_xrcd_close_qp(struct vrb_qp *qp, struct vrb_qp *handle)
{
	bool last;

	vrb_rx_queues_lock();
	lock_acquire(&qp->lock);
	lock_acquire(&qp->config.domain->lock);
	if (handle == qp)
		qp->xrc.creator = VRB_CREATOR_NONE;
	else
		list_del(&handle->xrc.node);
	last = !has_handles(qp);
	if (!last && qp->xrc.creator == VRB_CREATOR_NONE)
		adopt(qp);
	lock_release(&qp->config.domain->lock);
	lock_release(&qp->lock);
	vrb_rx_queues_unlock();
	return last;
}

void vrb_xrcd_context_closes(struct vrb_qp *qp, const struct vrb_context *ctx)
{
	struct list *pos, *tmp;

	if (!qp->config.domain)
		return;
	lock_acquire(&qp->config.domain->lock);
	list_for_each_safe (pos, tmp, &qp->xrc.handles)
		if (list_entry(pos, struct vrb_qp, xrc.node)->config.ctx == ctx)
			list_del(pos);
	if (qp->config.ctx == ctx && !list_empty(&qp->xrc.handles)) {
		vrb_live_del(&qp->live);
		qp->xrc.creator = VRB_CREATOR_NONE;
		adopt(qp);
	} else if (qp->config.ctx == ctx) {
		list_del(&qp->xrc.node);
	}
	lock_release(&qp->config.domain->lock);
}

void vrb_xrcd_handles_event(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct list *pos;

	lock_acquire(&qp->config.domain->lock);
	if (qp->xrc.creator == VRB_CREATOR_OPEN)
		vrb_event_qp(&qp->ibv, &qp->acks, type);
	list_for_each (pos, &qp->xrc.handles) {
		struct vrb_qp *handle = list_entry(pos, struct vrb_qp, xrc.node);

		vrb_event_qp(&handle->ibv, &handle->acks, type);
	}
	lock_release(&qp->config.domain->lock);
}
