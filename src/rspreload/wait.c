/* SPDX-License-Identifier: BSD-2-Clause */
/* poll(), select(), epoll. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <rdma/rsocket.h>

#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "util/fdsets.h"

enum { FEW = 64 };

PRELOAD_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
PRELOAD_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			       const sigset_t *mask, size_t room);
PRELOAD_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int max,
				const struct timespec *timeout, const sigset_t *mask);

/* ---- poll() ---- */

static bool any_entry(const struct pollfd *fds, nfds_t n)
{
	nfds_t i;

	for (i = 0; entry_any() && i < n; i++)
		if (entry_fd(fds[i].fd) >= 0)
			return true;
	return false;
}

static int poll_mapped(struct pollfd *fds, nfds_t n, int timeout)
{
	struct pollfd few[FEW], *many = n > FEW ? calloc(n, sizeof(*many)) : NULL;
	struct pollfd *const mapped = n > FEW ? many : few;
	nfds_t i;
	int ready;

	if (!mapped) {
		errno = ENOMEM;
		return -1;
	}
	pthread_cleanup_push(free, many);
	for (i = 0; i < n; i++) {
		int fd = entry_fd(fds[i].fd);

		mapped[i] = fds[i];
		if (fd >= 0)
			mapped[i].fd = fd;
	}
	ready = rpoll(mapped, n, timeout);
	for (i = 0; ready >= 0 && i < n; i++)
		fds[i].revents = mapped[i].revents;
	pthread_cleanup_pop(1);
	return ready;
}

/* Their clients send nothing until they are rsockets. */
static void settle_accepted(struct pollfd *fds, nfds_t n)
{
	nfds_t i;

	for (i = 0; entry_any() && i < n; i++) {
		const struct entry *e = entry_find(fds[i].fd);

		if (e && e->kind == ENTRY_DEFERRED && e->side == SIDE_ACCEPTED)
			deferred_fd(fds[i].fd);
	}
}

static int poll_any(struct pollfd *fds, nfds_t n, int timeout)
{
	return any_entry(fds, n) ? poll_mapped(fds, n, timeout) : real()->poll(fds, n, timeout);
}

/*
 * The signal mask of a ppoll() or the like of this thread, for the call of the system in which
 * librdmacm waits, and which comes by here: that sets the mask and waits in one, so that no signal
 * comes between.
 */
static __thread const sigset_t *mask_of_wait;

PRELOAD_EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct timespec t = { timeout / 1000, timeout % 1000 * 1000000L };
	const sigset_t *mask = mask_of_wait;
	int ready;

	if (!mask) {
		settle_accepted(fds, n);
		return poll_any(fds, n, timeout);
	}
	/* A handler may poll. */
	mask_of_wait = NULL;
	ready = real()->ppoll(fds, n, timeout < 0 ? NULL : &t, mask);
	mask_of_wait = mask;
	return ready;
}

/* With nothing ready a signal that waits ends the call, also one that has not slept. */
static int poll_masked(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask)
{
	static const struct timespec none;
	int ready;

	mask_of_wait = mask;
	ready = poll_any(fds, n, timeout);
	mask_of_wait = NULL;
	return ready || !mask ? ready : real()->ppoll(NULL, 0, &none, mask);
}

PRELOAD_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return poll(fds, n, timeout);
}

