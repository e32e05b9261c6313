/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One struct remote_qp, with all its handles, per QP that is open here and has its home in another
 * process. When this process becomes the home, the handles move to the QP; a watched remote_qp then
 * remains until the former home exits.
 *
 * Locks: `calls`, outside vrb.lock, is held while a QP is opened or closed, including remote
 * calls. `lock` protects the list and the handles' targets; it ranks below vrb.poll_lock and above
 * qp->lock.
 */
#include "core/xrc/remote_handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/state.h"
#include "core/control/qp_modify.h"
#include "core/cq/async_event.h"
#include "core/qp/qp.h"
#include "core/qp/xrcd.h"
#include "core/xrc/import.h"
#include "core/xrc/rpc.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/cancel.h"

#define CALL_TIMEOUT (5 * VRB_SECOND)

enum { PAUSE_NS = 1000000 };

struct remote_qp {
	struct list node;
	uint32_t qpn;
	struct xrc_domain *domain;
	struct list handles;	/* struct vrb_qp.xrc.node */
	int watch;		/* pidfd of the home process; -1: not watched */
};

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
static struct lock lock;
static struct list remote_qps = { &remote_qps, &remote_qps };

/* Must hold `lock`. */
static struct remote_qp *find(uint32_t qpn)
{
	struct list *pos;

	list_for_each (pos, &remote_qps) {
		struct remote_qp *r = list_entry(pos, struct remote_qp, node);

		if (r->qpn == qpn && !list_empty(&r->handles))
			return r;
	}
	return NULL;
}

static void raise_event(struct remote_qp *r, enum ibv_event_type type)
{
	struct list *pos;

	list_for_each (pos, &r->handles) {
		struct vrb_qp *handle = list_entry(pos, struct vrb_qp, xrc.node);

		vrb_event_qp(&handle->ibv, &handle->acks, type);
	}
}

/* ---- death of a home process ---- */

static bool on_home_died(void *arg, int fd);

/*
 * Watches the home process. If the kernel or a PID namespace prevents that, the next call detects
 * its death. Must hold `lock`.
 */
static void watch(struct remote_qp *r)
{
	int slot = host_owner(vrb.host, r->qpn);
	struct host_peer home;

	r->watch = -1;
	if (!host_peer(vrb.host, slot, &home))
		return;
	r->watch = (int)SYS_CALL(SYS_pidfd_open, home.pid, 0);
	if (r->watch < 0 || !host_alive(vrb.host, slot, home.incarnation) ||
	    progress_watch(vrb.progress, r->watch, PROGRESS_OWN, on_home_died, NULL)) {
		if (r->watch >= 0)
			close(r->watch);
		r->watch = -1;
	}
}

/* Must not hold `lock`, which the callback takes. */
static void unwatch(int fd)
{
	if (fd < 0)
		return;
	progress_unwatch(vrb.progress, fd);
	close(fd);
}

static void home_died(struct remote_qp *r)
{
	int owner = host_owner(vrb.host, r->qpn);

	r->watch = -1;
	if (list_empty(&r->handles)) {
		list_del(&r->node);
		free(r);
	} else if (owner == HOST_NO_SLOT) {
		log_warn(LOG_CORE, "QP 0x%x is lost: its home process has died", r->qpn);
		raise_event(r, IBV_EVENT_QP_FATAL);
	} else if (owner != host_slot(vrb.host)) {
		watch(r);
	}
}

static bool on_home_died(void *arg, int fd)
{
	struct list *pos, *tmp;

	lock_acquire(&lock);
	list_for_each_safe (pos, tmp, &remote_qps) {
		struct remote_qp *r = list_entry(pos, struct remote_qp, node);

		if (r->watch == fd)
			home_died(r);
	}
	lock_release(&lock);
	unwatch(fd);
	return true;
}

/* ---- calls to the home ---- */

static bool is_ours(struct vrb_qp *handle)
{
	/* pairs with the store in settle_here() */
	return load_acquire(&handle->config.target) != handle;
}

/*
 * Calls the QP's current home; retries while the home moves. Returns the result of the call,
 * EALREADY if this process has become the home, EINVAL if there is no home any more, or ETIMEDOUT.
 */
static int call(struct vrb_qp *handle, enum xrc_call what, const void *body, size_t len,
		void *reply, size_t reply_len)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint32_t qpn = handle->wq.qpn;
	uint64_t start = clock_now();

	while (clock_now() - start < CALL_TIMEOUT) {
		int slot = host_owner(vrb.host, qpn), err = EAGAIN;

		if (is_ours(handle))
			return EALREADY;
		if (slot == HOST_NO_SLOT)
			return EINVAL;
		if (slot != host_slot(vrb.host))
			err = xrc_rpc(slot, what, qpn, body, len, NULL, 0, reply, reply_len);
		if (!err || (err != EAGAIN && err != ESRCH && host_owner(vrb.host, qpn) == slot))
			return err;
		nanosleep(&pause, NULL);
	}
	return ETIMEDOUT;
}

/* Adds the handle to its remote_qp, `fresh` if there is none yet. True if `fresh` was used. */
static bool enter(struct vrb_qp *handle, struct remote_qp *fresh)
{
	struct remote_qp *r;

	lock_acquire(&lock);
	r = find(handle->wq.qpn);
	if (!r) {
		list_add_tail(&remote_qps, &fresh->node);
		list_init(&fresh->handles);
	}
	list_add_tail(r ? &r->handles : &fresh->handles, &handle->xrc.node);
	lock_release(&lock);
	return !r;
}

