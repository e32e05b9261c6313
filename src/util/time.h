/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time is a uint64_t of nanoseconds on the monotonic clock, passed in by the caller that read the
 * clock. VRB_NEVER means no deadline; it compares greater than every real time.
 */
#ifndef VRB_UTIL_TIME_H
#define VRB_UTIL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"

#define VRB_NEVER   UINT64_MAX
#define VRB_NSEC    1ull
#define VRB_USEC    (1000 * VRB_NSEC)
#define VRB_MSEC    (1000 * VRB_USEC)
#define VRB_SECOND  (1000 * VRB_MSEC)

/* now + delay, saturating at VRB_NEVER. */
static inline uint64_t time_after(uint64_t now, uint64_t delay)
{
	return delay >= VRB_NEVER - now ? VRB_NEVER : now + delay;
}

/*
 * The time from `then` to `now`. 0 if `then` is later: it may have been stored under a lock that
 * the caller took after reading `now`.
 */
static inline uint64_t time_since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* What counts between two checks of a wait, at most. */
#define TIME_WAIT_STEP (100 * VRB_MSEC)

/*
 * What a check adds to the time that a loop has waited for another process; *checked is that of the
 * last one, at first 0. A process that was itself stopped meanwhile, perhaps along with the other,
 * or had no CPU, has not waited for it.
 */
static inline uint64_t time_wait_step(uint64_t *checked, uint64_t now)
{
	uint64_t step = *checked ? min(time_since(*checked, now), TIME_WAIT_STEP) : 0;

	*checked = now;
	return step;
}

static inline bool time_reached(uint64_t deadline, uint64_t now)
{
	return deadline != VRB_NEVER && now >= deadline;
}

static inline uint64_t time_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
