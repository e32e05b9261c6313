/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fairness probe. In a drop-tail queue a flow with a full window may never lose a packet: its own
 * packets take each free place, and a new flow gets none. So a flow whose round trips have been
 * long for some windows reduces its window on trial. On a path that has lost packets, any round
 * trip counts as long: on a fast link even a full queue adds little delay.
 *
 *	round trips get shorter	the flow filled most of the queue: keep the smaller window, which
 *				grows again
 *	they do not		the path is long, or others fill the queue: restore the window.
 *				The next trial starts after four times as long, or sooner if round
 *				trips get even longer
 *
 * Time is divided into periods of three windows; a trial takes one period. Only the shortest round
 * trip of a period counts: longer ones are due to the peer's scheduler.
 *
 * Part of struct roce_cc; only cc.c calls this. Windows count PSNs, times are in ns. Pure code.
 */
#ifndef VRB_ROCE_CC_PROBE_H
#define VRB_ROCE_CC_PROBE_H

#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"

struct roce_cc_probe {
	uint32_t keep;		/* no trial for windows up to this size */
	uint32_t window;	/* window before the trial; 0: no trial in progress */
	uint32_t windows;	/* windows acknowledged in this period */
	uint32_t periods;	/* periods with long round trips since the last trial */
	uint32_t wait;		/* number of such periods before the next trial */
	uint64_t least;		/* shortest round trip in this period; VRB_NEVER: none measured */
	uint64_t before;	/* the same for the period before the last trial */
	uint64_t long_rtt;	/* no trial for shorter round trips; 0 after a loss */
};

/* Starts with no trial in progress. */
void roce_cc_probe_start(struct roce_cc_probe *p, uint32_t keep);

/* Call on loss, a CNP or silence, which invalidate the measurements: discards them. */
void roce_cc_probe_disturbed(struct roce_cc_probe *p);

/* A packet was lost: a queue of this path is not much longer than the window. */
static inline void roce_cc_probe_lost(struct roce_cc_probe *p)
{
	p->long_rtt = 0;
}

/* A round trip was measured. */
static inline void roce_cc_probe_sample(struct roce_cc_probe *p, uint64_t rtt)
{
	p->least = min(p->least, rtt);
}

/* Call after a window's worth of acknowledgements. Returns the new window. */
uint32_t roce_cc_probe_adapt(struct roce_cc_probe *p, uint32_t window);

#endif
