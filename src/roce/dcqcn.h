/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate of a QP of the unacknowledged services, which has no window, once it was told of
 * congestion: as DCQCN has it.
 *
 *	no CNP yet	unlimited, at no cost
 *	first CNP	what leaves from now on is measured
 *	CNP		rate * (1 - alpha / 2), of the measured one if there is no limit yet; once in a
 *			period.  alpha says how steadily they come
 *	periods after	five that go half the way back to what was, each; then steps beyond it, and larger
 *	without one	ones after 100; and above TUNE_DCQCN_MAX unlimited again
 *
 * Rates are kilobits per second, of packets without their outer headers, as pace.h counts them.
 * Pure; time passes only where it is called.
 */
#ifndef VRB_ROCE_DCQCN_H
#define VRB_ROCE_DCQCN_H

#include <stdbool.h>
#include <stdint.h>

#include "util/time.h"

struct roce_dcqcn {
	uint32_t kbps;		/* 0: unlimited */
	/* of recovery: the rate before the last cut, or more if several followed each other */
	uint32_t target;
	uint32_t alpha;		/* of 1024 */
	uint32_t periods;	/* since the last cut */
	bool noted;		/* a CNP came late in the period of the cut: it ends with another one */
	uint64_t period_end;
	bool measures;
	uint64_t measured_at;	/* since when, */
	uint64_t measured_from;	/* and bytes sent by then */
};

/* A CNP came; `bytes` have been sent in all. */
void roce_dcqcn_notified(struct roce_dcqcn *r, uint64_t bytes, uint64_t now);

/* Lets it recover from cuts. Only while kbps is set. */
void roce_dcqcn_recover(struct roce_dcqcn *r, uint64_t now);

#endif
