/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One struct remote_qp, with all its handles, per QP that is open here and has its home in another
 * process; one struct home per such process. When this process becomes the home, the handles move
 * to the QP.
 *
 * Locks: `calls`, outside vrb.lock, is held while a QP is opened or closed, including remote
 * calls. `lock` protects both lists and the handles' targets; it ranks below vrb.poll_lock and
 * above qp->lock.
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

/*
 * A process that is watched, because it is the home of remote QPs: once for all of them, since the
 * progress thread has few watches. Whoever takes it off the list closes its descriptor.
 */
struct home {
	struct list node;
	uint64_t incarnation;
	int fd;			/* pidfd */
	unsigned int qps;	/* remote_qps that name it */
};

struct remote_qp {
	struct list node;
	uint32_t qpn;
	struct xrc_domain *domain;
	struct list handles;	/* struct vrb_qp.xrc.node; one at least */
	struct home *home;	/* NULL: not watched */
};

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
static struct lock lock;
static struct list remote_qps = { &remote_qps, &remote_qps };
static struct list homes = { &homes, &homes };

/* Must hold `lock`. */
static struct remote_qp *find(uint32_t qpn)
{
	struct list *pos;

	list_for_each (pos, &remote_qps) {
		struct remote_qp *r = list_entry(pos, struct remote_qp, node);

		if (r->qpn == qpn)
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

/* Must hold `lock`. */
static struct home *find_home(uint64_t incarnation)
{
	struct list *pos;

	list_for_each (pos, &homes) {
		struct home *home = list_entry(pos, struct home, node);

		if (home->incarnation == incarnation)
			return home;
	}
	return NULL;
}

/* NULL: the kernel or a PID namespace prevents it, or the process has died. Must hold `lock`. */
static struct home *new_home(int slot, const struct host_peer *process)
{
	struct home *home = calloc(1, sizeof(*home));

	if (!home)
		return NULL;
	home->incarnation = process->incarnation;
	home->fd = (int)SYS_CALL(SYS_pidfd_open, process->pid, 0);
	if (home->fd >= 0 && host_alive(vrb.host, slot, process->incarnation) &&
	    !progress_watch(vrb.progress, home->fd, PROGRESS_OWN, on_home_died, NULL)) {
		list_add_tail(&homes, &home->node);
		return home;
	}
	if (home->fd >= 0)
		close(home->fd);
	free(home);
	return NULL;
}

/* Must hold `lock`. */
static void set_home(struct remote_qp *r, struct home *home)
{
	if (r->home)
		r->home->qps--;
	r->home = home;
	if (home)
		home->qps++;
}

/* Watches the home process. If that fails, the next call detects its death. Must hold `lock`. */
static void watch(struct remote_qp *r)
{
	int slot = host_owner(vrb.host, r->qpn);
	struct home *home = NULL;
	struct host_peer process;

	if (host_peer(vrb.host, slot, &process)) {
		home = find_home(process.incarnation);
		if (!home)
			home = new_home(slot, &process);
	}
	set_home(r, home);
}

/* Must hold `lock`. */
static void drop(struct remote_qp *r)
{
	set_home(r, NULL);
	list_del(&r->node);
	free(r);
}

/* It is off the list. Must not hold `lock`, which the callback takes. */
static void unwatch(struct home *home)
{
	progress_unwatch(vrb.progress, home->fd);
	close(home->fd);
	free(home);
}

static struct home *take_unused(void)
{
	struct home *found = NULL;
	struct list *pos;

	lock_acquire(&lock);
	list_for_each (pos, &homes) {
		struct home *home = list_entry(pos, struct home, node);

		if (!home->qps)
			found = home;
	}
	if (found)
		list_del(&found->node);
	lock_release(&lock);
	return found;
}

/* Of processes that are the home of no QP that is open here: it may have moved. */
static void unwatch_unused(void)
{
	struct home *home;

	while ((home = take_unused()))
		unwatch(home);
}

static void home_died(struct remote_qp *r)
{
	int owner = host_owner(vrb.host, r->qpn);

	set_home(r, NULL);
	if (owner == HOST_NO_SLOT) {
		log_warn(LOG_CORE, "QP 0x%x is lost: its home process has died", r->qpn);
		raise_event(r, IBV_EVENT_QP_FATAL);
	} else if (owner != host_slot(vrb.host)) {
		watch(r);
	}
}

/* Takes the home with this descriptor off the list; NULL: another thread has. */
static struct home *take_dead(int fd)
{
	struct list *pos;

	list_for_each (pos, &homes) {
		struct home *home = list_entry(pos, struct home, node);

		if (home->fd == fd) {
			list_del(&home->node);
			return home;
		}
	}
	return NULL;
}

static bool on_home_died(void *arg, int fd)
{
	struct home *home;
	struct list *pos;

	lock_acquire(&lock);
	home = take_dead(fd);
	list_for_each (pos, &remote_qps) {
		struct remote_qp *r = list_entry(pos, struct remote_qp, node);

		if (home && r->home == home)
			home_died(r);
	}
	lock_release(&lock);
	if (home)
		unwatch(home);
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
	uint64_t checked = 0, waited = 0;

	while ((waited += time_wait_step(&checked, clock_now())) < CALL_TIMEOUT) {
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
 * Removes a handle, and with the last one its remote_qp. False: the handle now belongs to a QP of
 * this process.
 */
static bool leave(struct vrb_qp *handle, bool *last)
{
	struct remote_qp *r;

	lock_acquire(&lock);
	*last = false;
	if (is_ours(handle)) {
		lock_release(&lock);
		return false;
	}
	r = find(handle->wq.qpn);
	list_del(&handle->xrc.node);
	*last = list_empty(&r->handles);
	if (*last)
		drop(r);
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
	int err;

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
	if (err && err != EALREADY && leave(handle, &last))
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
	pthread_mutex_lock(&calls);
	if (enter(handle, fresh))
		err = open_new(handle);
	else
		free(fresh);
	unwatch_unused();
	pthread_mutex_unlock(&calls);
	return err == ENOMEM || err == ETIMEDOUT ? err : err ? EINVAL : 0;
}

bool vrb_remote_close(struct vrb_qp *handle)
{
	bool last, was_remote;

	pthread_mutex_lock(&calls);
	was_remote = leave(handle, &last);
	unwatch_unused();
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
		watch(r);
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
	drop(r);
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

/* The QPs that are left belong to contexts that were closed without them. */
void vrb_remote_stop(void)
{
	struct list *pos;

	lock_acquire(&lock);
	list_for_each (pos, &remote_qps)
		set_home(list_entry(pos, struct remote_qp, node), NULL);
	lock_release(&lock);
	unwatch_unused();
}

void vrb_remote_forget_all(void)
{
	xrc_rpc_forget();
	list_init(&remote_qps);
	list_init(&homes);
	lock_renew(&lock);
	pthread_mutex_init(&calls, NULL);
}
