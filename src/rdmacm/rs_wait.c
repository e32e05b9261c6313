/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for one rsocket, and waking waiting threads. */
#include "rdmacm/rs_wait.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/event.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_config.h"
#include "rdmacm/rs_conn.h"
#include "rdmacm/rs_dgram.h"
#include "rdmacm/rs_iomap.h"
#include "rdmacm/rs_service.h"
#include "rdmacm/rs_stream.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/restart.h"
#include "util/time.h"

/* ---- One eventfd per thread ---- */

enum { UNWOKEN_MS = 10 };	/* that a thread sleeps which others cannot wake */

static pthread_key_t event_key;
static bool has_event_key;
static pthread_once_t event_once = PTHREAD_ONCE_INIT;
static __thread int own_event = -1;
static __thread unsigned int own_generation;

static void close_event(void *value)
{
	if (own_event >= 0 && own_generation == cma.generation)
		close(own_event);
	own_event = -1;
}

static void make_key(void)
{
	has_event_key = pthread_key_create(&event_key, close_event) == 0;
}

int rs_sleep_ms(int efd, int timeout_ms)
{
	return efd < 0 && (timeout_ms < 0 || timeout_ms > UNWOKEN_MS) ? UNWOKEN_MS : timeout_ms;
}

int rs_own_event(void)
{
	/* After fork() the inherited eventfd belongs to the parent's thread. */
	if (own_event >= 0 && own_generation == cma.generation)
		return own_event;
	pthread_once(&event_once, make_key);
	own_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	own_generation = cma.generation;
	/* Without a key the eventfd stays open when the thread ends. */
	if (own_event >= 0 && has_event_key)
		pthread_setspecific(event_key, &own_event);
	return own_event;
}

void rs_clear_event(int efd)
{
	uint64_t count;

	/* EAGAIN: the count was zero already. */
	if (read(efd, &count, sizeof(count)) < 0)
		return;
}

void rs_wake_event(struct rs_waiter *w)
{
	uint64_t one = 1;

	/* Cannot fail: the count never reaches 2^64 - 1. */
	if (write(w->efd, &one, sizeof(one)) < 0)
		return;
}

void rs_wake(struct rsocket *rs)
{
	struct list *pos;

	list_for_each (pos, &rs->waiters) {
		struct rs_waiter *w = list_entry(pos, struct rs_waiter, node);

		w->wake(w);
	}
}

/* ---- Progress ---- */

/* A listener that is closed has none. */
static bool has_queue(const struct rsocket *rs)
{
	return rs->state == RS_OPEN || (rs->state == RS_CLOSED && rs->stream.cq);
}

bool rs_progress(struct rsocket *rs)
{
	bool changed = false;

	if (!rs_is_stream(rs))
		changed = rs_dgram_progress(rs);
	else if (has_queue(rs))
		changed = rs_stream_progress(rs);
	else if (rs_in_progress(rs))
		changed = rs_conn_progress(rs);
	if (rs->state == RS_OPEN && !list_empty(&rs->stream.announce))
		rs_iomap_flush(rs);
	if (changed)
		rs_wake(rs);
	return changed;
}

bool rs_progress_all(struct rsocket *rs)
{
	bool changed = false;

	if (!rs_is_stream(rs)) {
		changed = rs_dgram_progress_all(rs);
	} else if (has_queue(rs)) {
		changed = rs_stream_event(rs);
		changed |= rs_conn_progress(rs);
	}
	/* Wakes waiters even if nothing is new: descriptors they armed are disarmed now. */
	if (changed)
		rs_wake(rs);
	changed |= rs_progress(rs);
	return changed;
}

/* A connected stream that rs_progress() has looked at, without events of its connection. */
static bool is_quiet(const struct rsocket *rs)
{
	return rs_is_stream(rs) && has_queue(rs) && channel_idle(to_channel(rs->id->channel));
}

