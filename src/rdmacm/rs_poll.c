/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll(), rselect(). */
#include "rdmacm/rs_poll.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_config.h"
#include "rdmacm/rs_dgram.h"
#include "rdmacm/rs_epoll.h"
#include "rdmacm/rs_io.h"
#include "rdmacm/rs_listen.h"
#include "rdmacm/rs_service.h"
#include "rdmacm/rs_wait.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/fdsets.h"

enum {
	FEW = 32, /* descriptors for which arrays on the stack suffice */
	MS = 1000000,
};

/*
 * POLLRDHUP is reported before the data is read, as TCP does: programs that wait for edges need not
 * read until the end of file when POLLRDHUP has announced one.
 */
static short stream_ready(struct rsocket *rs)
{
	switch (rs->state) {
	case RS_LISTENING:
		rs_watch_held(rs);
		return rs_listen_has(rs) ? POLLIN : 0;
	case RS_OPEN:
		return (short)((rs_can_recv(rs) ? POLLIN : 0) | (rs_can_send(rs) ? POLLOUT : 0) |
			       (rs->can_read ? 0 : POLLRDHUP));
	case RS_CLOSED:
		/* POLLHUP would make programs stop before they have read everything. */
		return (short)(POLLIN | POLLOUT | POLLRDHUP | (rs->stream.rx.unread ? 0 : POLLHUP));
	case RS_FAILED:
		return POLLIN | POLLOUT | POLLRDHUP | POLLERR;
	default:
		return 0;
	}
}

short rs_ready(struct rsocket *rs, short events)
{
	short is = rs_is_stream(rs) ? stream_ready(rs) : rs_dgram_ready(rs);
	short asked = (short)(events | POLLHUP | POLLERR);

	if (events & POLLRDNORM && is & POLLIN)
		is |= POLLRDNORM;
	if (events & POLLWRNORM && is & POLLOUT)
		is |= POLLWRNORM;
	return (short)(is & asked);
}

short rs_ready_both(struct rsocket *rs, short events)
{
	const short in = POLLIN | POLLRDNORM | POLLRDHUP;
	short is = rs_ready(rs, events);

	if (!is || !(events & in) || is & (in | POLLHUP | POLLERR))
		return is;
	rs_progress_more(rs);
	return rs_ready(rs, events);
}

/* ---- One call ---- */

/* One of the program's descriptors, and this thread in its rsocket's list. */
struct sleeper {
	struct rs_waiter waiter;
	struct rsocket *rs; /* counted; NULL: an ordinary descriptor, or the parent's rsocket */
};

/* fds[0 .. n) are the program's; sleep_fds has room for all descriptors that signal them. */
struct call {
	struct pollfd *fds, *sleep_fds;
	struct sleeper *sleepers;
	nfds_t n;
	bool mixed; /* some are ordinary descriptors */
};

static short look(struct rsocket *rs, short events, bool all)
{
	short revents;

	pthread_mutex_lock(&rs->lock);
	/* rclose() removes it, then ends its connection, which is no event of the program's. */
	revents = rs_is_removed(rs) ? POLLNVAL : 0;
	if (!revents && !all)
		revents = rs_ready_both(rs, events);
	if (!revents) {
		if (all)
			rs_progress_all(rs);
		else
			rs_progress(rs);
		revents = rs_ready(rs, events);
	}
	pthread_mutex_unlock(&rs->lock);
	return revents;
}

/* Looks at all rsockets.  Returns the number of ready ones. */
static int look_at_rsockets(struct call *c, bool all)
{
	int ready = 0;
	nfds_t i;

	for (i = 0; i < c->n; i++) {
		if (!c->sleepers[i].rs)
			continue;
		c->fds[i].revents = look(c->sleepers[i].rs, c->fds[i].events, all);
		ready += c->fds[i].revents != 0;
	}
	return ready;
}

static bool is_parents(const struct call *c, nfds_t i)
{
	return !c->sleepers[i].rs && rs_peek(c->fds[i].fd);
}

/* Polls the ordinary descriptors without sleeping.  Returns how many are ready; -1 with errno. */
static int look_at_others(struct call *c)
{
	nfds_t i, j = 0;
	int ready = 0;

	for (i = 0; i < c->n; i++)
		if (!c->sleepers[i].rs)
			c->sleep_fds[j++] = c->fds[i];
	if (j && poll(c->sleep_fds, j, 0) < 0)
		return -1;
	for (i = 0, j = 0; i < c->n; i++) {
		if (c->sleepers[i].rs)
			continue;
		c->fds[i].revents = is_parents(c, i) ? POLLNVAL : c->sleep_fds[j].revents;
		ready += c->fds[i].revents != 0;
		j++;
	}
	return ready;
}

/* Returns the number of ready descriptors; -1 with errno. */
static int look_at_all(struct call *c, bool all)
{
	int others = c->mixed ? look_at_others(c) : 0;

	return others < 0 ? -1 : others + look_at_rsockets(c, all);
}

/* Registers this thread with an rsocket; fills fds and returns their number. */
static nfds_t join(struct sleeper *s, int efd, struct pollfd *fds)
{
	nfds_t n;

	pthread_mutex_lock(&s->rs->lock);
	s->waiter.wake = rs_wake_event;
	s->waiter.efd = efd;
	list_add_tail(&s->rs->waiters, &s->waiter.node);
	rs_progress_all(s->rs);
	n = rs_arm(s->rs, fds);
	pthread_mutex_unlock(&s->rs->lock);
	return n;
}

