/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a poller yields its CPU. If the peer waits for the same CPU, it should; but a thread that
 * has a CPU to itself polls without a system call. That another thread shares the CPU shows in the
 * time that a run of empty polls takes: a peer that polls and yields makes it twice as long, any
 * other more. From then on the poller yields after each run, until no other thread has run in
 * LIMIT_YIELDS_IN_VAIN yields in a row.
 *
 * Belongs to one thread. Pure code.
 */
#ifndef VRB_CORE_PROGRESS_CPU_SHARE_H
#define VRB_CORE_PROGRESS_CPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
