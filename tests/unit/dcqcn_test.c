/* SPDX-License-Identifier: BSD-2-Clause */
/* The rate of DCQCN alone: the effect of CNPs and of their absence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/dcqcn.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum { GBIT = 1000000 };

static struct roce_dcqcn r;

static int reset(void **state)
{
	r = (struct roce_dcqcn){ 0 };
	return 0;
}

/* The bytes that a rate sends in a time. */
static uint64_t bytes(uint64_t kbps, uint64_t time)
{
	return kbps * time / 8 / 1000000;
}

/* The second of two CNPs sets the rate from the bytes sent in between. */
static void the_first_rate_is_half_the_measured_rate(void **state)
{
	static const struct {
		uint64_t kbps, time;
		uint32_t rate;
	} rows[] = {
		{ GBIT, VRB_MSEC, GBIT / 2 },
		{ 10 * GBIT, 200 * VRB_USEC, 5 * GBIT },
		{ 10 * GBIT, 199 * VRB_USEC, 0 },	/* too short to measure */
		{ GBIT, 10 * VRB_MSEC, GBIT / 2 },
		{ GBIT, 10 * VRB_MSEC + 1, 0 },		/* too long to measure */
		{ 1000, VRB_MSEC, LIMIT_DCQCN_MIN },
		{ 0, VRB_MSEC, 0 },
		{ 400ull * GBIT, VRB_MSEC, LIMIT_DCQCN_MAX / 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t now = VRB_SECOND;

		reset(NULL);
		roce_dcqcn_notified(&r, 12345, now);
		assert_int_equal(r.kbps, 0);
		roce_dcqcn_notified(&r, 12345 + bytes(rows[i].kbps, rows[i].time),
				    now + rows[i].time);
		assert_int_equal(r.kbps, rows[i].rate);
	}
}

static uint64_t slowed(uint32_t kbps)
{
	uint64_t now = VRB_SECOND;

	reset(NULL);
	roce_dcqcn_notified(&r, 0, now);
	now += VRB_MSEC;
	roce_dcqcn_notified(&r, bytes(kbps, VRB_MSEC), now);
	return now;
}

static void one_reduction_per_period(void **state)
{
	uint64_t now = slowed(GBIT);

	for (int i = 0; i < 10; i++)
		roce_dcqcn_notified(&r, 0, now += 49 * VRB_USEC);
	assert_int_equal(r.kbps, GBIT / 2);
	roce_dcqcn_recover(&r, now + VRB_MSEC);
	assert_true(r.kbps > GBIT / 2);
}

/*
 * One CNP per 50 us while the queue persists: the rate halves each period, but not below the
 * minimum.
 */
static void steady_notifications_halve_the_rate_each_period(void **state)
{
	uint64_t now = slowed(GBIT);

	for (uint32_t want = GBIT / 2; want > 2 * LIMIT_DCQCN_MIN; want /= 2) {
		assert_in_range(r.kbps, want - want / 50, want + want / 50);
		for (int i = 0; i < 20; i++)
			roce_dcqcn_notified(&r, 0, now += 50 * VRB_USEC);
	}
	for (int i = 0; i < 200; i++)
		roce_dcqcn_notified(&r, 0, now += 50 * VRB_USEC);
	assert_int_equal(r.kbps, LIMIT_DCQCN_MIN);
}

/* Recovers half of the reduction in each period, then grows beyond it. */
static void the_rate_recovers_by_periods(void **state)
{
	uint64_t now = slowed(GBIT);
	uint32_t gap = GBIT / 2;

	roce_dcqcn_recover(&r, now + TUNE_DCQCN_PERIOD - 1);
	assert_int_equal(r.kbps, GBIT / 2);
	for (int i = 1; i <= 5; i++) {
		roce_dcqcn_recover(&r, now += TUNE_DCQCN_PERIOD);
		gap /= 2;
		assert_in_range(r.kbps, GBIT - gap - 5, GBIT - gap + 5);
	}
	for (int i = 0; i < 10; i++)
		roce_dcqcn_recover(&r, now += TUNE_DCQCN_PERIOD);
	assert_in_range(r.kbps, GBIT + 50000, GBIT + 80000);
}

/* Steps are a part of the rate, up to TUNE_DCQCN_STEP. */
static void slow_rates_grow_slowly(void **state)
{
	static const uint32_t rates[] = { 128000, GBIT, 20 * GBIT };

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		uint64_t now = slowed(rates[i]);
		uint32_t most = min(rates[i] / TUNE_DCQCN_STEP_PART, (uint32_t)TUNE_DCQCN_STEP);

		roce_dcqcn_recover(&r, now += TUNE_DCQCN_FAST * TUNE_DCQCN_PERIOD);
		assert_int_equal(r.target, rates[i]);
		roce_dcqcn_recover(&r, now + TUNE_DCQCN_PERIOD);
		assert_int_equal(r.target, rates[i] + most);
	}
}

/* Rare CNPs reduce the rate less, because alpha shows that the queue is short. */
static void rare_notifications_reduce_less(void **state)
{
	uint64_t now = slowed(GBIT);
	uint32_t before;

	roce_dcqcn_recover(&r, now += 40 * TUNE_DCQCN_PERIOD);
	before = r.kbps;
	roce_dcqcn_notified(&r, 0, now);
	assert_in_range(r.kbps, before * 9 / 10, before - 1);
	assert_int_equal(r.target, before);
}

static void the_limit_ends_after_a_while(void **state)
{
	uint64_t now = slowed(2 * LIMIT_DCQCN_MIN), ends = 0;

	assert_int_equal(r.kbps, LIMIT_DCQCN_MIN);
	for (int i = 0; i < 2000 && r.kbps; i++) {
		roce_dcqcn_recover(&r, now += TUNE_DCQCN_PERIOD);
		ends++;
	}
	assert_in_range(ends, 1000, 2000);
	/* The same result if the rate is not read in between. */
	now = slowed(2 * LIMIT_DCQCN_MIN);
	roce_dcqcn_recover(&r, now + 3600 * VRB_SECOND);
	assert_int_equal(r.kbps, 0);
	/* Later it starts again, with a measured rate. */
	roce_dcqcn_notified(&r, 0, now + 7200 * VRB_SECOND);
	assert_int_equal(r.kbps, 0);
}

static void time_may_stand_or_step_back(void **state)
{
	uint64_t now = slowed(GBIT);

	roce_dcqcn_notified(&r, 0, now - VRB_SECOND);
	roce_dcqcn_recover(&r, now - VRB_SECOND);
	assert_int_equal(r.kbps, GBIT / 2);
	reset(NULL);
	roce_dcqcn_notified(&r, 1000, now);
	roce_dcqcn_notified(&r, 1000, now);
	roce_dcqcn_notified(&r, 1000, now - 1);
	assert_int_equal(r.kbps, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_rate_is_half_the_measured_rate, reset),
		cmocka_unit_test_setup(one_reduction_per_period, reset),
		cmocka_unit_test_setup(steady_notifications_halve_the_rate_each_period, reset),
		cmocka_unit_test_setup(the_rate_recovers_by_periods, reset),
		cmocka_unit_test_setup(slow_rates_grow_slowly, reset),
		cmocka_unit_test_setup(rare_notifications_reduce_less, reset),
		cmocka_unit_test_setup(the_limit_ends_after_a_while, reset),
		cmocka_unit_test_setup(time_may_stand_or_step_back, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
