/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A deferred socket in an epoll is held back: it is in a real epoll of ours, which is in the
 * program's as one descriptor, until it has become an rsocket or is known to stay TCP.  Then it
 * goes into the program's, with the event that the program has set.
 */
#include "rspreload/epoll.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rdmacm/rs_call.h"
#include "rspreload/call.h"
#include "rspreload/connect.h"
#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "rspreload/wait.h"
#include "util/compiler.h"
#include "util/list.h"

PRELOAD_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int max,
				const struct timespec *timeout, const sigset_t *mask);

enum { BATCH = 64 };

/* Of an epoll. */
struct held_back {
	struct list node;  /* all */
	struct list items;
	int inner;         /* the real epoll; it is in the program's with this object as its data */
	int outer;         /* of repoll_create() */
};

struct item {
	struct list node;
	const struct entry *e; /* only its address counts */
	int number;
	struct epoll_event event; /* the program's; events 0: disabled by EPOLLONESHOT */
};

/* Protects the lists and what is in them; inside e->turn, outside of librdmacm's locks. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static struct list all = { &all, &all };

static void after_fork(void)
{
	pthread_mutex_init(&gate, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

/* ---- What is held back.  Under the gate ---- */

static struct item *find(const struct held_back *h, int number)
{
	struct list *pos;

	if (h)
		list_for_each (pos, &h->items) {
			struct item *it = list_entry(pos, struct item, node);

			if (it->number == number)
				return it;
		}
	return NULL;
}

static void drop(struct item *it)
{
	list_del(&it->node);
	free(it);
}

/* We are interested in what is sent to it, too. */
static int watch(const struct held_back *h, int op, const struct item *it)
{
	struct epoll_event event = { .events = it->event.events | EPOLLIN,
				     .data.fd = it->number };

	if (!deferred_is_writable(it->e, it->number))
		event.events &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM);
	return real()->epoll_ctl(h->inner, op, it->number, &event);
}

static struct held_back *make(int outer)
{
	struct held_back *h = calloc(1, sizeof(*h));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = h };

	if (!h)
		return NULL;
	h->outer = outer;
	h->inner = real()->epoll_create1(EPOLL_CLOEXEC);
	if (h->inner < 0 || repoll_ctl(outer, EPOLL_CTL_ADD, h->inner, &event)) {
		if (h->inner >= 0)
			real()->close(h->inner);
		free(h);
		return NULL;
	}
	list_init(&h->items);
	list_add_tail(&all, &h->node);
	return h;
}

static int add(struct entry *epoll, const struct entry *e, int number,
	       const struct epoll_event *event)
{
	struct item *it = find(epoll->held_back, number), *made;

	if (it && it->e == e) {
		errno = EEXIST;
		return -1;
	}
	if (it)
		drop(it);
	if (!epoll->held_back)
		epoll->held_back = make(epoll->fd);
	made = epoll->held_back ? malloc(sizeof(*made)) : NULL;
	if (!made)
		return -1;
	*made = (struct item){ .e = e, .number = number, .event = *event };
	if (watch(epoll->held_back, EPOLL_CTL_ADD, made)) {
		free(made);
		return -1;
	}
	list_add_tail(&epoll->held_back->items, &made->node);
	return 0;
}

static int control(struct entry *epoll, int op, const struct entry *e, int number,
		   const struct epoll_event *event)
{
	struct item *it = find(epoll->held_back, number);

	if (!event && op != EPOLL_CTL_DEL) {
		errno = EFAULT;
		return -1;
	}
	if (op == EPOLL_CTL_ADD)
		return add(epoll, e, number, event);
	if (!it || it->e != e) {
		errno = ENOENT;
		return -1;
	}
	if (op == EPOLL_CTL_DEL) {
		real()->epoll_ctl(epoll->held_back->inner, op, number, NULL);
		drop(it);
		return 0;
	}
	it->event = *event;
	return watch(epoll->held_back, op, it);
}

/* Or may be once it has connected. */
static bool is_to_be_held_back(const struct entry *e, int number)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	if (!e || e->kind != ENTRY_DEFERRED || e->side != SIDE_NONE)
		return deferred_is_connected(e);
	real()->getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
	return !listens;
}