void rs_progress_more(struct rsocket *rs)
{
	rs_progress(rs);
	if (rs_is_stream(rs) && !is_quiet(rs))
		rs_progress_all(rs);
}

unsigned int rs_arm(struct rsocket *rs, struct pollfd fds[RS_WATCHED])
{
	unsigned int n = 0;

	if (!rs_is_stream(rs))
		return rs_dgram_arm(rs, fds);
	if (rs->state == RS_LISTENING) {
		fds[n++] = (struct pollfd){ .fd = rs->listen.ready, .events = POLLIN };
		return n;
	}
	if (has_queue(rs)) {
		rs_stream_arm(rs);
		fds[n++] = (struct pollfd){ .fd = rs->stream.events->fd, .events = POLLIN };
	}
	if (rs_in_progress(rs) || has_queue(rs))
		fds[n++] = (struct pollfd){ .fd = rs->id->channel->fd, .events = POLLIN };
	return n;
}

/* ---- Waiting ---- */

/*
 * Without a progress thread (VERBENA_PROGRESS=none) the waiting thread does its work.  The thread
 * may wait for a connection to a listener of this process, whose options are set then.
 */
int rs_sleep(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int ready;

	rs_watch_held(NULL);
	if (cma_mad() && qp1.polls(cma_mad())) {
		qp1.poll(cma_mad());
		timeout_ms = 0;
	}
	ready = rs_wait_begin() ? poll(fds, n, timeout_ms) : -1;
	rs_wait_end();
	return ready;
}

static bool spin(struct rsocket *rs, bool (*ready)(struct rsocket *rs))
{
	uint64_t until = 0;

	for (;;) {
		rs_progress(rs);
		if (ready(rs))
			return true;
		if (!until)
			until = clock_now() + rs_config()->polling_time * 1000ULL;
		else if (clock_now() >= until)
			return false;
		cpu_relax();
	}
}

/* A thread that sleeps. */
struct sleeper {
	struct rs_waiter waiter;
	struct rsocket *rs;
	enum rs_turn *turn;
};

/* Runs also if the thread is cancelled.  Takes the lock. */
static void woken(struct sleeper *s)
{
	pthread_mutex_lock(&s->rs->lock);
	list_del(&s->waiter.node);
}

static void cancelled(void *arg)
{
	struct sleeper *s = arg;

	woken(s);
	if (s->turn)
		rs_end_turn(s->rs, s->turn);
	pthread_mutex_unlock(&s->rs->lock);
}

/* Sleeps once.  Returns 0 or EINTR. */
static int sleep_once(struct rsocket *rs, enum rs_turn *turn, int timeout_ms,
		      bool (*ready)(struct rsocket *rs))
{
	struct sleeper s = {
		.waiter = { .wake = rs_wake_event, .efd = rs_own_event() },
		.rs = rs,
		.turn = turn,
	};
	struct pollfd fds[RS_WATCHED + 1];
	unsigned int n;
	int err = 0;

	timeout_ms = rs_sleep_ms(s.waiter.efd, timeout_ms);
	/* Consumes events first: consuming them after rs_arm() would disarm the channel. */
	rs_progress_all(rs);
	n = rs_arm(rs, fds);
	rs_progress(rs);
	if (ready(rs))
		return 0;
	fds[n++] = (struct pollfd){ .fd = s.waiter.efd, .events = POLLIN };
	list_add_tail(&rs->waiters, &s.waiter.node);
	pthread_mutex_unlock(&rs->lock);
	pthread_cleanup_push(cancelled, &s);
	if (rs_sleep(fds, n, timeout_ms) < 0)
		err = errno;
	pthread_cleanup_pop(0);
	if (fds[n - 1].revents)
		rs_clear_event(s.waiter.efd);
	woken(&s);
	rs_progress_all(rs);
	return err;
}

