/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Way for a newcomer.  Where a queue drops what does not fit, a flow with a full window may never lose
 * anything: a packet of its takes each place that becomes free, and who comes later finds none.  So a
 * flow whose round trips have been long for some windows gives some of its window away, on trial.
 *
 *	round trips become shorter	the queue was mostly its own: it stays with less, and grows again
 *	they do not			the path is long, or the queue is others': it has its window back, and
 *					waits four times as long, unless round trips become longer still
 *
 * Time is cut into periods of three windows; a trial takes one.  The shortest round trip of each is what
 * counts: longer ones are the peer's scheduler.  Pure.
 */
#ifndef VRB_ROCE_YIELD_H
#define VRB_ROCE_YIELD_H

#include <stdint.h>

#include "util/time.h"

/* Shorter round trips hold no queue that is worth it. */
#define ROCE_YIELD_RTT (750 * VRB_USEC)

enum {
	ROCE_YIELD_PERIOD = 3,		/* windows */
	ROCE_YIELD_WAIT = 3,		/* periods of long round trips before a trial */
	ROCE_YIELD_WAIT_MAX = 1024,
};

struct roce_yield {
	uint32_t keep;		/* a window of no more has nothing to give */
	uint32_t window;	/* before the trial; 0: there is none */
	uint32_t windows;	/* acknowledged in this period */
	uint32_t periods;	/* of long round trips since the last trial */
	uint32_t wait;		/* so many until the next */
	uint64_t least;		/* round trip in this period; VRB_NEVER: none was measured */
	uint64_t before;	/* the same in the one before the last trial */
};

void roce_yield_start(struct roce_yield *y, uint32_t keep);

/* Loss, a CNP, or nothing at all came: what was measured says nothing. */
void roce_yield_disturbed(struct roce_yield *y);

void roce_yield_sample(struct roce_yield *y, uint64_t rtt);

/* A window's worth was acknowledged.  Returns the window from now on. */
uint32_t roce_yield_adapt(struct roce_yield *y, uint32_t window);

#endif
