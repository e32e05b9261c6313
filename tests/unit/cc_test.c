/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion control by itself: what each signal does to the window, and when packets may leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/cc.h"
#include "util/time.h"

enum { LIMIT = 128 };

static struct roce_cc cc;

static int start(void **state)
{
	roce_cc_start(&cc, LIMIT);
	return 0;
}

/* A packet answered after `rtt`. */
static void round_trip(uint32_t psn, uint64_t rtt, uint64_t *now)
{
	roce_cc_sent(&cc);
	roce_cc_time(&cc, psn, *now);
	*now += rtt;
	roce_cc_acked(&cc, psn + 1, cc.window, *now);
}

static void the_window_has_a_floor_and_a_limit(void **state)
{
	roce_cc_lost(&cc);
	assert_int_equal(cc.window, LIMIT - 38);
	for (int i = 0; i < 40; i++)
		roce_cc_lost(&cc);
	assert_int_equal(cc.window, ROCE_CC_MIN);
	roce_cc_acked(&cc, 1, ROCE_CC_MIN, 0);
	assert_int_equal(cc.window, ROCE_CC_MIN + LIMIT / 32);
	for (int i = 0; i < 100; i++)
		roce_cc_acked(&cc, 5000, LIMIT, 0);
	assert_int_equal(cc.window, LIMIT);
}

/* Annex A17; DCQCN: the first notification halves, rare ones later take less. */
static void notifications_cut_by_how_steady_they_are(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t before;

	roce_cc_notified(&cc, now);
	assert_int_equal(cc.window, LIMIT / 2);
	roce_cc_notified(&cc, now + 10 * VRB_USEC);
	assert_int_equal(cc.window, LIMIT / 2);
	for (int i = 0; i < 200; i++)
		roce_cc_acked(&cc, 1, LIMIT, now);
	before = cc.window;
	roce_cc_notified(&cc, now + VRB_MSEC);
	assert_in_range(cc.window, before * 9 / 10, before);
}

static void growing_delay_stops_growth_and_then_shrinks(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0, held;

	roce_cc_lost(&cc);
	round_trip(psn++, 100 * VRB_USEC, &now);
	round_trip(psn++, 100 * VRB_USEC, &now);
	held = cc.window;
	for (int i = 0; i < 10; i++)
		round_trip(psn++, VRB_MSEC, &now);
	held = cc.window;
	for (int i = 0; i < 10; i++)
		round_trip(psn++, VRB_MSEC, &now);
	assert_int_equal(cc.window, held);
	for (int i = 0; i < 60; i++)
		round_trip(psn++, 20 * VRB_MSEC, &now);
	assert_int_equal(cc.window, LIMIT / 2);
}

static void copies_are_not_timed(void **state)
{
	roce_cc_time(&cc, 5, 1000);
	roce_cc_probe(&cc);
	roce_cc_acked(&cc, 6, 1, 501000);
	assert_int_equal(cc.rtt, 0);
}

/* Two threads read the clock in one order and get the QP in the other. */
static void an_answer_before_its_request_took_no_time(void **state)
{
	roce_cc_time(&cc, 5, VRB_SECOND + 1000);
	roce_cc_acked(&cc, 6, 1, VRB_SECOND);
	assert_int_equal(cc.rtt, 1);
}

static void a_probe_in_vain_is_undone(void **state)
{
	roce_cc_probe(&cc);
	assert_int_equal(cc.window, ROCE_CC_MIN);
	roce_cc_undo(&cc);
	assert_int_equal(cc.window, LIMIT);
	roce_cc_probe(&cc);
	roce_cc_acked(&cc, 4, 4, 0);
	assert_int_equal(cc.window, 2 * ROCE_CC_MIN);
	for (uint32_t una = 8; una < 200; una += 8)
		roce_cc_acked(&cc, una, 8, 0);
	assert_in_range(cc.window, LIMIT - 38, LIMIT - 30);
}

static void a_window_that_was_cut_leaves_in_quarters(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t n = 0;

	round_trip(0, VRB_MSEC, &now);
	assert_true(roce_cc_allows(&cc, now));
	roce_cc_notified(&cc, now);
	while (roce_cc_allows(&cc, now)) {
		roce_cc_sent(&cc);
		n++;
	}
	assert_int_equal(n, cc.window / 4);
	assert_int_equal(roce_cc_resume(&cc), now + VRB_MSEC / 5);
	assert_true(roce_cc_allows(&cc, now + VRB_MSEC / 5));
	assert_true(roce_cc_resume(&cc) == VRB_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_window_has_a_floor_and_a_limit, start),
		cmocka_unit_test_setup(notifications_cut_by_how_steady_they_are, start),
		cmocka_unit_test_setup(growing_delay_stops_growth_and_then_shrinks, start),
		cmocka_unit_test_setup(copies_are_not_timed, start),
		cmocka_unit_test_setup(an_answer_before_its_request_took_no_time, start),
		cmocka_unit_test_setup(a_probe_in_vain_is_undone, start),
		cmocka_unit_test_setup(a_window_that_was_cut_leaves_in_quarters, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