static int sleep_until(struct rsocket *rs, enum rs_turn *turn, bool (*ready)(struct rsocket *rs),
		       int timeout_ms)
{
	uint64_t until = timeout_ms < 0 ? UINT64_MAX : clock_now() + (uint64_t)timeout_ms * 1000000;

	for (;;) {
		uint64_t now = timeout_ms < 0 ? 0 : clock_now();
		int err, left = timeout_ms < 0 ? -1 : (int)((until - min(now, until)) / 1000000);

		err = sleep_once(rs, turn, left, ready);
		if (ready(rs))
			return 0;
		/* As the system, a call with a time limit is not restarted. */
		if (err == EINTR && timeout_ms < 0 && !restart_is_refused())
			continue;
		if (err)
			return err;
		if (timeout_ms >= 0 && clock_now() >= until)
			return EAGAIN;
	}
}

int rs_await(struct rsocket *rs, enum rs_turn *turn, bool (*ready)(struct rsocket *rs),
	     bool nonblock, int timeout_ms)
{
	int err;

	rs_progress(rs);
	if (ready(rs))
		return 0;
	if (nonblock) {
		if (!is_quiet(rs))
			rs_progress_all(rs);
		return ready(rs) ? 0 : EAGAIN;
	}
	if (spin(rs, ready))
		return 0;
	if (turn)
		*turn = RS_WAITING;
	err = sleep_until(rs, turn, ready, timeout_ms);
	if (turn)
		*turn = RS_BUSY;
	return err;
}

uint64_t rs_until(int timeout_ms)
{
	return timeout_ms < 0 ? VRB_NEVER : clock_now() + (uint64_t)timeout_ms * VRB_MSEC;
}

int rs_left(uint64_t until)
{
	uint64_t now;

	if (until == VRB_NEVER)
		return -1;
	now = clock_now();
	return now < until ? (int)((until - now + VRB_MSEC - 1) / VRB_MSEC) : 0;
}

static int await_part(struct rsocket *rs, bool (*ready)(struct rsocket *rs), uint64_t *left)
{
	uint64_t checked = clock_now(), part = min(*left, TIME_WAIT_STEP);
	int err = rs_await(rs, NULL, ready, false, (int)((part + VRB_MSEC - 1) / VRB_MSEC));

	*left -= min(*left, time_wait_step(&checked, clock_now()));
	return err == EAGAIN && *left ? EINTR : err;
}

int rs_await_anyway(struct rsocket *rs, bool (*ready)(struct rsocket *rs), uint64_t *left)
{
	int err;

	do
		err = *left == VRB_NEVER ? rs_await(rs, NULL, ready, false, -1) :
					   await_part(rs, ready, left);
	while (err == EINTR);
	return err;
}

/* ---- Turns ---- */

static bool is_free(struct rsocket *rs, enum rs_turn turn)
{
	rs->in_line |= turn != RS_FREE;
	return turn == RS_FREE;
}

static bool tx_free(struct rsocket *rs)
{
	return is_free(rs, rs->tx_turn);
}

static bool rx_free(struct rsocket *rs)
{
	return is_free(rs, rs->rx_turn);
}

int rs_take_turn(struct rsocket *rs, enum rs_turn *turn, bool nonblock, int timeout_ms)
{
	int err = 0;

	/* It copies, which takes no longer than what this thread is about to do. */
	while (nonblock && *turn == RS_BUSY) {
		pthread_mutex_unlock(&rs->lock);
		sched_yield();
		pthread_mutex_lock(&rs->lock);
	}
	if (*turn != RS_FREE)
		err = rs_await(rs, NULL, turn == &rs->tx_turn ? tx_free : rx_free, nonblock,
			       timeout_ms);
	if (!err)
		*turn = RS_BUSY;
	return err;
}

void rs_end_turn(struct rsocket *rs, enum rs_turn *turn)
{
	*turn = RS_FREE;
	if (rs->in_line)
		rs_wake(rs);
	rs->in_line = false;
}
