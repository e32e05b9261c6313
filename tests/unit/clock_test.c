/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The offset between the monotonic clock and the wall clock: kept as long as it can be correct,
 * measured again after a step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/clock.h"
#include "util/compiler.h"
#include "util/time.h"

enum { WALL = 1000000 };	/* offset from the monotonic clock, in the rows */

static void offsets(void **state)
{
	static const struct {
		int64_t known;		/* relative to WALL; 1: unknown */
		uint64_t before, after;	/* the wall clock is read in the middle */
		int64_t step;		/* step of the clock */
		int64_t want;		/* relative to WALL */
	} rows[] = {
		{ 1, 100, 200, 0, 0 },
		/* Within the measurement's error, and a bit outside: noise. */
		{ 30, 100, 200, 0, 30 },
		{ -49, 100, 200, 0, -49 },
		{ 80, 100, 200, 0, 80 },
		{ -(int64_t)VRB_MSEC + 10, 100, 120, 0, -(int64_t)VRB_MSEC + 10 },
		/* The reader was preempted between two readings. */
		{ 20, 100, 100 + VRB_SECOND, 0, 20 },
		/* Steps. */
		{ 0, 100, 200, 2 * VRB_MSEC, 2 * VRB_MSEC },
		{ 0, 100, 200, -2 * (int64_t)VRB_MSEC, -2 * (int64_t)VRB_MSEC },
		{ 0, 100, 200, 3600 * VRB_SECOND, 3600 * VRB_SECOND },
		{ 0, 1ull << 50, (1ull << 50) + 40, -(1ll << 49), -(1ll << 49) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t known =
			rows[i].known == 1 ? 0 : (uint64_t)(WALL * VRB_SECOND + rows[i].known);
		uint64_t wall = WALL * VRB_SECOND + (rows[i].before + rows[i].after) / 2 +
				(uint64_t)rows[i].step;

		assert_int_equal(clock_distance(known, rows[i].before, wall, rows[i].after),
				 WALL * VRB_SECOND + (uint64_t)rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