static int to_ms(const struct timespec *t)
{
	if (!t)
		return -1;
	if (t->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	return (int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
}

/* The system reports the error. */
static bool time_ok(const struct timespec *t)
{
	return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

PRELOAD_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask)
{
	settle_accepted(fds, n);
	if (!time_ok(timeout) || !any_entry(fds, n))
		return real()->ppoll(fds, n, timeout, mask);
	return poll_masked(fds, n, to_ms(timeout), mask);
}

PRELOAD_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			       const sigset_t *mask, size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return ppoll(fds, n, timeout, mask);
}

/* ---- select() ---- */

static bool any_selected(const struct fdsets *s)
{
	int fd;

	for (fd = 0; entry_any() && fd < s->n; fd++)
		if (entry_find(fd) &&
		    (fdsets_in(fd, s->r) || fdsets_in(fd, s->w) || fdsets_in(fd, s->x)))
			return true;
	return false;
}

static int select_mapped(const struct fdsets *s, int timeout_ms, const sigset_t *mask)
{
	struct pollfd *fds = calloc((size_t)s->n, sizeof(*fds));
	nfds_t n;
	int ready;

	if (!fds) {
		errno = ENOMEM;
		return -1;
	}
	pthread_cleanup_push(free, fds);
	n = fdsets_to_poll(s, fds);
	settle_accepted(fds, n);
	ready = poll_masked(fds, n, timeout_ms, mask);
	if (ready >= 0) {
		ready = fdsets_from_poll(s, fds, n);
		if (ready < 0)
			errno = EBADF;
	}
	pthread_cleanup_pop(1);
	return ready;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* As Linux does, whose programs may wait for the rest. */
static void take_away(struct timeval *t, uint64_t us)
{
	uint64_t had = (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
	uint64_t left = had > us ? had - us : 0;
	int error = errno;

	*t = (struct timeval){ (time_t)(left / 1000000), (suseconds_t)(left % 1000000) };
	errno = error;
}

PRELOAD_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout)
{
	const struct fdsets s = { fdsets_size(n), r, w, x };

	uint64_t start;
	int ready;

	if (!fdsets_time_ok(timeout) || !any_selected(&s))
		return real()->select(n, r, w, x, timeout);
	start = now_us();
	ready = select_mapped(&s, fdsets_ms(timeout), NULL);
	if (timeout)
		take_away(timeout, now_us() - start);
	return ready;
}

PRELOAD_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *timeout,
			   const sigset_t *mask)
{
	const struct fdsets s = { fdsets_size(n), r, w, x };

	if (!time_ok(timeout) || !any_selected(&s))
		return real()->pselect(n, r, w, x, timeout, mask);
	return select_mapped(&s, to_ms(timeout), mask);
}

/* ---- epoll ---- */

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

PRELOAD_EXPORT int epoll_ctl(int epoll, int op, int number, struct epoll_event *event)
{
	int ep = entry_fd(epoll), fd = deferred_fd(number);

	if (ep < 0)
		return real()->epoll_ctl(epoll, op, number, event);
	return repoll_ctl(ep, op, fd < 0 ? number : fd, event);
}

/* By librdmacm, for an epoll_pwait(). */
static int wait_really(int epoll, struct epoll_event *events, int max, int timeout)
{
	const sigset_t *mask = mask_of_wait;
	int ready;

	mask_of_wait = NULL;
	ready = real()->epoll_pwait(epoll, events, max, timeout, mask);
	mask_of_wait = mask;
	return ready;
}

PRELOAD_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	int ep = entry_fd(epoll);

	if (mask_of_wait)
		return wait_really(epoll, events, max, timeout);
	return ep < 0 ? real()->epoll_wait(epoll, events, max, timeout)
		      : repoll_wait(ep, events, max, timeout);
}

static int wait_masked(int ep, struct epoll_event *events, int max, int timeout_ms,
		       const sigset_t *mask)
{
	int ready;

	mask_of_wait = mask;
	ready = repoll_wait(ep, events, max, timeout_ms);
	mask_of_wait = NULL;
	return ready;
}

PRELOAD_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout,
			       const sigset_t *mask)
{
	int ep = entry_fd(epoll);

	return ep < 0 ? real()->epoll_pwait(epoll, events, max, timeout, mask)
		      : wait_masked(ep, events, max, timeout, mask);
}

/* Programs fall back to epoll_pwait() where there is none. */
PRELOAD_EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int max,
				const struct timespec *timeout, const sigset_t *mask)
{
	int ep = entry_fd(epoll);

	if (ep >= 0 && time_ok(timeout))
		return wait_masked(ep, events, max, to_ms(timeout), mask);
	if (real()->epoll_pwait2)
		return real()->epoll_pwait2(epoll, events, max, timeout, mask);
	errno = ENOSYS;
	return -1;
}