/* True: the call is done, with this result. */
static bool control_now(struct entry *epoll, int op, int number, struct epoll_event *event,
			int *result)
{
	const struct entry *e;
	bool done = true;

	pthread_mutex_lock(&gate);
	e = entry_find(number);
	if (is_to_be_held_back(e, number) || (e && find(epoll->held_back, number)))
		*result = control(epoll, op, e, number, event);
	else if (e && e->kind == ENTRY_SOCKET)
		*result = repoll_ctl(epoll->fd, op, e->fd, event);
	else
		done = false;
	pthread_mutex_unlock(&gate);
	return done;
}

static void release(struct held_back *h, struct item *it, int fd)
{
	real()->epoll_ctl(h->inner, EPOLL_CTL_DEL, it->number, NULL);
	repoll_ctl(h->outer, EPOLL_CTL_ADD, fd < 0 ? it->number : fd, &it->event);
	drop(it);
}

void epoll_settled(const struct entry *e, int number, int fd)
{
	struct list *pos;

	pthread_mutex_lock(&gate);
	list_for_each (pos, &all) {
		struct held_back *h = list_entry(pos, struct held_back, node);
		struct item *it = find(h, number);

		if (it && it->e == e)
			release(h, it, fd);
	}
	pthread_mutex_unlock(&gate);
}

void epoll_replaced(struct entry *e, int number)
{
	struct entry *last = NULL;

	pthread_mutex_lock(&gate);
	if (entry_find(number) == e) {
		vrb_rs_epoll_replace(e->fd, number);
		last = entry_drop(number);
	}
	pthread_mutex_unlock(&gate);
	entry_release(last);
}

void epoll_end(struct entry *e)
{
	struct held_back *h = e->held_back;

	if (!h)
		return;
	pthread_mutex_lock(&gate);
	while (!list_empty(&h->items))
		drop(list_entry(h->items.next, struct item, node));
	list_del(&h->node);
	pthread_mutex_unlock(&gate);
	real()->close(h->inner);
	free(h);
}

/* ---- Waiting ---- */

enum verdict {
	REPORT,
	SETTLE, /* it can become what it is */
	IGNORE,
};

/* Of an event of the real epoll. out: the program's event. */
static enum verdict judge(struct held_back *h, const struct epoll_event *got,
			  struct epoll_event *out)
{
	const int number = got->data.fd;
	struct item *it = find(h, number);
	uint32_t asked;

	if (!it || it->e != entry_find(number))
		return IGNORE;
	if (got->events & EPOLLIN && !(got->events & EPOLLERR) && deferred_is_connected(it->e))
		return SETTLE;
	asked = it->event.events | EPOLLERR | EPOLLHUP;
	if (got->events & EPOLLOUT && !deferred_is_writable(it->e, number))
		asked &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM);
	if (!(got->events & asked)) {
		/* Once it is what it is, the program's epoll tells of it. */
		watch(h, EPOLL_CTL_MOD, it);
		return IGNORE;
	}
	*out = (struct epoll_event){ .events = got->events & asked, .data = it->event.data };
	if (it->event.events & EPOLLONESHOT)
		it->event.events = 0;
	return REPORT;
}

/* Returns how many events there are for the program. *later: something cannot settle now. */
static int take_held_back(struct held_back *h, struct epoll_event *out, int max, bool *later)
{
	struct epoll_event got[BATCH];
	int n = real()->epoll_wait(h->inner, got, min(max, (int)BATCH), 0), i, count = 0;

	for (i = 0; i < n; i++) {
		enum verdict v;

		pthread_mutex_lock(&gate);
		v = judge(h, &got[i], &out[count]);
		pthread_mutex_unlock(&gate);
		if (v == SETTLE && !deferred_settle(got[i].data.fd))
			*later = true;
		count += v == REPORT;
	}
	return count;
}

/* Replaces the event that says that there are some. */
static int unfold(struct held_back *h, struct epoll_event *events, int n, int max, bool *later)
{
	int i;

	for (i = 0; h && i < n; i++)
		if (events[i].data.ptr == h) {
			events[i] = events[--n];
			return n + take_held_back(h, events + n, max - n, later);
		}
	return n;
}

/* Streams that were to connect: TCP may do it. */
static int take_failed(struct epoll_event *events, int n)
{
	int i = 0, fd;

	while (i < n) {
		if (events[i].events != RS_CONNECT_FAILED) {
			i++;
			continue;
		}
		fd = events[i].data.fd;
		events[i] = events[--n];
		connect_failed(fd);
	}
	return n;
}

