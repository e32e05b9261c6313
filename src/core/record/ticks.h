/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CLOCK_MONOTONIC for records, at a third of its price: between two readings of it, 50 us apart at
 * most, the processor's time stamp counter goes on. Each thread has its own; it is off by less than
 * 0.2 us. Only where the kernel's clock is that counter, too; elsewhere it is the clock itself.
 */
#ifndef VRB_CORE_RECORD_TICKS_H
#define VRB_CORE_RECORD_TICKS_H

#include <stdint.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

#include "util/compiler.h"

/* All zero: to be started. */
struct record_ticks {
	uint64_t tick, ns;	/* the last reading of both */
	uint64_t limit;		/* so many ticks it is good for; 0: it is not */
	uint64_t rate;		/* ns of a tick, times 2^32; 0: not known yet */
	uint64_t first_tick, first_ns;	/* a reading to measure the rate from */
};

/* Once, before the first reading: whether the counter can be used. */
void record_ticks_start(void);

uint64_t record_ticks_read(struct record_ticks *t);

static inline uint64_t record_ticks_now(struct record_ticks *t)
{
#ifdef __x86_64__
	uint64_t ticks = __rdtsc() - t->tick;

	if (likely(ticks < t->limit))
		return t->ns + (ticks * t->rate >> 32);
#endif
	return record_ticks_read(t);
}

#endif
