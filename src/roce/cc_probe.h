/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fairness probe. In a drop-tail queue a flow with a full window may never lose a packet: its own
 * packets take each free place, and a new flow finds none. So a flow whose round trips have been
 * long for some windows shrinks its window on trial.
 *
 *	round trips become shorter	the queue was mostly its own: it stays with less, and grows
 *					again
 *	they do not			the path is long, or the queue is others': it has its window
 *					back, and
 *					waits four times as long, unless round trips become longer
 *					still
 *
 * Time is cut into periods of three windows; a trial takes one.  The shortest round trip of each is
 * what counts: longer ones are the peer's scheduler.  Pure.
 */
#ifndef VRB_ROCE_CC_PROBE_H
#define VRB_ROCE_CC_PROBE_H

#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"

struct roce_cc_probe {
	uint32_t keep;		/* a window of no more has nothing to give */
	uint32_t window;	/* before the trial; 0: there is none */
	uint32_t windows;	/* acknowledged in this period */
	uint32_t periods;	/* of long round trips since the last trial */
	uint32_t wait;		/* so many until the next */
	uint64_t least;		/* round trip in this period; VRB_NEVER: none was measured */
	uint64_t before;	/* the same in the one before the last trial */
};

void roce_cc_probe_start(struct roce_cc_probe *p, uint32_t keep);

/* Loss, a CNP, or nothing at all came: what was measured says nothing. */
void roce_cc_probe_disturbed(struct roce_cc_probe *p);

static inline void roce_cc_probe_sample(struct roce_cc_probe *p, uint64_t rtt)
{
	p->least = min(p->least, rtt);
}

/* A window's worth was acknowledged.  Returns the window from now on. */
uint32_t roce_cc_probe_adapt(struct roce_cc_probe *p, uint32_t window);

#endif