/* Registers this thread with each rsocket and fills sleep_fds; returns its length. */
static nfds_t prepare(struct call *c, int efd)
{
	nfds_t i, n = 0;

	for (i = 0; i < c->n; i++) {
		if (c->sleepers[i].rs)
			n += join(&c->sleepers[i], efd, c->sleep_fds + n);
		else
			c->sleep_fds[n++] = c->fds[i];
	}
	c->sleep_fds[n++] = (struct pollfd){ .fd = efd, .events = POLLIN };
	return n;
}

static void leave(void *arg)
{
	struct call *c = arg;
	nfds_t i;

	for (i = 0; i < c->n; i++) {
		struct sleeper *s = &c->sleepers[i];

		if (!s->rs)
			continue;
		pthread_mutex_lock(&s->rs->lock);
		list_del(&s->waiter.node);
		pthread_mutex_unlock(&s->rs->lock);
	}
	rs_clear_event(rs_own_event());
}

/* Sleeps once.  Returns the number of ready descriptors, 0 for none, -1 with errno. */
static int sleep_once(struct call *c, int timeout_ms)
{
	int efd = rs_own_event(), err = 0;
	nfds_t n;

	timeout_ms = rs_sleep_ms(efd, timeout_ms);
	n = prepare(c, efd);
	/* sleep_fds is in use from here on. */
	pthread_cleanup_push(leave, c);
	if (!look_at_rsockets(c, false) && rs_sleep(c->sleep_fds, n, timeout_ms) < 0)
		err = errno;
	pthread_cleanup_pop(1);
	if (!err)
		return look_at_all(c, true);
	errno = err;
	return -1;
}

static int wait_for_any(struct call *c, int timeout_ms)
{
	uint64_t start = 0, now;
	int ready, left = timeout_ms;

	for (;;) {
		ready = look_at_all(c, false);
		if (!ready && !timeout_ms)
			ready = look_at_all(c, true);
		if (ready || !timeout_ms)
			return ready;
		now = clock_now();
		start = start ? start : now;
		if (now - start >= rs_config()->polling_time * 1000ULL)
			break;
		cpu_relax();
	}
	for (;;) {
		if (timeout_ms > 0) {
			uint64_t spent = (clock_now() - start) / MS;

			left = spent < (uint64_t)timeout_ms ? timeout_ms - (int)spent : 0;
		}
		ready = sleep_once(c, left);
		if (ready || !left)
			return ready;
	}
}

static void end_call(struct call *c)
{
	int err = errno;
	nfds_t i;

	for (i = 0; c->sleepers && i < c->n; i++)
		if (c->sleepers[i].rs)
			rs_put(c->sleepers[i].rs);
	if (c->n > FEW) {
		free(c->sleep_fds);
		free(c->sleepers);
	}
	rs_call_end();
	errno = err;
}

static int poll_rsockets(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct pollfd few_fds[FEW * RS_WATCHED + 1];
	struct sleeper few[FEW];
	__attribute__((cleanup(end_call))) struct call c = {
		.fds = fds,
		.n = n,
		.sleep_fds = n > FEW ? calloc(n * RS_WATCHED + 1, sizeof(*fds)) : few_fds,
		.sleepers = n > FEW ? calloc(n, sizeof(*few)) : few,
	};
	nfds_t i;

	rs_call_begin();
	for (i = 0; c.sleepers && i < n; i++) {
		list_init(&c.sleepers[i].waiter.node);
		c.sleepers[i].rs = rs_hold(fds[i].fd);
		c.mixed |= !c.sleepers[i].rs;
	}
	if (c.sleep_fds && c.sleepers)
		return wait_for_any(&c, timeout_ms);
	return cma_result(ENOMEM);
}

CMA_EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	bool any = false;
	nfds_t i;

	for (i = 0; i < nfds; i++) {
		any |= rs_peek(fds[i].fd) != NULL;
		rs_epoll_polled(fds[i].fd);
	}
	return any ? poll_rsockets(fds, nfds, timeout) : poll(fds, nfds, timeout);
}

/* ---- rselect() ---- */

static int select_sets(const struct fdsets *s, struct pollfd *fds, int timeout_ms)
{
	nfds_t n = fdsets_to_poll(s, fds);
	int ready = rpoll(fds, n, timeout_ms);

	if (ready < 0)
		return -1;
	ready = fdsets_from_poll(s, fds, n);
	return ready < 0 ? cma_result(EBADF) : ready;
}

/* As the system's, it takes sets of more than FD_SETSIZE descriptors. */
CMA_EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		       struct timeval *timeout)
{
	const struct fdsets s = { fdsets_size(nfds), readfds, writefds, exceptfds };
	struct pollfd *fds;
	int ready;

	if (nfds < 0 || !fdsets_time_ok(timeout))
		return cma_result(EINVAL);
	fds = calloc((size_t)s.n + 1, sizeof(*fds));
	if (!fds)
		return cma_result(ENOMEM);
	pthread_cleanup_push(free, fds);
	ready = select_sets(&s, fds, fdsets_ms(timeout));
	pthread_cleanup_pop(1);
	return ready;
}
