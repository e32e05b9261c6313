/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rate limit of a UC or UD QP, which has no window, after congestion notifications: DCQCN.
 *
 *	no CNP yet	unlimited, at no cost
 *	first CNP	starts to measure the rate
 *	CNP		rate * (1 - alpha / 2), once per period; of the measured rate if there is
 *			no limit yet. alpha says how steadily CNPs arrive
 *	periods without	five that each recover half of the cut, then steps beyond the old rate,
 *	a CNP		larger ones after 100; unlimited again above LIMIT_DCQCN_MAX
 *
 * Owns struct roce_dcqcn, part of a QP's pacing; only pace.c calls this. Rates are in kbit/s of
 * packets without their outer headers, as pace.h counts them; times are in ns. Pure.
 */
#ifndef VRB_ROCE_DCQCN_H
#define VRB_ROCE_DCQCN_H

#include <stdbool.h>
#include <stdint.h>

#include "util/time.h"

struct roce_dcqcn {
	uint32_t kbps;		/* 0: unlimited */
	/* rate to recover to: that before the last cut; after several cuts, an average */
	uint32_t target;
	uint32_t alpha;		/* of 1024 */
	uint32_t periods;	/* since the last cut */
	bool noted;		/* a late CNP came after a cut: its period ends with another cut */
	uint64_t period_end;
	bool measures;		/* the rate is being measured */
	uint64_t measured_at;	/* start of the measurement */
	uint64_t measured_from;	/* bytes sent before it */
};

/* A CNP arrived; `bytes` is the total sent by the QP. */
void roce_dcqcn_notified(struct roce_dcqcn *r, uint64_t bytes, uint64_t now);

/* Counts the periods that have passed, and recovers. Only while kbps is not 0. */
void roce_dcqcn_recover(struct roce_dcqcn *r, uint64_t now);

#endif
