/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of many objects in one heap, updated lazily.
 *
 * An owner arms its timer when its deadline gets earlier, and does nothing when it gets later: the
 * timer then fires early, and the owner arms it again with its current deadline. So a data path
 * that moves its deadline with each packet updates the heap only once per expiry.
 *
 * The protocol that makes this safe:
 *	- the owner calls timers_arm() under its own lock (qp->lock);
 *	- a thread that pops a timer takes the owner's lock afterwards, checks its deadline, and
 *	  arms it again.
 *
 * Lock: the heap's own, a leaf (level 8 in core/base/state.h), taken inside every call but
 * timers_next(). Room is reserved by timers_add(), so arming cannot fail.  O(log n).
 */
#ifndef VRB_RUN_TIMERS_H
#define VRB_RUN_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/lock.h"
#include "util/time.h"

/* Embedded in its owner. Zero-initialised, then timers_add(). Private to timers.c. */
struct timer {
	/* VRB_NEVER: not armed. Written under the heap's lock, read without it as a hint */
	uint64_t at;
	uint32_t slot;		/* position in the heap; under the heap's lock */
};

/* Private to timers.c and timers_next(). */
struct timers {
	struct lock lock;	/* protects all but next */
	struct timer **heap;
	uint32_t n;		/* armed */
	uint32_t added;
	uint32_t capacity;
	uint64_t next;		/* heap[0]->at or VRB_NEVER; a hint that orders nothing */
	uint64_t popped_until;	/* the latest `now` at which one was popped */
};

struct timers *timers_new(void);	/* NULL: no memory */
void timers_free(struct timers *ts);	/* every timer has been removed */

/* Adds a timer, not armed. Returns 0 or ENOMEM. */
int timers_add(struct timers *ts, struct timer *t);

/* Disarms and removes it; it is not popped afterwards. No effect if it was never added. */
void timers_remove(struct timers *ts, struct timer *t);

/*
 * The timer fires at `at` at the latest; no effect if it fires earlier already, or if `at` is
 * VRB_NEVER. A timer that has already expired fires in the next round, so that it cannot keep
 * others from firing. Returns true if this is now the earliest deadline of all: then call
 * progress_hurry().
 */
bool timers_arm(struct timers *ts, struct timer *t, uint64_t at);

/* Returns an expired timer, now disarmed; NULL if there is none. */
struct timer *timers_pop(struct timers *ts, uint64_t now);

/* The earliest deadline, VRB_NEVER if none. One atomic load. */
static inline uint64_t timers_next(const struct timers *ts)
{
	return load_relaxed(&ts->next);
}

#endif
