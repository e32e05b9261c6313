/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether other programs use the CPU of a poller. Then the scheduler takes the CPU from it for a
 * slice at a time, and one that spins has used up its share on empty polls when a message comes.
 * One that sleeps for a moment after each run of empty polls has some left, and runs at once.
 *
 * A run that took long was interrupted, or the program worked or slept between its polls. What the
 * kernel counts of the thread tells which; reading it is a system call, so only the runs that
 * follow a long one are measured.
 *
 * A struct cpu_contention belongs to one thread. Pure code.
 */
#ifndef VRB_CORE_PROGRESS_CPU_CONTENTION_H
#define VRB_CORE_PROGRESS_CPU_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "run/thread_use.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct cpu_contention {
	bool measured;			/* this run */
	struct thread_use begin;	/* of the run, if measured */
	uint64_t measure_until;
	uint64_t until;			/* contended */
};

/* A run begins. If true, set c->begin. */
static inline bool cpu_contention_begin(struct cpu_contention *c, uint64_t now)
{
	c->measured = now < c->measure_until;
	return c->measured;
}

static inline void cpu_contention_lost(struct cpu_contention *c, uint64_t now)
{
	c->until = time_after(now, TUNE_POLL_SLEEPS);
}

/* A run has ended. If true, call cpu_contention_used(). */
static inline bool cpu_contention_ran(struct cpu_contention *c, uint64_t begin, uint64_t end)
{
	if (likely(time_since(begin, end) < LIMIT_CPU_LOST))
		return false;
	c->measure_until = time_after(end, LIMIT_CPU_MEASURE);
	return c->measured;
}

/* The other threads of the process hardly ran: they do not wait for a lock that this one holds. */
static inline bool cpu_others_rest(uint64_t took, uint64_t used)
{
	return used < took / 8;
}

/*
 * What the thread did in that run: it did not sleep, and was without its CPU all the same, because
 * of other programs.
 */
static inline void cpu_contention_used(struct cpu_contention *c, uint64_t begin, uint64_t end,
				       struct thread_use use)
{
	uint64_t lost = time_since(use.cpu - c->begin.cpu, time_since(begin, end));

	if (use.sleeps == c->begin.sleeps && lost >= LIMIT_CPU_LOST &&
	    cpu_others_rest(time_since(begin, end), use.others - c->begin.others))
		cpu_contention_lost(c, end);
}

/* After a yield that took so long, and the process's other threads that much of it. */
static inline void cpu_contention_yielded(struct cpu_contention *c, uint64_t took, uint64_t used,
					  uint64_t now)
{
	if (took >= LIMIT_CPU_LOST && cpu_others_rest(took, used))
		cpu_contention_lost(c, now);
}

static inline bool cpu_is_contended(const struct cpu_contention *c, uint64_t now)
{
	return now < c->until;
}

#endif
