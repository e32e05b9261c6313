/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who else uses the CPU of a poller.
 *
 * Other programs: the scheduler takes the CPU from it for a slice at a time, and one that spins has
 * used up its share on empty polls when a message comes. One that sleeps for a moment after each
 * run of empty polls has some left, and runs at once.
 *
 * Other threads of its process, perhaps only to spin for a lock that the program holds while it
 * polls. Then it must not sleep, and its polls must be brief: one that takes much longer than the
 * program leaves the lock free is interrupted with the lock held, nearly always, and the others
 * never get it.
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
	uint64_t until;			/* contended by other programs */
	uint64_t threads_until;		/* by threads of this one */
	uint64_t watched_at;		/* those threads are, since then; 0: not yet */
	uint64_t others;		/* their CPU time then */
};

/* A run begins. If true, set c->begin. */
static inline bool cpu_contention_begin(struct cpu_contention *c, uint64_t now)
{
	c->measured = now < c->measure_until;
	return c->measured;
}

/* The other threads of the process hardly ran: they do not wait for a lock that this one holds. */
static inline bool cpu_others_rest(uint64_t took, uint64_t used)
{
	return used < took / 8;
}

/* Another thread had the CPU; those of the process used so much of that time. */
static inline void cpu_contention_lost(struct cpu_contention *c, uint64_t took, uint64_t used,
				       uint64_t now)
{
	if (cpu_others_rest(took, used))
		c->until = time_after(now, TUNE_POLL_SLEEPS);
	else
		c->threads_until = time_after(now, TUNE_POLL_SLEEPS);
}

/* A run has ended. If true, call cpu_contention_used(). */
static inline bool cpu_contention_ran(struct cpu_contention *c, uint64_t begin, uint64_t end)
{
	if (likely(time_since(begin, end) < LIMIT_CPU_LOST))
		return false;
	c->measure_until = time_after(end, LIMIT_CPU_MEASURE);
	return c->measured;
}

/* What the thread did in that run: it did not sleep, and was without its CPU all the same. */
static inline void cpu_contention_used(struct cpu_contention *c, uint64_t begin, uint64_t end,
				       struct thread_use use)
{
	uint64_t took = time_since(begin, end), lost = time_since(use.cpu - c->begin.cpu, took);

	if (use.sleeps == c->begin.sleeps && lost >= LIMIT_CPU_LOST)
		cpu_contention_lost(c, took, time_since(c->begin.others, use.others), end);
}

/* After a yield that took so long, and the process's other threads that much of it. */
static inline void cpu_contention_yielded(struct cpu_contention *c, uint64_t took, uint64_t used,
					  uint64_t now)
{
	if (took >= LIMIT_CPU_LOST)
		cpu_contention_lost(c, took, used, now);
}

static inline bool cpu_is_contended(const struct cpu_contention *c, uint64_t now)
{
	return now < c->until && now >= c->threads_until;
}

/* Polls should be brief. */
static inline bool cpu_is_contended_within(const struct cpu_contention *c, uint64_t now)
{
	return now < c->threads_until;
}

/*
 * Before each sleep. others: CPU time of the process's other threads. One run shows little of them:
 * where several such processes share the CPUs, it is often those of another that run meanwhile.
 * Returns whether to sleep.
 */
static inline bool cpu_contention_sleeps(struct cpu_contention *c, uint64_t now, uint64_t others)
{
	uint64_t took = time_since(c->watched_at, now);

	if (!c->watched_at || took >= LIMIT_CPU_WATCH) {
		c->watched_at = now;
		c->others = others;
	} else if (took >= LIMIT_YIELD_SLICE &&
		   !cpu_others_rest(took, time_since(c->others, others))) {
		c->watched_at = 0;
		c->threads_until = time_after(now, LIMIT_CPU_NO_SLEEP);
	}
	return cpu_is_contended(c, now);
}

#endif
