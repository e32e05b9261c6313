/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One struct afar per QP that is open here and has its home elsewhere, with all its handles.  When this process becomes the home it is left
 * without any, until the process that was the home ends.
 *
 * Locks: `calls` is held over opening and closing, questions included, outermost of all; `lock` protects the list and the handles' targets, under
 * vrb.drive and above a QP's.
 */
#include "core/xrc/afar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/event.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qp_modify.h"
#include "core/xrc/adopt.h"
#include "core/xrc/xrcask.h"
#include "core/xrc/xrcd.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"

#define PATIENCE (5 * VRB_SECOND)

enum { PAUSE_NS = 1000000 };

struct afar {
	struct list node;
	uint32_t qpn;
	struct xrc_domain *domain;
	struct list handles;	/* struct vrb_qp.xrc_node */
	int watch;		/* becomes readable when the home dies; -1: it is not watched */
};

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
static struct lock lock;
static struct list afars = { &afars, &afars };

/* Must hold `lock`. */
static struct afar *find(uint32_t qpn)
{
	struct list *pos;

	list_for_each (pos, &afars) {
		struct afar *a = list_entry(pos, struct afar, node);

		if (a->qpn == qpn && !list_empty(&a->handles))
			return a;
	}
	return NULL;
}

static void raise(struct afar *a, enum ibv_event_type type)
{
	struct list *pos;

	list_for_each (pos, &a->handles)
		vrb_event_qp(&list_entry(pos, struct vrb_qp, xrc_node)->ibv, type);
}

/* ---- the death of a home ---- */

static bool on_death(void *arg, int fd);

