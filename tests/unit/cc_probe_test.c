/* SPDX-License-Identifier: BSD-2-Clause */
/* Fairness probing of a flow: when it reduces its window, and when it restores it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/cc_probe.h"

#include "util/tuning.h"

enum {
	KEEP = 40,
	WINDOW = 100,
	LESS = 70,
	FIRST = TUNE_CC_PROBE_WAIT * TUNE_CC_PROBE_PERIOD,	/* windows before a trial */
};

#define LONG (10 * VRB_MSEC)

static struct roce_cc_probe y;

static int start(void **state)
{
	roce_cc_probe_start(&y, KEEP);
	return 0;
}

/*
 * Acknowledges n windows of WINDOW packets with this round trip; returns how many until the window
 * changes, or 0.
 */
static uint32_t windows(uint32_t n, uint64_t rtt)
{
	for (uint32_t i = 1; i <= n; i++) {
		roce_cc_probe_sample(&y, rtt);
		if (roce_cc_probe_adapt(&y, WINDOW) != WINDOW)
			return i;
	}
	return 0;
}

/* Runs the trial of a flow whose round trips then take `rtt`; returns the window at its end. */
static uint32_t trial(uint64_t rtt)
{
	uint32_t window = LESS;

	for (uint32_t i = 0; i < TUNE_CC_PROBE_PERIOD; i++) {
		roce_cc_probe_sample(&y, rtt);
		window = roce_cc_probe_adapt(&y, window);
	}
	return window;
}

static void long_round_trips_reduce_the_window(void **state)
{
	assert_int_equal(windows(100, LONG), FIRST);
	assert_int_equal(y.window, WINDOW);
}

static void short_round_trips_keep_the_window(void **state)
{
	assert_int_equal(windows(1000, TUNE_CC_PROBE_RTT - 1), 0);
	/* One short round trip among long ones: the long ones are not caused by a queue. */
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(windows(FIRST - 1, LONG), 0);
		assert_int_equal(windows(1, VRB_USEC), 0);
	}
}

static void a_small_window_is_kept(void **state)
{
	for (uint32_t i = 0; i < 10 * FIRST; i++) {
		roce_cc_probe_sample(&y, LONG);
		assert_int_equal(roce_cc_probe_adapt(&y, KEEP), KEEP);
	}
	assert_int_equal(windows(100, LONG), FIRST);
}

static void without_a_round_trip_the_window_is_kept(void **state)
{
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(roce_cc_probe_adapt(&y, WINDOW), WINDOW);
	assert_int_equal(windows(100, LONG), FIRST - TUNE_CC_PROBE_PERIOD + 1);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(roce_cc_probe_adapt(&y, LESS), LESS);
	roce_cc_probe_sample(&y, LONG);
	assert_int_equal(roce_cc_probe_adapt(&y, LESS), WINDOW);
}

static void its_own_queue_shrinks(void **state)
{
	windows(100, LONG);
	assert_int_equal(trial(LONG * 9 / 10), LESS);
	assert_int_equal(windows(100, LONG), FIRST);
}

/* Trials become rarer, up to a limit. */
static void trials_on_a_long_path_become_rare(void **state)
{
	uint32_t wait = TUNE_CC_PROBE_WAIT;

	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(windows(100000, LONG), wait * TUNE_CC_PROBE_PERIOD);
		assert_int_equal(trial(LONG * 9 / 10 + 1), WINDOW);
		wait = wait * 4 > TUNE_CC_PROBE_WAIT_MAX ? TUNE_CC_PROBE_WAIT_MAX : wait * 4;
	}
	assert_int_equal(windows(FIRST, LONG * 5 / 4), 0);
	/* Another flow has joined the path. */
	assert_int_equal(windows(100, LONG * 5 / 4 + 1), TUNE_CC_PROBE_PERIOD);
}

/* The queue fills: the reference is the round trips just before the trial. */
static void a_trial_compares_with_the_round_trips_before_it(void **state)
{
	for (uint32_t i = 1; i < FIRST; i++)
		assert_int_equal(windows(1, VRB_MSEC * i), 0);
	assert_int_equal(windows(1, VRB_MSEC * FIRST), 1);
	assert_true(y.before == VRB_MSEC * (FIRST - TUNE_CC_PROBE_PERIOD + 1));
	assert_int_equal(trial(y.before * 9 / 10), LESS);
}

/* Growth during the trial is kept. */
static void a_failed_trial_restores_the_window(void **state)
{
	windows(100, LONG);
	roce_cc_probe_sample(&y, LONG);
	assert_int_equal(roce_cc_probe_adapt(&y, LESS), LESS);
	assert_int_equal(roce_cc_probe_adapt(&y, WINDOW + 1), WINDOW + 1);
}

static void a_disturbance_ends_the_trial(void **state)
{
	windows(100, LONG);
	roce_cc_probe_disturbed(&y);
	assert_int_equal(trial(LONG), LESS);
	assert_int_equal(windows(100, LONG), FIRST - TUNE_CC_PROBE_PERIOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(long_round_trips_reduce_the_window, start),
		cmocka_unit_test_setup(short_round_trips_keep_the_window, start),
		cmocka_unit_test_setup(a_small_window_is_kept, start),
		cmocka_unit_test_setup(without_a_round_trip_the_window_is_kept, start),
		cmocka_unit_test_setup(its_own_queue_shrinks, start),
		cmocka_unit_test_setup(trials_on_a_long_path_become_rare, start),
		cmocka_unit_test_setup(a_trial_compares_with_the_round_trips_before_it, start),
		cmocka_unit_test_setup(a_failed_trial_restores_the_window, start),
		cmocka_unit_test_setup(a_disturbance_ends_the_trial, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
