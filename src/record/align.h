/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * By how much clocks differ, from messages alone.  Pure.
 *
 * No message arrives before it was sent: one from clock i to clock j says that j is ahead of i by
 * at most received - sent.  The least of these differences, for each pair and direction, are all
 * that messages say; clocks that fulfil them all show every message to arrive after it was sent.
 *
 * Clocks are taken to run alike.  Over long recordings of several hosts they do not: align pieces,
 * of seconds.
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

/* Clocks that are one, as those of processes with the same boot ID. */
void align_same(int64_t *most, size_t n, size_t i, size_t j);

/*
 * The n offsets; `most` becomes the closest bounds.  False: the messages contradict each other, for
 * clocks that run alike.  O(n^3), where messages go one way only O(n^4).
 */
bool align_solve(int64_t *most, size_t n, struct align *out);

#endif
