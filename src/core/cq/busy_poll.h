/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adaptive busy polling before a program sleeps for a completion event. Waking the progress thread
 * and then the program takes about as long as polling for TUNE_BUSY_POLL_TIME. So if recent waits
 * were that short, the next one polls first, and a busy program pays no wake-ups. A program with
 * long waits sleeps at once, and uses no CPU while idle.
 *
 * Polling is useless if the responding process needs the same CPU. After a failed poll, a number of
 * waits sleep at once; the number roughly doubles with each failure.
 *
 * Reads no clock. All values are hints: several threads may wait on one channel without a lock.
 */
#ifndef VRB_CORE_CQ_BUSY_POLL_H
#define VRB_CORE_CQ_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/time.h"
#include "util/tuning.h"

struct busy_poll {
	/* atomic: this many more short waits sleep at once; 0: the next wait polls first */
	uint8_t sleeps;
	/* atomic: value of `sleeps` after the last failed poll; 0 after a success */
	uint8_t step;
};

static inline void busy_poll_init(struct busy_poll *p)
{
	*p = (struct busy_poll){ .sleeps = 1 };
}

static inline bool busy_poll_enabled(const struct busy_poll *p)
{
	return load_relaxed(&p->sleeps) == 0;
}

/* After a wait that polled first: `came` says whether the event arrived during the poll. */
static inline void busy_poll_polled(struct busy_poll *p, bool came)
{
	unsigned int step = load_relaxed(&p->step);

	step = came ? 0 : 2 * step + 1;
	if (step > TUNE_BUSY_POLL_SLEEPS_MAX)
		step = TUNE_BUSY_POLL_SLEEPS_MAX;
	store_relaxed(&p->step, step);
	store_relaxed(&p->sleeps, step);
}

/*
 * After a wait that slept at once: `over_soon` says whether polling would have been long enough.
 */
static inline void busy_poll_slept(struct busy_poll *p, bool over_soon)
{
	unsigned int sleeps = load_relaxed(&p->sleeps);

	if (!over_soon && !sleeps)
		store_relaxed(&p->sleeps, 1);
	else if (over_soon && sleeps)
		store_relaxed(&p->sleeps, sleeps - 1);
}

#endif
