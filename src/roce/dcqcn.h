/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DCQCN: limits the rate of a UC or UD QP, which has no window, after congestion notifications.
 *
 *	no CNP yet	unlimited, at no cost
 *	first CNP	start to measure the rate
 *	CNP		rate * (1 - alpha / 2), once per period; the measured rate if there is no
 *			limit yet. alpha is the moving average of CNP arrivals
 *	period without	the first five each recover half of the cut; then the rate grows past the
 *	a CNP		old one, in steps of a 64th of it or 8 Mbit/s, four times as large after
 *			100; unlimited above LIMIT_DCQCN_MAX
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
	/* rate to recover to: the rate before the last cut, or an average after several cuts */
	uint32_t target;
	uint32_t alpha;		/* in 1/1024 */
	uint32_t periods;	/* periods since the last cut */
	/* a late CNP came after a cut: cut again at the end of the period */
	bool noted;
	uint64_t period_end;
	bool measures;		/* the rate is being measured */
	uint64_t measured_at;	/* start of the measurement */
	uint64_t measured_from;	/* bytes sent before it */
};

/* A CNP arrived; `bytes` is the total sent by the QP. */
void roce_dcqcn_notified(struct roce_dcqcn *r, uint64_t bytes, uint64_t now);

/* Counts the periods that have passed, and recovers the rate. Call only while kbps is not 0. */
void roce_dcqcn_recover(struct roce_dcqcn *r, uint64_t now);

#endif
