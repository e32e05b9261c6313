/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/slowdown.h"

#include <poll.h>
#include <stddef.h>

#include "run/clock.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

unsigned int slowdown_of(uint64_t ns)
{
	uint64_t times = ns / TUNE_USUAL_CALL;

	return times < 1 ? 1 : (unsigned int)min(times, (uint64_t)SLOWDOWN_MAX);
}

/* The least of a few: others only measure what else runs on the machine. */
static uint64_t measure(void)
{
	enum { CALLS = 8 };
	uint64_t least = VRB_NEVER;
	int cancel = cancel_off();

	for (int i = 0; i < CALLS; i++) {
		uint64_t before = clock_now();

		poll(NULL, 0, 0);
		least = min(least, clock_now() - before);
	}
	cancel_on(cancel);
	return least;
}

unsigned int slowdown(void)
{
	static unsigned int known;	/* atomic; 0: not measured */
	unsigned int old = load_relaxed(&known), factor;

	if (likely(old))
		return old;
	factor = slowdown_of(measure());
	return cas_acq_rel(&known, &old, factor) ? factor : old;
}
