/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fairness probe. In a drop-tail queue a flow with a full window may never lose a packet: its own
 * packets take each free place, and a new flow finds none. So a flow whose round trips have been
 * long for some windows shrinks its window on trial.
 *
 *	round trips get shorter	the queue was mostly its own: it keeps the smaller window, which
 *				grows again
 *	they do not		the path is long, or others fill the queue: it restores its window.
 *				The next trial comes after four times as long, or sooner if round
 *				trips get longer still
 *
 * Time is divided into periods of three windows; a trial takes one. Only the shortest round trip of
 * a period counts: longer ones are due to the peer's scheduler.
 *
 * Part of struct roce_cc; only cc.c calls this. Windows count PSNs, times are in ns. Pure.
 */
#ifndef VRB_ROCE_CC_PROBE_H
#define VRB_ROCE_CC_PROBE_H

#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"

struct roce_cc_probe {
	uint32_t keep;		/* windows up to this size make no trial */
	uint32_t window;	/* window before the trial; 0: no trial runs */
	uint32_t windows;	/* windows acknowledged in this period */
	uint32_t periods;	/* periods with long round trips since the last trial */
	uint32_t wait;		/* number of such periods before the next trial */
	uint64_t least;		/* shortest round trip in this period; VRB_NEVER: none measured */
	uint64_t before;	/* the same for the period before the last trial */
};

/* Starts without a trial. */
void roce_cc_probe_start(struct roce_cc_probe *p, uint32_t keep);

/* Call on loss, a CNP or silence: discards the measurements, which mean nothing then. */
void roce_cc_probe_disturbed(struct roce_cc_probe *p);

/* A round trip was measured. */
static inline void roce_cc_probe_sample(struct roce_cc_probe *p, uint64_t rtt)
{
	p->least = min(p->least, rtt);
}

/* A window's worth was acknowledged. Returns the new window. */
uint32_t roce_cc_probe_adapt(struct roce_cc_probe *p, uint32_t window);

#endif