/*
 * Removes a handle, and with the last one its remote_qp. The caller must unwatch *fd. False: the
 * handle now belongs to a QP of this process.
 */
static bool leave(struct vrb_qp *handle, bool *last, int *fd)
{
	struct remote_qp *r;

	lock_acquire(&lock);
	*last = false;
	*fd = -1;
	if (is_ours(handle)) {
		lock_release(&lock);
		return false;
	}
	r = find(handle->wq.qpn);
	list_del(&handle->xrc.node);
	*last = list_empty(&r->handles);
	if (*last) {
		list_del(&r->node);
		*fd = r->watch;
		free(r);
	}
	lock_release(&lock);
	return true;
}

static void begin_watch(struct vrb_qp *handle)
{
	struct remote_qp *r;

	lock_acquire(&lock);
	r = is_ours(handle) ? NULL : find(handle->wq.qpn);
	if (r)
		watch(r);
	lock_release(&lock);
}

/* The handle must be listed before the call: the home's next message may move the QP here. */
static int open_new(struct vrb_qp *handle)
{
	struct xrc_key key = handle->config.xrcd->domain->key;
	uint32_t state = 0;
	bool last;
	int fd, err;

	/*
	 * The number belongs to this process, but not to a QP in the domain: an imported QP would
	 * have been found in the domain or in the list.
	 */
	if (host_owner(vrb.host, handle->wq.qpn) == host_slot(vrb.host))
		err = EINVAL;
	else
		err = call(handle, XRC_CALL_OPEN, &key, sizeof(key), &state, sizeof(state));
	if (!err)
		handle->ibv.state = state;
	if (!err)
		begin_watch(handle);
	if (err && err != EALREADY && leave(handle, &last, &fd))
		return err;
	return 0;
}

int vrb_remote_open(struct vrb_qp *handle)
{
	struct remote_qp *fresh;
	int err = 0;

	if (!handle->config.xrcd->domain->has_inode)
		return EINVAL;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return ENOMEM;
	fresh->qpn = handle->wq.qpn;
	fresh->domain = handle->config.xrcd->domain;
	fresh->watch = -1;
	pthread_mutex_lock(&calls);
	if (enter(handle, fresh))
		err = open_new(handle);
	else
		free(fresh);
	pthread_mutex_unlock(&calls);
	return err == ENOMEM || err == ETIMEDOUT ? err : err ? EINVAL : 0;
}

bool vrb_remote_close(struct vrb_qp *handle)
{
	bool last, was_remote;
	int fd;

	pthread_mutex_lock(&calls);
	was_remote = leave(handle, &last, &fd);
	unwatch(fd);
	if (last)
		call(handle, XRC_CALL_CLOSE, NULL, 0, NULL, 0);
	pthread_mutex_unlock(&calls);
	return was_remote;
}

int vrb_remote_modify(struct vrb_qp *handle, const struct ibv_qp_attr *attr, int mask)
{
	struct xrc_modify mod = { .mask = mask };
	uint32_t state;
	int err;

	vrb_qp_copy_attr(&mod.attr, attr, mask);
	err = call(handle, XRC_CALL_MODIFY, &mod, sizeof(mod), &state, sizeof(state));
	if (err == EALREADY)
		return vrb_qp_modify(load_acquire(&handle->config.target), attr, mask);
	if (!err)
		handle->ibv.state = state;
	return err;
}

int vrb_remote_query(struct vrb_qp *handle, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;
	int err = call(handle, XRC_CALL_QUERY, NULL, 0, attr, sizeof(*attr));

	if (err != EALREADY)
		return err;
	vrb_qp_query(load_acquire(&handle->config.target), attr, &init);
	return 0;
}

/* ---- messages from the home ---- */

void vrb_remote_receive(const struct xrc_msg *m)
{
	struct xrc_event e;
	struct remote_qp *r;

	if (m->head.body != sizeof(e) || host_owner(vrb.host, m->head.qpn) != m->head.slot)
		return;
	memcpy(&e, m->body, sizeof(e));
	lock_acquire(&lock);
	r = find(m->head.qpn);
	if (r && e.type == XRC_NEW_HOME)
		watch(r);	/* the old home's pidfd is unwatched when it exits */
	else if (r && e.type <= IBV_EVENT_WQ_FATAL)
		raise_event(r, e.type);
	lock_release(&lock);
}

/* Moves the handles to a QP of this process. */
static void settle_here(struct remote_qp *r, struct vrb_qp *qp)
{
	while (!list_empty(&r->handles)) {
		struct vrb_qp *handle = list_entry(r->handles.next, struct vrb_qp, xrc.node);

		list_del(&handle->xrc.node);
		vrb_xrcd_add_handle(qp, handle);
		store_release(&handle->config.target, qp);
	}
	if (r->watch < 0) {
		list_del(&r->node);
		free(r);
	}
}

int vrb_remote_on_import(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	struct xrc_import import;
	struct vrb_qp *qp;
	struct remote_qp *r;
	int err = ENOENT;

	memcpy(&import, m->body, sizeof(import));
	lock_acquire(&lock);
	r = find(m->head.qpn);
	if (r && !memcmp(&r->domain->key, &import.config.domain, sizeof(r->domain->key))) {
		err = vrb_xrc_import(list_entry(r->handles.next, struct vrb_qp, xrc.node),
				     &import, m,
				&qp);
		if (!err)
			settle_here(r, qp);
	}
	lock_release(&lock);
	return err;
}

void vrb_remote_forget_all(void)
{
	xrc_rpc_forget();
	list_init(&remote_qps);
	lock_renew(&lock);
	pthread_mutex_init(&calls, NULL);
}