static int wait_by(const struct inner_wait *w, int outer, struct epoll_event *events, int max,
		   int timeout)
{
	const struct inner_wait was = inner_wait;
	int n;

	inner_wait = *w;
	n = repoll_wait(outer, events, max, timeout);
	inner_wait = was;
	return n;
}

static int wait_for_entry(const struct entry *epoll, struct epoll_event *events, int max,
			  int timeout_ms, const sigset_t *mask)
{
	CALL;
	const struct inner_wait w = { .active = mask, .mask = mask };
	const uint64_t start = timeout_ms > 0 ? wait_now_us() : 0;
	/* Another thread may close it meanwhile. */
	const int outer = epoll->fd;
	bool later;
	int n, left;

	do {
		later = false;
		left = wait_left_ms(timeout_ms, start);
		n = wait_by(&w, outer, events, max, left);
		if (n <= 0)
			return n;
		n = take_failed(events, n);
		n = unfold(epoll->held_back, events, n, max, &later);
		if (!n && later && (!left || wait_a_moment(left, mask) < 0))
			return left ? -1 : 0;
	} while (!n);
	return n;
}

static const struct entry *epoll_entry(int number)
{
	const struct entry *e = entry_find(number);

	return e && e->kind == ENTRY_EPOLL ? e : NULL;
}

/* By librdmacm. */
static int wait_inner(int epoll, struct epoll_event *events, int max, int timeout)
{
	const struct inner_wait was = inner_wait;
	int ready;

	inner_wait = (struct inner_wait){ 0 };
	ready = real()->epoll_pwait(epoll, events, max, timeout, was.mask);
	inner_wait = was;
	return ready;
}

/* ---- The calls ---- */

PRELOAD_EXPORT int epoll_create1(int flags)
{
	int fd, number;

	if (real_is_ours(__builtin_return_address(0)))
		return real()->epoll_create1(flags);
	fd = repoll_create(flags);
	if (fd < 0)
		return real()->epoll_create1(flags);
	number = entry_make(ENTRY_EPOLL, fd, flags & EPOLL_CLOEXEC);
	if (number < 0)
		rclose(fd);
	return number;
}

PRELOAD_EXPORT int epoll_create(int size)
{
	if (size > 0)
		return epoll_create1(0);
	errno = EINVAL;
	return -1;
}

static int control_entry(struct entry *epoll, int op, int number, struct epoll_event *event)
{
	CALL;
	const struct entry *e = entry_find(number);
	int fd, result;

	if (control_now(epoll, op, number, event, &result))
		return result;
	/* It is in none yet.  libuv removes those, too, that it has not added. */
	if (op == EPOLL_CTL_DEL && e && e->kind == ENTRY_DEFERRED && e->side == SIDE_ACCEPTED) {
		errno = ENOENT;
		return -1;
	}
	/* Clients of one that was accepted send nothing until it is an rsocket. */
	fd = deferred_fd(number);
	return repoll_ctl(epoll->fd, op, fd < 0 ? number : fd, event);
}

PRELOAD_EXPORT int epoll_ctl(int epoll, int op, int number, struct epoll_event *event)
{
	struct entry *e = entry_find(epoll);

	if (!e || e->kind != ENTRY_EPOLL)
		return real()->epoll_ctl(epoll, op, number, event);
	return control_entry(e, op, number, event);
}

PRELOAD_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	const struct entry *e = epoll_entry(epoll);

	if (inner_wait.active)
		return wait_inner(epoll, events, max, timeout);
	return e ? wait_for_entry(e, events, max, timeout, NULL)
		 : real()->epoll_wait(epoll, events, max, timeout);
}

PRELOAD_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout,
			       const sigset_t *mask)
{
	const struct entry *e = epoll_entry(epoll);

	return e ? wait_for_entry(e, events, max, timeout, mask)
		 : real()->epoll_pwait(epoll, events, max, timeout, mask);
}

/* Programs fall back to epoll_pwait() where there is none. */
PRELOAD_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int max,
				const struct timespec *timeout, const sigset_t *mask)
{
	const struct entry *e = epoll_entry(epoll);

	if (e && wait_time_ok(timeout))
		return wait_for_entry(e, events, max, wait_ms(timeout), mask);
	if (real()->epoll_pwait2)
		return real()->epoll_pwait2(epoll, events, max, timeout, mask);
	errno = ENOSYS;
	return -1;
}
