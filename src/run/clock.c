/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/clock.h"

#include <time.h>

#include "util/atomic.h"
#include "util/time.h"

static uint64_t distance;	/* atomic: from CLOCK_MONOTONIC to CLOCK_REALTIME */

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * VRB_SECOND + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_coarse(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_distance(uint64_t known, uint64_t before, uint64_t wall, uint64_t after)
{
	uint64_t least = wall - after, most = wall - before;
	const uint64_t step = VRB_MSEC;

	if (known && (int64_t)(known + step - least) >= 0 && (int64_t)(most + step - known) >= 0)
		return known;
	return least + (most - least) / 2;
}

/* A reader that was preempted between the two reads tries again. */
static uint64_t measure(uint64_t known)
{
	enum { TRIES = 4, CLOSE_NS = 20000 };
	uint64_t before, wall, after;

	for (int i = 0; i < TRIES; i++) {
		before = read_clock(CLOCK_MONOTONIC);
		wall = read_clock(CLOCK_REALTIME);
		after = read_clock(CLOCK_MONOTONIC);
		if (after - before < CLOSE_NS)
			break;
	}
	return clock_distance(known, before, wall, after);
}

uint64_t clock_wall(uint64_t time)
{
	uint64_t known = load_relaxed(&distance), measured = measure(known);

	/* The first measurement holds for the whole process: two differ by nanoseconds. */
	if (measured != known && !cas_acq_rel(&distance, &known, measured))
		measured = known;
	return time + measured;
}
