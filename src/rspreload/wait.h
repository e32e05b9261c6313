/* SPDX-License-Identifier: BSD-2-Clause */
/* What poll(), select() and epoll share. */
#ifndef VRB_RSPRELOAD_WAIT_H
#define VRB_RSPRELOAD_WAIT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * While this thread is in a call of rsockets that waits on behalf of the program: librdmacm's own
 * poll() or epoll_wait() comes by here, and is the system's.  mask: the program's, or NULL: a call
 * of the system that sets the mask and waits in one lets no signal come between.
 */
struct inner_wait {
	bool active;
	const sigset_t *mask;
};
extern __thread struct inner_wait inner_wait;

/* Of a valid time: ms, rounded up; -1: none. */
int wait_ms(const struct timespec *t);

/* False: the system reports the error. */
bool wait_time_ok(const struct timespec *t);

uint64_t wait_now_us(void);

/* What is left of a wait that began at start_us; -1: no limit. */
int wait_left_ms(int timeout_ms, uint64_t start_us);

/* Waits for a moment of what is left, for what nobody announces; poll()'s result. In a call. */
int wait_a_moment(int left_ms, const sigset_t *mask);

#endif
