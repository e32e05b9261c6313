/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll(), rselect(). */
#include "rdmacm/rs_poll.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/select.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_config.h"
#include "rdmacm/rs_dgram.h"
#include "rdmacm/rs_io.h"
#include "rdmacm/rs_listen.h"
#include "rdmacm/rs_wait.h"
#include "run/clock.h"
#include "util/atomic.h"

enum {
	FEW = 32, /* descriptors for which arrays on the stack suffice */
	MS = 1000000,
};

/*
 * POLLRDHUP is reported before the data is read, as TCP does: programs that wait for edges need not
 * read until the end of file if they know that there is one.
 */
static short stream_ready(struct rsocket *rs)
{
	switch (rs->state) {
	case RS_LISTENING:
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

/* ---- One call ---- */

/* This thread in an rsocket's list.  The rsocket is counted: another thread may close it. */
struct sleeper {
	struct rs_waiter waiter;
	struct rsocket *rs; /* NULL: an ordinary descriptor */
	bool closed;
};

/* fds[0 .. n) are the program's; sleep_fds has room for all descriptors that signal them. */
struct call {
	struct pollfd *fds, *sleep_fds;
	struct sleeper *sleepers;
	nfds_t n;
	bool mixed; /* some are ordinary descriptors */
};

static struct rsocket *rs_of(const struct pollfd *fd)
{
	return rs_peek(fd->fd);
}

static bool is_inherited(const struct rsocket *rs)
{
	return rs->generation != cma.generation;
}

static short look(struct rsocket *rs, short events, bool all)
{
	short revents;

	if (is_inherited(rs))
		return POLLNVAL;
	pthread_mutex_lock(&rs->lock);
	revents = 0;
	if (!all)
		revents = rs_ready(rs, events);
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

/* Polls the ordinary descriptors without sleeping.  Returns -1 with errno. */
static int look_at_others(struct call *c)
{
	nfds_t i, j = 0;

	for (i = 0; i < c->n; i++)
		if (!rs_of(&c->fds[i]))
			c->sleep_fds[j++] = c->fds[i];
	if (poll(c->sleep_fds, j, 0) < 0)
		return -1;
	for (i = 0, j = 0; i < c->n; i++)
		if (!rs_of(&c->fds[i]))
			c->fds[i].revents = c->sleep_fds[j++].revents;
	return 0;
}

/* Returns the number of ready descriptors; -1 with errno. */
static int look_at_all(struct call *c, bool all)
{
	int ready = 0;
	nfds_t i;

	if (c->mixed && look_at_others(c))
		return -1;
	for (i = 0; i < c->n; i++) {
		struct rsocket *rs = rs_of(&c->fds[i]);

		if (rs)
			c->fds[i].revents = look(rs, c->fds[i].events, all);
		ready += c->fds[i].revents != 0;
	}
	return ready;
}

/* Registers this thread with an rsocket; fills fds and returns their number. */
static nfds_t join(struct sleeper *s, int efd, struct pollfd *fds)
{
	nfds_t n;

	if (is_inherited(s->rs))
		return 0;
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
		struct sleeper *s = &c->sleepers[i];

		list_init(&s->waiter.node);
		s->closed = false;
		s->rs = rs_hold(c->fds[i].fd);
		if (s->rs) {
			n += join(s, efd, c->sleep_fds + n);
			continue;
		}
		/* Perhaps it was an rsocket before. */
		c->mixed = true;
		c->sleep_fds[n++] = c->fds[i];
	}
	c->sleep_fds[n++] = (struct pollfd){ .fd = efd, .events = POLLIN };
	return n;
}

static void leave(struct call *c)
{
	nfds_t i;

	for (i = 0; i < c->n; i++) {
		struct sleeper *s = &c->sleepers[i];

		if (!s->rs)
			continue;
		s->closed = rs_of(&c->fds[i]) != s->rs;
		if (!is_inherited(s->rs)) {
			pthread_mutex_lock(&s->rs->lock);
			list_del(&s->waiter.node);
			pthread_mutex_unlock(&s->rs->lock);
		}
		rs_put(s->rs);
	}
}

/* Marks what another thread has closed while this one slept; returns their number. */
static int mark_closed(struct call *c)
{
	int n = 0;
	nfds_t i;

	for (i = 0; i < c->n; i++) {
		if (!c->sleepers[i].closed)
			continue;
		c->fds[i].revents = POLLNVAL;
		n++;
	}
	return n;
}

/* Sleeps once.  Returns the number of ready descriptors, 0 for none, -1 with errno. */
static int sleep_once(struct call *c, int timeout_ms)
{
	int efd = rs_own_event(), ready, err = 0;
	bool polls = cma.mad && qp1.polls(cma.mad);
	nfds_t n;

	if (efd < 0)
		return -1;
	n = prepare(c, efd);
	/* sleep_fds is in use from here on. */
	ready = 0;
	for (nfds_t i = 0; i < c->n; i++) {
		struct rsocket *rs = rs_of(&c->fds[i]);

		if (rs)
			c->fds[i].revents = look(rs, c->fds[i].events, false);
		ready += rs && c->fds[i].revents;
	}
	if (!ready) {
		if (polls)
			qp1.poll(cma.mad);
		if (poll(c->sleep_fds, n, polls ? 0 : timeout_ms) < 0)
			err = errno;
	}
	leave(c);
	rs_clear_event(efd);
	if (err) {
		errno = err;
		return -1;
	}
	ready = look_at_all(c, true);
	return ready ? ready : mark_closed(c);
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

CMA_EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct pollfd few_fds[FEW * RS_WATCHED + 1];
	struct sleeper few[FEW];
	struct call c = { .fds = fds, .sleep_fds = few_fds, .sleepers = few, .n = nfds };
	nfds_t i, rsockets = 0;
	int ready = -1;

	for (i = 0; i < nfds; i++)
		rsockets += rs_of(&fds[i]) != NULL;
	if (!rsockets)
		return poll(fds, nfds, timeout);
	c.mixed = rsockets < nfds;
	if (nfds > FEW) {
		c.sleep_fds = calloc(nfds * RS_WATCHED + 1, sizeof(*c.sleep_fds));
		c.sleepers = calloc(nfds, sizeof(*c.sleepers));
	}
	if (c.sleep_fds && c.sleepers)
		ready = wait_for_any(&c, timeout);
	else
		errno = ENOMEM;
	if (nfds > FEW) {
		free(c.sleep_fds);
		free(c.sleepers);
	}
	return ready;
}

/* ---- rselect() ---- */

static bool in_set(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t collect(int nfds, const fd_set *r, const fd_set *w, const fd_set *x,
		      struct pollfd *fds)
{
	nfds_t n = 0;
	int fd;

	for (fd = 0; fd < nfds; fd++) {
		short events =
			(short)((in_set(fd, r) ? POLLIN : 0) | (in_set(fd, w) ? POLLOUT : 0) |
				(in_set(fd, x) ? POLLPRI : 0));

		if (events)
			fds[n++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return n;
}

static int keep(int fd, bool ready, fd_set *set)
{
	if (!in_set(fd, set))
		return 0;
	if (ready)
		return 1;
	FD_CLR(fd, set);
	return 0;
}

static int to_sets(const struct pollfd *fds, nfds_t n, fd_set *r, fd_set *w, fd_set *x)
{
	int ready = 0;
	nfds_t i;

	for (i = 0; i < n; i++) {
		short is = fds[i].revents;

		ready += keep(fds[i].fd, is & (POLLIN | POLLHUP | POLLERR), r);
		ready += keep(fds[i].fd, is & (POLLOUT | POLLERR), w);
		ready += keep(fds[i].fd, is & POLLPRI, x);
	}
	return ready;
}

/* Rounded up, so as not to return early; -1: no timeout. */
static int to_ms(const struct timeval *t)
{
	if (!t)
		return -1;
	if (t->tv_sec >= INT32_MAX / 1000)
		return INT32_MAX;
	return (int)(t->tv_sec * 1000 + (t->tv_usec + 999) / 1000);
}

CMA_EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		       struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t n, i;
	int ready;

	if (nfds < 0 || nfds > FD_SETSIZE)
		return cma_result(EINVAL);
	n = collect(nfds, readfds, writefds, exceptfds, fds);
	ready = rpoll(fds, n, to_ms(timeout));
	if (ready < 0)
		return -1;
	for (i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return cma_result(EBADF);
	return to_sets(fds, n, readfds, writefds, exceptfds);
}
