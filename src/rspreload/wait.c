/* SPDX-License-Identifier: BSD-2-Clause */
/* poll(), select(). */
#include "rspreload/wait.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <rdma/rsocket.h>

#include "rspreload/call.h"
#include "rspreload/connect.h"
#include "rspreload/deferred.h"
#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "util/fdsets.h"

enum {
	FEW = 64,
	MOMENT_MS = 2,
};

PRELOAD_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
PRELOAD_EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			       const sigset_t *mask, size_t room);

/* ---- Time ---- */

uint64_t wait_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int wait_left_ms(int timeout_ms, uint64_t start_us)
{
	uint64_t spent;

	if (timeout_ms <= 0)
		return timeout_ms;
	spent = (wait_now_us() - start_us) / 1000;
	return spent < (uint64_t)timeout_ms ? timeout_ms - (int)spent : 0;
}

int wait_ms(const struct timespec *t)
{
	if (!t)
		return -1;
	if (t->tv_sec >= INT_MAX / 1000)
		return INT_MAX;
	return (int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
}

bool wait_time_ok(const struct timespec *t)
{
	return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

/* ---- poll() ---- */

__thread struct inner_wait inner_wait;

static bool any_entry(const struct pollfd *fds, nfds_t n)
{
	nfds_t i;

	for (i = 0; entry_any() && i < n; i++)
		if (entry_fd(fds[i].fd) >= 0 || deferred_is_connected(entry_find(fds[i].fd)))
			return true;
	return false;
}

/*
 * A deferred socket is readable, to us, once it can become an rsocket. Returns whether there is
 * one.
 */
static bool map(const struct pollfd *fds, nfds_t n, struct pollfd *mapped)
{
	bool any = false;
	nfds_t i;

	for (i = 0; i < n; i++) {
		const struct entry *e = entry_find(fds[i].fd);

		mapped[i] = fds[i];
		if (e && e->fd >= 0) {
			mapped[i].fd = e->fd;
		} else if (deferred_is_connected(e)) {
			any = true;
			mapped[i].events |= POLLIN;
			if (!deferred_is_writable(e, fds[i].fd))
				mapped[i].events &= (short)~(POLLOUT | POLLWRNORM);
		}
	}
	return any;
}

enum look {
	SEEN,
	AGAIN, /* deferred sockets have become what they are */
	LATER, /* a deferred socket cannot, and no other is ready */
};

/* An rsocket that was to connect is TCP's now. */
static bool has_moved(const struct pollfd *p, int fd)
{
	return fd != p->fd && p->revents & (POLLERR | POLLNVAL) && connect_fd(p->fd) != fd;
}

/* Takes over what is ready, and counts it. */
static enum look unmap(struct pollfd *fds, nfds_t n, const struct pollfd *mapped, int *ready)
{
	bool again = false, later = false;
	nfds_t i;

	*ready = 0;
	for (i = 0; i < n; i++) {
		short is = mapped[i].revents;

		fds[i].revents = is;
		if (is && mapped[i].fd == fds[i].fd &&
		    deferred_is_connected(entry_find(fds[i].fd))) {
			fds[i].revents &= (short)(fds[i].events | POLLERR | POLLHUP | POLLNVAL);
			if (is & POLLIN && !(is & POLLERR)) {
				bool settled = deferred_settle(fds[i].fd);

				again |= settled;
				later |= !settled;
				fds[i].revents &= (short)~(POLLIN | POLLRDNORM);
			}
		}
		if (has_moved(&fds[i], mapped[i].fd)) {
			again = true;
			fds[i].revents = 0;
		}
		*ready += fds[i].revents != 0;
	}
	return again ? AGAIN : later && !*ready ? LATER : SEEN;
}

static int poll_by(const struct inner_wait *w, struct pollfd *fds, nfds_t n, int timeout)
{
	const struct inner_wait was = inner_wait;
	int ready;

	inner_wait = *w;
	ready = rpoll(fds, n, timeout);
	inner_wait = was;
	return ready;
}

static int poll_until(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask,
		      struct pollfd *mapped)
{
	const uint64_t start = timeout > 0 ? wait_now_us() : 0;
	struct inner_wait w = { .mask = mask };
	enum look look;
	int ready, left;

	do {
		left = wait_left_ms(timeout, start);
		w.active = map(fds, n, mapped) || mask;
		ready = poll_by(&w, mapped, n, left);
		if (ready < 0)
			return ready;
		look = unmap(fds, n, mapped, &ready);
	} while (look == AGAIN || (look == LATER && left && !(ready = wait_a_moment(left, mask))));
	return ready;
}

static int poll_mapped(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask)
{
	CALL;
	struct pollfd few[FEW], *many = n > FEW ? calloc(n, sizeof(*many)) : NULL;
	int ready;

	if (n > FEW && !many) {
		errno = ENOMEM;
		return -1;
	}
	pthread_cleanup_push(free, many);
	ready = poll_until(fds, n, timeout, mask, n > FEW ? many : few);
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

static int poll_now(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask)
{
	const struct timespec t = { timeout / 1000, timeout % 1000 * 1000000L };

	return mask ? real()->ppoll(fds, n, timeout < 0 ? NULL : &t, mask)
		    : real()->poll(fds, n, timeout);
}

/* In a call of ours, a wait. */
static int poll_really(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask)
{
	int ready;

	if (vrb_rs_where() == RS_OUTSIDE)
		return poll_now(fds, n, timeout, mask);
	ready = vrb_rs_wait_begin() ? poll_now(fds, n, timeout, mask) : -1;
	vrb_rs_wait_end();
	return ready;
}

int wait_a_moment(int left_ms, const sigset_t *mask)
{
	bool long_left = left_ms < 0 || left_ms > MOMENT_MS;

	return poll_really(NULL, 0, long_left ? MOMENT_MS : left_ms, mask);
}

static int poll_any(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask)
{
	return any_entry(fds, n) ? poll_mapped(fds, n, timeout, mask)
				 : poll_really(fds, n, timeout, mask);
}

static int poll_inner(struct pollfd *fds, nfds_t n, int timeout)
{
	const struct inner_wait was = inner_wait;
	int ready;

	/* A handler may poll. */
	inner_wait = (struct inner_wait){ 0 };
	ready = poll_now(fds, n, timeout, vrb_rs_where() == RS_SLEEPING ? was.mask : NULL);
	inner_wait = was;
	return ready;
}

PRELOAD_EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (inner_wait.active)
		return poll_inner(fds, n, timeout);
	settle_accepted(fds, n);
	return poll_any(fds, n, timeout, NULL);
}

/* With nothing ready a signal that waits ends the call, also one that has not slept. */
static int poll_masked(struct pollfd *fds, nfds_t n, int timeout, const sigset_t *mask)
{
	CALL;
	int ready = poll_any(fds, n, timeout, mask);

	return ready || !mask ? ready : poll_really(NULL, 0, 0, mask);
}

PRELOAD_EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	if (room / sizeof(*fds) < n)
		abort();
	return poll(fds, n, timeout);
}

PRELOAD_EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask)
{
	settle_accepted(fds, n);
	if (!wait_time_ok(timeout) || !any_entry(fds, n))
		return real()->ppoll(fds, n, timeout, mask);
	return poll_masked(fds, n, wait_ms(timeout), mask);
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
	CALL;
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
	start = wait_now_us();
	ready = select_mapped(&s, fdsets_ms(timeout), NULL);
	if (timeout)
		take_away(timeout, wait_now_us() - start);
	return ready;
}

PRELOAD_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *timeout,
			   const sigset_t *mask)
{
	const struct fdsets s = { fdsets_size(n), r, w, x };

	if (!wait_time_ok(timeout) || !any_selected(&s))
		return real()->pselect(n, r, w, x, timeout, mask);
	return select_mapped(&s, wait_ms(timeout), mask);
}
