/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers embedded in objects. progress/timeouts.c calls `expire` of each timer that is due;
 * run/timers.h is the heap.
 */
#ifndef VRB_CORE_BASE_OBJECT_TIMER_H
#define VRB_CORE_BASE_OBJECT_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "run/timers.h"

struct vrb_tx_batch;

/* One round of expired timers. */
struct expiry {
	uint64_t now;
	/* collects outgoing packets; flushed at the end of the round */
	struct vrb_tx_batch *batch;
	void (*take_all)(uint64_t now, bool poller);	/* processes all arrived packets */
	bool taken;			/* take_all was called */
	bool poller;
};

struct object_timer {
	struct timer timer;
	/* May be called before the time that was set. Holds vrb.poll_lock and no lock below it. */
	void (*expire)(struct object_timer *d, struct expiry *e);
};

/* Return value as timers_add(). */
int vrb_timer_add(struct object_timer *d, void (*expire)(struct object_timer *d, struct expiry *e));

/* The caller may hold the object's lock. */
void vrb_timer_set(struct object_timer *d, uint64_t due);

/* Removes the timer and waits until `expire` is not running. Must hold no lock. */
void vrb_timer_remove(struct object_timer *d);

#endif
