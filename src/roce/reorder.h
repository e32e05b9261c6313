/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that arrived before a missing one: decides which to process, keep or drop. Pure decisions
 * without a clock: core/rx/reorder.c, which gives the reasons, stores the packets and executes the
 * decisions, in processes and in tests/sim/host.c. Times are in ns; limits are in util/tuning.h.
 */
#ifndef VRB_ROCE_REORDER_H
#define VRB_ROCE_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/psn.h"
#include "util/time.h"
#include "util/tuning.h"

/* One out-of-order packet. Part of the entry that stores it. */
struct roce_out_of_order {
	uint64_t since;		/* when it arrived */
	uint32_t psn;
	uint32_t overtook;	/* packets with lower PSNs that arrived later */
	bool doubted;		/* may be forged: do not process it. Never cleared */
};

static inline struct roce_out_of_order roce_out_of_order_new(uint32_t psn, uint64_t now)
{
	return (struct roce_out_of_order){ .since = now, .psn = psn };
}

/* Call for each out-of-order packet when a packet with this PSN arrives for the first time. */
static inline void roce_out_of_order_passed(struct roce_out_of_order *e, uint32_t psn)
{
	if (!psn_before(psn, e->psn))
		return;
	e->overtook++;
	e->doubted |= e->overtook > TUNE_REORDER_TRUSTED;
}

/* Returns true if it was kept for longer than any retransmission takes. */
static inline bool roce_out_of_order_is_old(const struct roce_out_of_order *e, uint64_t now)
{
	return time_since(e->since, now) > LIMIT_REORDER_AGE;
}

/* Returns true if it can be dropped now that `expected` is the next PSN. */
static inline bool roce_out_of_order_is_over(const struct roce_out_of_order *e, uint32_t expected,
					     uint64_t now)
{
	return psn_before(e->psn, expected) || roce_out_of_order_is_old(e, now);
}

/* Returns true if it shows that the packet `expected` was sent and is missing. */
static inline bool roce_out_of_order_shows_gap(const struct roce_out_of_order *e, uint32_t expected)
{
	return e->overtook <= TUNE_REORDER_MISSING || e->psn == expected;
}

/* Returns true if it is the next packet, and trusted. */
static inline bool roce_out_of_order_runs(const struct roce_out_of_order *e, uint32_t expected)
{
	return e->psn == expected && !e->doubted;
}

#endif
