/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offsets between clocks, derived from messages alone.  Pure.
 *
 * No message arrives before it was sent, so one from clock i to clock j bounds by how much j is
 * ahead of i: by at most received - sent.  The least of these bounds for each pair and direction is
 * kept.  With offsets that satisfy all bounds, every message arrives after it was sent.
 *
 * All clocks are assumed to run at the same rate.  Over long recordings of several hosts they do
 * not: align pieces of some seconds.
 */
#ifndef VRB_RECORD_ALIGN_H
#define VRB_RECORD_ALIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALIGN_NONE INT64_MAX /* no bound is known */

/* How far a clock is ahead of clock 0, ns. */
struct align {
	int64_t least; /* INT64_MIN: no bound */
	int64_t most;  /* ALIGN_NONE: no bound */
	int64_t ahead; /* to be used: the middle; the bound, if there is one; else 0 */
};

/* most: n x n, most[i * n + j] bounds by how much clock j is ahead of clock i. */
void align_init(int64_t *most, size_t n);

/* times on the clocks of `from` and `to` */
void align_message(int64_t *most, size_t n, size_t from, size_t to, uint64_t sent,
		   uint64_t received);

/* Two files have the same clock, as processes with the same boot ID do. */
void align_same(int64_t *most, size_t n, size_t i, size_t j);

/*
 * Computes the n offsets, and replaces `most` by the tightest bounds.  False: no offsets satisfy
 * all bounds.  O(n^3); O(n^4) where messages go one way only.
 */
bool align_solve(int64_t *most, size_t n, struct align *out);

#endif
