/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread. */
#include "rdmacm/rs_service.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_stream.h"
#include "rdmacm/rs_wait.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/quiet_thread.h"

enum { EVENTS = 64 };

struct rs_watch {
	struct list node;
	struct rsocket *rs; /* counted; NULL: unwatched */
	int fd;
	void (*fn)(struct rsocket *rs);
	uint64_t from; /* held until then; 0: watched */
};

/*
 * Watches that have ended are freed by the thread between rounds, because it may have fetched an
 * event of one.
 */
static struct {
	pthread_mutex_t lock;
	bool running;
	int epfd, kick;
	unsigned int held; /* watches that are; atomic */
	struct list watches, ended; /* struct rs_watch.node */
	struct list keepalives;     /* struct rsocket.on_keepalive */
} service = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.epfd = -1,
	.kick = -1,
	.watches = { &service.watches, &service.watches },
	.ended = { &service.ended, &service.ended },
	.keepalives = { &service.keepalives, &service.keepalives },
};

static void kick(void)
{
	uint64_t one = 1;

	if (write(service.kick, &one, sizeof(one)) < 0)
		return;
}

/* ---- Keepalive ---- */

static uint64_t keep_idle_ns(const struct rsocket *rs)
{
	return rs->opt.keep_idle * 1000000000ULL;
}

/* The next rsocket with a keepalive due, counted; else *at is when one is due.  Under the lock. */
static struct rsocket *next_keepalive(uint64_t now, uint64_t *at)
{
	struct list *pos;

	*at = UINT64_MAX;
	list_for_each (pos, &service.keepalives) {
		struct rsocket *rs = list_entry(pos, struct rsocket, on_keepalive);

		if (rs->keepalive_at <= now) {
			rs->keepalive_at = now + keep_idle_ns(rs);
			rs_get(rs);
			return rs;
		}
		*at = min(*at, rs->keepalive_at);
	}
	return NULL;
}

static void send_keepalive(struct rsocket *rs)
{
	pthread_mutex_lock(&rs->lock);
	rs_progress_all(rs);
	if (rs->state == RS_OPEN && rs_stream_can_send_ctrl(&rs->stream))
		rs_stream_ping(rs);
	pthread_mutex_unlock(&rs->lock);
}

/* Sends due keepalives.  Returns ms until the next one, -1: none. */
static int do_keepalives(void)
{
	struct rsocket *rs;
	uint64_t now = clock_now(), at, ms;

	for (;;) {
		pthread_mutex_lock(&service.lock);
		rs = next_keepalive(now, &at);
		pthread_mutex_unlock(&service.lock);
		if (!rs)
			break;
		send_keepalive(rs);
		rs_put(rs);
	}
	if (at == UINT64_MAX)
		return -1;
	ms = (at - now + 999999) / 1000000;
	return (int)min(ms, (uint64_t)INT32_MAX);
}

int rs_keepalive(struct rsocket *rs)
{
	int err = rs_watch(NULL, -1, NULL);

	if (err)
		return err;
	pthread_mutex_lock(&service.lock);
	rs->keepalive_at = clock_now() + keep_idle_ns(rs);
	list_del(&rs->on_keepalive);
	list_add_tail(&service.keepalives, &rs->on_keepalive);
	kick();
	pthread_mutex_unlock(&service.lock);
	return 0;
}

void rs_no_keepalive(struct rsocket *rs)
{
	pthread_mutex_lock(&service.lock);
	list_del(&rs->on_keepalive);
	pthread_mutex_unlock(&service.lock);
}

/* ---- Held watches ---- */

/* Needs no memory, and so does not fail. */
static void look_for(struct rs_watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	epoll_ctl(service.epfd, EPOLL_CTL_MOD, w->fd, &e);
}

/* Under the lock. */
static void begin(struct rs_watch *w)
{
	if (!w->from)
		return;
	w->from = 0;
	store_relaxed(&service.held, service.held - 1);
	look_for(w, EPOLLIN);
}

/* Begins the watches held until now.  Returns ms until the next one begins, -1: none. */
static int begin_due(uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct list *pos;

	if (!load_relaxed(&service.held))
		return -1;
	pthread_mutex_lock(&service.lock);
	list_for_each (pos, &service.watches) {
		struct rs_watch *w = list_entry(pos, struct rs_watch, node);

		if (w->from > now)
			next = min(next, w->from);
		else
			begin(w);
	}
	pthread_mutex_unlock(&service.lock);
	return next == UINT64_MAX ? -1 : (int)((next - now) / 1000000 + 1);
}

void rs_watch_held(struct rsocket *rs)
{
	struct list *pos;

	if (!load_relaxed(&service.held))
		return;
	pthread_mutex_lock(&service.lock);
	list_for_each (pos, &service.watches) {
		struct rs_watch *w = list_entry(pos, struct rs_watch, node);

		if (!rs || w->rs == rs)
			begin(w);
	}
	pthread_mutex_unlock(&service.lock);
}

