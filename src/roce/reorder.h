/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that arrived before a missing one: which to run, to keep, and to drop. Pure decisions
 * that read no clock: core/rx/reorder.c, which has the reasons, stores the packets and executes
 * them, in processes and in tests/sim/host.c. Times are in ns, limits in util/tuning.h.
 */
#ifndef VRB_ROCE_REORDER_H
#define VRB_ROCE_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/psn.h"
#include "util/time.h"
#include "util/tuning.h"

/* One early packet. Part of the entry that stores it. */
struct roce_early {
	uint64_t since;		/* when it arrived */
	uint32_t psn;
	uint32_t overtook;	/* packets with lower PSNs that arrived later */
	bool doubted;		/* may be forged: do not run it. Once set, it stays */
};

static inline struct roce_early roce_early_new(uint32_t psn, uint64_t now)
{
	return (struct roce_early){ .since = now, .psn = psn };
}

/* Call for each early packet when a packet with this PSN arrives for the first time. */
static inline void roce_early_passed(struct roce_early *e, uint32_t psn)
{
	if (!psn_before(psn, e->psn))
		return;
	e->overtook++;
	e->doubted |= e->overtook > TUNE_REORDER_TRUSTED;
}

/* True if it was kept for longer than any retransmission takes. */
static inline bool roce_early_is_old(const struct roce_early *e, uint64_t now)
{
	return time_since(e->since, now) > LIMIT_REORDER_AGE;
}

/* True if it can be dropped now that `expected` is the next PSN. */
static inline bool roce_early_is_over(const struct roce_early *e, uint32_t expected, uint64_t now)
{
	return psn_before(e->psn, expected) || roce_early_is_old(e, now);
}

/* True if it shows that the packet `expected` was sent, and is missing. */
static inline bool roce_early_shows_gap(const struct roce_early *e, uint32_t expected)
{
	return e->overtook <= TUNE_REORDER_MISSING || e->psn == expected;
}

/* True if it is the next packet, and trusted. */
static inline bool roce_early_runs(const struct roce_early *e, uint32_t expected)
{
	return e->psn == expected && !e->doubted;
}

#endif