/* Must hold `lock`. Where the kernel or a PID namespace is in the way, the next call finds it out. */
static void watch(struct afar *a)
{
	int slot = host_owner(vrb.host, a->qpn);
	struct host_peer home;

	a->watch = -1;
	if (!host_peer(vrb.host, slot, &home))
		return;
	a->watch = (int)syscall(SYS_pidfd_open, home.pid, 0);
	if (a->watch < 0 || !host_alive(vrb.host, slot, home.incarnation) ||
	    progress_watch(vrb.progress, a->watch, PROGRESS_OWN, on_death, NULL)) {
		if (a->watch >= 0)
			close(a->watch);
		a->watch = -1;
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

static void home_ended(struct afar *a)
{
	int owner = host_owner(vrb.host, a->qpn);

	a->watch = -1;
	if (list_empty(&a->handles)) {
		list_del(&a->node);
		free(a);
	} else if (owner == HOST_NO_SLOT) {
		log_warn(LOG_CORE, "QP 0x%x is gone: the process that had it has died", a->qpn);
		raise(a, IBV_EVENT_QP_FATAL);
	} else if (owner != host_slot(vrb.host)) {
		watch(a);
	}
}

static bool on_death(void *arg, int fd)
{
	struct list *pos, *tmp;

	lock_acquire(&lock);
	list_for_each_safe (pos, tmp, &afars) {
		struct afar *a = list_entry(pos, struct afar, node);

		if (a->watch == fd)
			home_ended(a);
	}
	lock_release(&lock);
	unwatch(fd);
	return true;
}

/* ---- calls ---- */

static bool is_ours(struct vrb_qp *handle)
{
	return load_acquire(&handle->target) != handle;	/* pairs with the store in settle_here() */
}

/*
 * Asks the home, wherever it is by now. EALREADY: this process has become it. EINVAL: also if there is none any more.
 */
static int call(struct vrb_qp *handle, enum xrc_call what, const void *body, size_t len, void *reply,
		size_t reply_len)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint32_t qpn = handle->wq.qpn;
	uint64_t start = clock_now();

	while (clock_now() - start < PATIENCE) {
		int slot = host_owner(vrb.host, qpn), err = EAGAIN;

		if (is_ours(handle))
			return EALREADY;
		if (slot == HOST_NO_SLOT)
			return EINVAL;
		if (slot != host_slot(vrb.host))
			err = xrc_ask(slot, what, qpn, body, len, NULL, 0, reply, reply_len);
		if (!err || (err != EAGAIN && err != ESRCH && host_owner(vrb.host, qpn) == slot))
			return err;
		nanosleep(&pause, NULL);
	}
	return ETIMEDOUT;
}

/* The handle belongs to a known QP, or to one that is new here: then true. */
static bool enter(struct vrb_qp *handle, struct afar *fresh)
{
	struct afar *a;

	lock_acquire(&lock);
	a = find(handle->wq.qpn);
	if (!a) {
		list_add_tail(&afars, &fresh->node);
		list_init(&fresh->handles);
	}
	list_add_tail(a ? &a->handles : &fresh->handles, &handle->xrc_node);
	lock_release(&lock);
	return !a;
}

/* Takes a handle out, and with the last one its QP; *fd is what to unwatch. False: it has become one of a QP of this process. */
static bool leave(struct vrb_qp *handle, bool *last, int *fd)
{
	struct afar *a;

	lock_acquire(&lock);
	*last = false;
	*fd = -1;
	if (is_ours(handle)) {
		lock_release(&lock);
		return false;
	}
	a = find(handle->wq.qpn);
	list_del(&handle->xrc_node);
	*last = list_empty(&a->handles);
	if (*last) {
		list_del(&a->node);
		*fd = a->watch;
		free(a);
	}
	lock_release(&lock);
	return true;
}

static void begin_watch(struct vrb_qp *handle)
{
	struct afar *a;

	lock_acquire(&lock);
	a = is_ours(handle) ? NULL : find(handle->wq.qpn);
	if (a)
		watch(a);
	lock_release(&lock);
}

/* It is listed before the home is asked: the home may be handed over to us with its next word. */
static int open_new(struct vrb_qp *handle)
{
	struct xrc_key key = handle->xrcd->domain->key;
	uint32_t state = 0;
	bool last;
	int fd, err;

	/* A QP of this process that is not in the domain; one that is about to come here would be listed already. */
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

int vrb_afar_open(struct vrb_qp *handle)
{
	struct afar *fresh;
	int err = 0;

	if (!handle->xrcd->domain->has_inode)
		return EINVAL;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return ENOMEM;
	fresh->qpn = handle->wq.qpn;
	fresh->domain = handle->xrcd->domain;
	fresh->watch = -1;
	pthread_mutex_lock(&calls);
	if (enter(handle, fresh))
		err = open_new(handle);
	else
		free(fresh);
	pthread_mutex_unlock(&calls);
	return err == ENOMEM || err == ETIMEDOUT ? err : err ? EINVAL : 0;
}

bool vrb_afar_close(struct vrb_qp *handle)
{
	bool last, was_afar;
	int fd;

	pthread_mutex_lock(&calls);
	was_afar = leave(handle, &last, &fd);
	unwatch(fd);
	if (last)
		call(handle, XRC_CALL_CLOSE, NULL, 0, NULL, 0);
	pthread_mutex_unlock(&calls);
	return was_afar;
}

int vrb_afar_modify(struct vrb_qp *handle, const struct ibv_qp_attr *attr, int mask)
{
	struct xrc_modify mod = { .attr = *attr, .mask = mask };
	uint32_t state;
	int err = call(handle, XRC_CALL_MODIFY, &mod, sizeof(mod), &state, sizeof(state));

	if (err == EALREADY)
		return vrb_qp_modify(load_acquire(&handle->target), attr, mask);
	if (!err)
		handle->ibv.state = state;
	return err;
}

int vrb_afar_query(struct vrb_qp *handle, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;
	int err = call(handle, XRC_CALL_QUERY, NULL, 0, attr, sizeof(*attr));

	if (err != EALREADY)
		return err;
	vrb_qp_query(load_acquire(&handle->target), attr, &init);
	return 0;
}

/* ---- what the home says ---- */

void vrb_afar_receive(const struct xrc_msg *m)
{
	struct xrc_event e;
	struct afar *a;

	if (m->head.body != sizeof(e) || host_owner(vrb.host, m->head.qpn) != m->head.slot)
		return;
	memcpy(&e, m->body, sizeof(e));
	lock_acquire(&lock);
	a = find(m->head.qpn);
	if (a && e.type == XRC_NEW_HOME)
		watch(a);	/* the old one's watch goes with its process */
	else if (a && e.type <= IBV_EVENT_WQ_FATAL)
		raise(a, e.type);
	lock_release(&lock);
}

/* The handles become those of a QP of this process. */
static void settle_here(struct afar *a, struct vrb_qp *qp)
{
	while (!list_empty(&a->handles)) {
		struct vrb_qp *handle = list_entry(a->handles.next, struct vrb_qp, xrc_node);

		list_del(&handle->xrc_node);
		vrb_xrcd_add_handle(qp, handle);
		store_release(&handle->target, qp);
	}
	if (a->watch < 0) {
		list_del(&a->node);
		free(a);
	}
}

int vrb_afar_on_adopt(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len)
{
	struct xrc_adoption adoption;
	struct vrb_qp *qp;
	struct afar *a;
	int err = ENOENT;

	memcpy(&adoption, m->body, sizeof(adoption));
	lock_acquire(&lock);
	a = find(m->head.qpn);
	if (a && !memcmp(&a->domain->key, &adoption.config.domain, sizeof(a->domain->key))) {
		err = vrb_adopt(list_entry(a->handles.next, struct vrb_qp, xrc_node), &adoption, m,
				&qp);
		if (!err)
			settle_here(a, qp);
	}
	lock_release(&lock);
	return err;
}

void vrb_afar_forget_all(void)
{
	list_init(&afars);
	lock_init(&lock);
	pthread_mutex_init(&calls, NULL);
}
