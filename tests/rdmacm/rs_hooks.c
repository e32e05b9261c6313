/* SPDX-License-Identifier: BSD-2-Clause */
/* See rs_hooks.h. */
#include "rs_hooks.h"

#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include "util/atomic.h"

/* ---- Hooks that run when a thread sleeps ---- */

__thread unsigned int *sleeps;
__thread void (*before_sleep)(void), (*after_epoll)(void);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int poll(struct pollfd *fds, nfds_t n, int ms)
{
	static int (*real)(struct pollfd *, nfds_t, int);

	if (!load_relaxed(&real))
		store_relaxed(&real, (__typeof__(real))dlsym(RTLD_NEXT, "poll"));
	if (sleeps && ms)
		fetch_add_relaxed(sleeps, 1U);
	if (before_sleep && ms)
		before_sleep();
	return load_relaxed(&real)(fds, n, ms);
}

static int epoll_hooked(int (*real)(int, struct epoll_event *, int, int), int fd,
			struct epoll_event *e, int n, int ms)
{
	int ready;

	if (before_sleep)
		before_sleep();
	ready = real(fd, e, n, ms);
	if (after_epoll)
		after_epoll();
	return ready;
}

EXPORTED int epoll_wait(int fd, struct epoll_event *e, int n, int ms)
{
	static int (*real)(int, struct epoll_event *, int, int);

	if (!load_relaxed(&real))
		store_relaxed(&real, (__typeof__(real))dlsym(RTLD_NEXT, "epoll_wait"));
	if (sleeps && ms)
		fetch_add_relaxed(sleeps, 1U);
	return epoll_hooked(load_relaxed(&real), fd, e, n, ms);
}

/* ---- Hooks that run when a thread takes a lock ---- */

__thread void (*at_lock)(pthread_mutex_t *m);
__thread bool is_ours;
pthread_mutex_t *held_back;

EXPORTED int pthread_mutex_lock(pthread_mutex_t *m)
{
	static int (*real)(pthread_mutex_t *);

	if (!load_relaxed(&real))
		store_relaxed(&real, (__typeof__(real))dlsym(RTLD_NEXT, "pthread_mutex_lock"));
	if (at_lock)
		at_lock(m);
	while (!is_ours && load_acquire(&held_back) == m)
		sched_yield();
	return load_relaxed(&real)(m);
}
