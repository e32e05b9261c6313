/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of a packet that came before a missing one, by what has come since.  Decisions only:
 * pure; core/rx/reorder.c keeps the packets, and says why these rules hold.
 */
#ifndef VRB_ROCE_REORDER_H
#define VRB_ROCE_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/psn.h"
#include "util/time.h"
#include "util/tuning.h"

struct roce_early {
	uint64_t since;
	uint32_t psn;
	uint32_t overtook;	/* packets in front of it that came later */
	bool doubted;
};

static inline struct roce_early roce_early_new(uint32_t psn, uint64_t now)
{
	return (struct roce_early){ .since = now, .psn = psn };
}

/* A packet with this PSN has come for the first time. */
static inline void roce_early_passed(struct roce_early *e, uint32_t psn)
{
	if (!psn_before(psn, e->psn))
		return;
	e->overtook++;
	e->doubted |= e->overtook > TUNE_REORDER_TRUSTED;
}

static inline bool roce_early_is_old(const struct roce_early *e, uint64_t now)
{
	return time_since(e->since, now) > TUNE_REORDER_AGE;
}

/* Is it of no use any more where `expected` is next? */
static inline bool roce_early_is_over(const struct roce_early *e, uint32_t expected, uint64_t now)
{
	return psn_before(e->psn, expected) || roce_early_is_old(e, now);
}

/* Does it show that the packet `expected` was sent, and is missing? */
static inline bool roce_early_shows_gap(const struct roce_early *e, uint32_t expected)
{
	return e->overtook <= TUNE_REORDER_MISSING || e->psn == expected;
}

/* Does it run now? */
static inline bool roce_early_runs(const struct roce_early *e, uint32_t expected)
{
	return e->psn == expected && !e->doubted;
}

#endif