/* ---- The thread ---- */

/* Does what is due.  Returns ms until something else is, -1: nothing. */
static int do_due(void)
{
	int keepalives = do_keepalives(), begins = begin_due(clock_now());

	return keepalives < 0 || begins < 0 ? max(keepalives, begins) : min(keepalives, begins);
}

static void call(struct rs_watch *w)
{
	struct rsocket *rs;

	pthread_mutex_lock(&service.lock);
	rs = w->rs;
	if (rs)
		rs_get(rs);
	pthread_mutex_unlock(&service.lock);
	if (!rs)
		return;
	w->fn(rs);
	rs_put(rs);
}

static void free_ended(void)
{
	pthread_mutex_lock(&service.lock);
	while (!list_empty(&service.ended)) {
		struct rs_watch *w = list_entry(service.ended.next, struct rs_watch, node);

		list_del(&w->node);
		free(w);
	}
	pthread_mutex_unlock(&service.lock);
}

static void *run(void *arg)
{
	struct epoll_event events[EVENTS];
	int i, n;

	for (;;) {
		n = epoll_wait(service.epfd, events, EVENTS, do_due());
		for (i = 0; i < n; i++) {
			if (events[i].data.ptr)
				call(events[i].data.ptr);
			else
				rs_clear_event(service.kick);
		}
		free_ended();
	}
	return NULL;
}

static int start_thread(void)
{
	pthread_t thread;
	int err = quiet_thread_start(&thread, run, NULL);

	if (!err)
		pthread_detach(thread);
	return err;
}

static int start(void)
{
	struct epoll_event e = { .events = EPOLLIN };
	int err = 0;

	service.epfd = epoll_create1(EPOLL_CLOEXEC);
	service.kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service.epfd < 0 || service.kick < 0 ||
	    epoll_ctl(service.epfd, EPOLL_CTL_ADD, service.kick, &e))
		err = errno;
	if (!err)
		err = start_thread();
	service.running = !err;
	if (!err)
		return 0;
	close(service.epfd);
	close(service.kick);
	return err;
}

/* ---- Watches ---- */

static int add(struct rsocket *rs, int fd, void (*fn)(struct rsocket *rs), uint64_t from)
{
	struct rs_watch *w = calloc(1, sizeof(*w));
	struct epoll_event e = { .events = from ? 0 : EPOLLIN, .data.ptr = w };

	if (!w)
		return ENOMEM;
	*w = (struct rs_watch){ .rs = rs, .fd = fd, .fn = fn, .from = from };
	list_init(&w->node);
	if (epoll_ctl(service.epfd, EPOLL_CTL_ADD, fd, &e)) {
		int err = errno;

		free(w);
		return err;
	}
	rs_get(rs);
	list_add_tail(&service.watches, &w->node);
	rs->watch = w;
	if (from) {
		store_relaxed(&service.held, service.held + 1);
		kick();
	}
	return 0;
}

int rs_watch(struct rsocket *rs, int fd, void (*fn)(struct rsocket *rs))
{
	return rs_watch_from(rs, fd, fn, 0);
}

int rs_watch_from(struct rsocket *rs, int fd, void (*fn)(struct rsocket *rs), uint64_t from)
{
	int err;

	pthread_mutex_lock(&service.lock);
	err = service.running ? 0 : start();
	if (!err && rs && !rs->watch)
		err = add(rs, fd, fn, from);
	pthread_mutex_unlock(&service.lock);
	return err;
}

void rs_unwatch(struct rsocket *rs)
{
	struct rs_watch *w;

	pthread_mutex_lock(&service.lock);
	w = rs->watch;
	rs->watch = NULL;
	if (w) {
		epoll_ctl(service.epfd, EPOLL_CTL_DEL, w->fd, NULL);
		list_del(&w->node);
		list_add_tail(&service.ended, &w->node);
		if (w->from)
			store_relaxed(&service.held, service.held - 1);
		w->from = 0;
		w->rs = NULL;
		kick();
	}
	pthread_mutex_unlock(&service.lock);
	if (w)
		rs_put(rs);
}

static void set_paused(struct rsocket *rs, bool paused)
{
	pthread_mutex_lock(&service.lock);
	if (rs->watch && !rs->watch->from)
		look_for(rs->watch, paused ? 0 : EPOLLIN);
	pthread_mutex_unlock(&service.lock);
}

void rs_watch_pause(struct rsocket *rs)
{
	set_paused(rs, true);
}

void rs_watch_resume(struct rsocket *rs)
{
	set_paused(rs, false);
}

/* A forked child has no service thread. */
static void after_fork(void)
{
	pthread_mutex_init(&service.lock, NULL);
	if (service.running) {
		close(service.epfd);
		close(service.kick);
	}
	service.running = false;
	service.held = 0;
	list_init(&service.watches);
	list_init(&service.ended);
	list_init(&service.keepalives);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}
