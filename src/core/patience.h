/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a program that waits for a completion event poll for a moment before it sleeps?  To wake the progress thread for a packet, and then
 * the program, costs as much as polling for SHORT_WAIT.  So where the last waits were that short, the next one begins with polling, and a
 * busy program costs no more than one that polls; one whose waits are long sleeps at once, and costs nothing while it is idle.
 *
 * Polling is in vain where whoever is to answer needs the same processor; after that so many waits sleep at once, each time about twice as
 * many as before.
 *
 * No time is read here.  Hints: several threads may wait on one channel, without a lock.
 */
#ifndef VRB_CORE_PATIENCE_H
#define VRB_CORE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/time.h"

enum { PATIENCE_STEP_MAX = 127 };

#define SHORT_WAIT (100 * VRB_USEC)

struct patience {
	uint8_t sleeps;		/* atomic: so many short waits more sleep at once; 0: the next one polls first */
	uint8_t step;		/* atomic: as many they were after polling in vain; 0 after success */
};

static inline void patience_init(struct patience *p)
{
	*p = (struct patience){ .sleeps = 1 };
}

static inline bool patience_polls(const struct patience *p)
{
	return load_relaxed(&p->sleeps) == 0;
}

/* A wait has begun with polling, and the event came meanwhile, or not. */
static inline void patience_polled(struct patience *p, bool came)
{
	unsigned int step = load_relaxed(&p->step);

	step = came ? 0 : 2 * step + 1;
	if (step > PATIENCE_STEP_MAX)
		step = PATIENCE_STEP_MAX;
	store_relaxed(&p->step, step);
	store_relaxed(&p->sleeps, step);
}

/* A wait has slept at once; it was over within SHORT_WAIT, or not. */
static inline void patience_slept(struct patience *p, bool over_soon)
{
	unsigned int sleeps = load_relaxed(&p->sleeps);

	if (!over_soon && !sleeps)
		store_relaxed(&p->sleeps, 1);
	else if (over_soon && sleeps)
		store_relaxed(&p->sleeps, sleeps - 1);
}

#endif
