/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a poller yields its CPU. If the peer waits for the same CPU, it should; but a thread that
 * has a CPU to itself polls without a system call. That another thread shares the CPU shows in the
 * time that a run of empty polls takes: a peer that polls and yields makes it twice as long, any
 * other more. From then on the poller yields after each run, until no other thread has run in
 * LIMIT_YIELDS_IN_VAIN yields in a row.
 *
 * A struct cpu_share belongs to one thread. Pure code.
 */
#ifndef VRB_CORE_PROGRESS_CPU_SHARE_H
#define VRB_CORE_PROGRESS_CPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/time.h"
#include "util/tuning.h"

struct cpu_share {
	/* ns of an undisturbed run; creeps up, because polls may become slower */
	uint64_t usual;
	unsigned int yields;	/* that may still be in vain; 0: alone */
};

/* After a run of TUNE_POLL_YIELD empty polls: yield? */
static inline bool cpu_share_wants_yield(struct cpu_share *c, uint64_t begin, uint64_t end)
{
	uint64_t took = time_since(begin, end);

	if (!c->usual || took < c->usual)
		c->usual = took;
	else if (took > 2 * c->usual)
		c->yields = LIMIT_YIELDS_IN_VAIN;
	c->usual += c->usual / 256 + 1;
	return c->yields;
}

static inline void cpu_share_yielded(struct cpu_share *c, uint64_t begin, uint64_t end)
{
	if (time_since(begin, end) >= TUNE_YIELD_RAN_NS)
		c->yields = LIMIT_YIELDS_IN_VAIN;
	else
		c->yields--;
}

/*
 * A poller may hold a lock of the program for which other threads of the process spin, as UCX's do.
 * If it yields, they run, for a time slice, and do not get the lock. So after a yield that took a
 * slice, the yields of the next LIMIT_CPU_MEASURE are measured, and after one of these that took a
 * slice, which the process's own threads used, none of its threads yields for LIMIT_YIELD_PAUSE.
 *
 * Belongs to the process; the members are atomic hints.
 */
struct yield_pause {
	uint64_t measure_until;
	uint64_t until;		/* no thread yields before */
};

static inline bool yield_is_measured(const struct yield_pause *p, uint64_t now)
{
	return now < load_relaxed(&p->measure_until);
}

static inline bool yield_is_paused(const struct yield_pause *p, uint64_t now)
{
	return now < load_relaxed(&p->until);
}

/* own: CPU time that the process has used in this yield; 0 unless measured. */
static inline void yield_pause_yielded(struct yield_pause *p, uint64_t begin, uint64_t end,
				       uint64_t own)
{
	uint64_t took = time_since(begin, end);

	if (took < LIMIT_YIELD_SLICE)
		return;
	if (own >= took / 2)
		store_relaxed(&p->until, time_after(end, LIMIT_YIELD_PAUSE));
	store_relaxed(&p->measure_until, time_after(end, LIMIT_CPU_MEASURE));
}

#endif
