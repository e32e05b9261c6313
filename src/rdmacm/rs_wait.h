/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for rsockets.  Each checks its condition by polling first, then sleeps in
 * poll() on the descriptors that signal the rsocket.
 *
 * One thread may take off a completion queue what another one sleeps for.  So each thread has an
 * eventfd, and a thread that has changed an rsocket wakes those in rs->waiters by it.
 */
#ifndef VRB_RDMACM_RS_WAIT_H
#define VRB_RDMACM_RS_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "rdmacm/rs.h"
#include "util/list.h"

struct rs_waiter {
	struct list node; /* rs->waiters */
	void (*wake)(struct rs_waiter *w);
	int efd;
};

enum { RS_WATCHED = 2 /* most descriptors that signal one rsocket */ };

/* Handles completions.  Under the lock.  Returns true if anything has changed. */
bool rs_progress(struct rsocket *rs);

/* The same, and events of the connection, which cost a system call. */
bool rs_progress_all(struct rsocket *rs);

/* The same for a stream that has such events, without the system call if it has none. */
void rs_progress_more(struct rsocket *rs);

/*
 * Arms the descriptors in fds: one becomes readable when the rsocket's state may have changed.
 * Call rs_progress() once more before sleeping; rs_progress_all() disarms.  Under the lock.
 * Returns their number.
 */
unsigned int rs_arm(struct rsocket *rs, struct pollfd fds[RS_WATCHED]);

/* Wakes waiting threads.  Under the lock. */
void rs_wake(struct rsocket *rs);

/* The eventfd of this thread; -1: no descriptor is left.  How long it may sleep then. */
int rs_own_event(void);
int rs_sleep_ms(int efd, int timeout_ms);
void rs_clear_event(int efd);
void rs_wake_event(struct rs_waiter *w);

/* poll(2), which is a cancellation point.  Must hold no lock. */
int rs_sleep(struct pollfd *fds, nfds_t n, int timeout_ms);

/*
 * Waits for ready(rs), at most timeout_ms (-1: no limit).  Under the lock, which it releases while
 * it waits.  turn: the turn that this thread has, or NULL.  Returns 0, EAGAIN (timeout, or not
 * ready with nonblock) or EINTR.
 */
int rs_await(struct rsocket *rs, enum rs_turn *turn, bool (*ready)(struct rsocket *rs),
	     bool nonblock, int timeout_ms);

/*
 * The same, and signals do not end it. Waits for at most *left ns, VRB_NEVER: no limit, and
 * subtracts what it has waited: not the time in which this process was stopped.
 */
int rs_await_anyway(struct rsocket *rs, bool (*ready)(struct rsocket *rs), uint64_t *left);

/* The end of a call with this limit of time, and the ms that are left; -1: no limit. */
uint64_t rs_until(int timeout_ms);
int rs_left(uint64_t until);

/*
 * Waits for a turn of rs, as rs_await() does; with nonblock, until the thread that has it waits.
 * Under the lock.
 */
int rs_take_turn(struct rsocket *rs, enum rs_turn *turn, bool nonblock, int timeout_ms);
void rs_end_turn(struct rsocket *rs, enum rs_turn *turn);

#endif
