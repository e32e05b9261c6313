/* SPDX-License-Identifier: BSD-2-Clause */
/* poll(), select(), epoll. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <rdma/rsocket.h>

#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/real.h"

enum { FEW = 64 };

PRELOAD_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);

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
	struct pollfd few[FEW], *mapped = n > FEW ? calloc(n, sizeof(*mapped)) : few;
	nfds_t i;
	int ready;

	if (!mapped) {
		errno = ENOMEM;
		return -1;
	}
	for (i = 0; i < n; i++) {
		int fd = entry_fd(fds[i].fd);

		mapped[i] = fds[i];
		if (fd >= 0)
			mapped[i].fd = fd;
	}
	ready = rpoll(mapped, n, timeout);
	for (i = 0; ready >= 0 && i < n; i++)
		fds[i].revents = mapped[i].revents;
	if (mapped != few)
		free(mapped);
	return ready;
}

/* Their clients send nothing before they are rsockets. */
static void settle_accepted(struct pollfd *fds, nfds_t n)
{
	nfds_t i;

	for (i = 0; entry_any() && i < n; i++) {
		const struct entry *e = entry_find(fds[i].fd);

		if (e && e->kind == ENTRY_DEFERRED && e->side == SIDE_ACCEPTED)
			deferred_fd(fds[i].fd);
	}
}

PRELOAD_EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	settle_accepted(fds, n);
	return any_entry(fds, n) ? poll_mapped(fds, n, timeout) : real()->poll(fds, n, timeout);
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

PRELOAD_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask)
{
	sigset_t old;
	int ready;

	settle_accepted(fds, n);
	if (!any_entry(fds, n))
		return real()->ppoll(fds, n, timeout, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	ready = poll_mapped(fds, n, to_ms(timeout));
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ready;
}

/* ---- select() ---- */

static bool in_set(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

static bool any_selected(int n, const fd_set *r, const fd_set *w, const fd_set *x)
{
	int fd;

	for (fd = 0; entry_any() && fd < n; fd++)
		if ((in_set(fd, r) || in_set(fd, w) || in_set(fd, x)) && entry_find(fd))
			return true;
	return false;
}

static nfds_t collect(int n, const fd_set *r, const fd_set *w, const fd_set *x, struct pollfd *out)
{
	nfds_t count = 0;
	int fd;

	for (fd = 0; fd < n; fd++) {
		short events =
			(short)((in_set(fd, r) ? POLLIN : 0) | (in_set(fd, w) ? POLLOUT : 0) |
				(in_set(fd, x) ? POLLPRI : 0));

		if (events)
			out[count++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return count;
}

static int keep(int fd, bool ready, fd_set *set)
{
	if (!in_set(fd, set))
		return 0;
	if (!ready)
		FD_CLR(fd, set);
	return ready;
}

static int select_mapped(int n, fd_set *r, fd_set *w, fd_set *x, int timeout_ms)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t count = collect(n, r, w, x, fds), i;
	int ready = 0;

	if (poll(fds, count, timeout_ms) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		short is = fds[i].revents;

		ready += keep(fds[i].fd, is & (POLLIN | POLLHUP | POLLERR), r);
		ready += keep(fds[i].fd, is & (POLLOUT | POLLERR), w);
		ready += keep(fds[i].fd, is & POLLPRI, x);
	}
	return ready;
}

PRELOAD_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout)
{
	struct timespec t;

	if (n < 0 || n > FD_SETSIZE || !any_selected(n, r, w, x))
		return real()->select(n, r, w, x, timeout);
	if (timeout)
		t = (struct timespec){ timeout->tv_sec, timeout->tv_usec * 1000 };
	return select_mapped(n, r, w, x, to_ms(timeout ? &t : NULL));
}

PRELOAD_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *timeout,
			   const sigset_t *mask)
{
	sigset_t old;
	int ready;

	if (n < 0 || n > FD_SETSIZE || !any_selected(n, r, w, x))
		return real()->pselect(n, r, w, x, timeout, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	ready = select_mapped(n, r, w, x, to_ms(timeout));
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ready;
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

PRELOAD_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	int ep = entry_fd(epoll);

	return ep < 0 ? real()->epoll_wait(epoll, events, max, timeout)
		      : repoll_wait(ep, events, max, timeout);
}

PRELOAD_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout,
			       const sigset_t *mask)
{
	int ep = entry_fd(epoll), ready;
	sigset_t old;

	if (ep < 0)
		return real()->epoll_pwait(epoll, events, max, timeout, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	ready = repoll_wait(ep, events, max, timeout);
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ready;
}
