/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion control by itself: what each signal does to the window, and when packets may leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/cc.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

enum { LIMIT = 128, MOST = 2 * LIMIT };

static struct roce_cc cc;

/* At the full window, as after some time without congestion. */
static int start(void **state)
{
	roce_cc_start(&cc, LIMIT, MOST, 0);
	cc.window = LIMIT;
	return 0;
}

/* A packet is lost, by itself. */
static void lose(void)
{
	roce_cc_lost(&cc, cc.recover, cc.recover);
}

/* A packet answered after `rtt`, and a window's worth with it. */
static void round_trip(uint32_t psn, uint64_t rtt, uint64_t *now)
{
	roce_cc_sent(&cc);
	roce_cc_time(&cc, psn, *now);
	*now += rtt;
	roce_cc_acked(&cc, psn + 1, cc.window, *now);
}

static void the_first_windows_double(void **state)
{
	roce_cc_start(&cc, LIMIT, MOST, 0);
	assert_int_equal(cc.window, LIMIT / 4);
	roce_cc_acked(&cc, 1, LIMIT / 4, 0);
	assert_int_equal(cc.window, LIMIT / 2);
	lose();
	roce_cc_acked(&cc, 2, LIMIT, 0);
	assert_in_range(cc.window, LIMIT * 35 / 100, LIMIT * 39 / 100);
}

static void the_window_has_a_floor_and_a_limit(void **state)
{
	lose();
	assert_int_equal(cc.window, LIMIT - 38);
	for (int i = 0; i < 40; i++)
		lose();
	assert_in_range(cc.window, TUNE_CC_WINDOW_MIN, 3);
	for (int i = 0; i < 100; i++)
		roce_cc_acked(&cc, 5000, LIMIT, 0);
	assert_int_equal(cc.window, LIMIT);
}

/*
 * What left before the first loss was known is of the same congestion; what left behind it is not.
 */
static void the_losses_of_a_window_cut_once(void **state)
{
	const uint32_t cut = LIMIT - 38;

	roce_cc_lost(&cc, 100, 228);
	assert_int_equal(cc.window, cut);
	roce_cc_acked(&cc, 101, 1, 0);
	roce_cc_lost(&cc, 101, 230);
	roce_cc_acked(&cc, 227, 126, 0);
	roce_cc_lost(&cc, 227, 300);
	assert_in_range(cc.window, cut, cut + 4);
	roce_cc_acked(&cc, 228, 1, 0);
	roce_cc_lost(&cc, 228, 320);
	assert_in_range(cc.window, cut * 7 / 10, (cut + 4) * 7 / 10 + 1);
}

/* The probe has taken what the losses would, and the window comes back to it fast. */
static void losses_that_a_probe_finds_cut_no_more(void **state)
{
	roce_cc_probe(&cc, 100, 228);
	roce_cc_acked(&cc, 102, 1, 0);
	roce_cc_lost(&cc, 102, 228);
	assert_int_equal(cc.fast_to, LIMIT - 38);
	roce_cc_undo(&cc);
	assert_int_equal(cc.window, 2);		/* something was lost: nothing to undo */
	roce_cc_lost(&cc, 228, 300);
	assert_int_equal(cc.fast_to, 0);
}

/* A PSN long acknowledged means nothing when the numbers come round. */
static void recovery_ends_with_what_was_in_flight(void **state)
{
	roce_cc_lost(&cc, 100, 228);
	for (uint32_t una = 100; una < 0xffffff; una += 0x10000)
		roce_cc_acked(&cc, una, 1, 0);
	cc.window = LIMIT;
	roce_cc_lost(&cc, 150, 150);
	assert_int_equal(cc.window, LIMIT - 38);
}

/*
 * Long round trips of a window that never was disturbed: a part of it goes, and comes back if they
 * stay as long.
 */
static void a_full_window_gives_way(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0;

	while (cc.window == LIMIT)
		round_trip(psn++, VRB_MSEC, &now);
	assert_int_equal(psn, TUNE_CC_PROBE_WAIT * TUNE_CC_PROBE_PERIOD);
	assert_int_equal(cc.window, LIMIT - 38);
	assert_false(cc.timing);
	for (uint32_t i = 1; i < TUNE_CC_PROBE_PERIOD; i++) {
		round_trip(psn++, VRB_MSEC, &now);
		assert_int_equal(cc.window, LIMIT - 38 + i);
	}
	round_trip(psn++, VRB_MSEC, &now);
	assert_int_equal(cc.window, LIMIT);
	lose();
	for (uint32_t i = 0; i < TUNE_CC_PROBE_WAIT * TUNE_CC_PROBE_PERIOD; i++)
		round_trip(psn++, 2 * VRB_MSEC, &now);
	assert_in_range(cc.window, 1, LIMIT * 7 / 10);
	roce_cc_probe(&cc, psn - 1, psn);
	assert_int_equal(cc.probe.window, 0);
}

/* The part of a window of 64 packets of 4096 bytes that one of several QPs may use. */
static void a_window_is_shared(void **state)
{
	static const struct {
		uint32_t active_qps;
		uint64_t len;
		uint32_t part;
	} rows[] = {
		{ 0, 65536, 64 }, { 1, 65536, 64 },
		{ 2, 65536, 32 }, { 3, 65536, 21 },
		{ 16, 65536, 4 }, { 64, 65536, 1 },
		{ 65, 65536, 1 }, { 1000000, 65536, 1 }, /* never nothing */
		{ 16, 4096, 4 },  { 16, 2048, 8 },
		{ 16, 1024, 16 },                /* shorter ones take less, */
		{ 16, 8, 16 },    { 16, 0, 16 }, /* but not much less, */
		{ 2, 8, 128 },    { 1, 8, 256 },
		{ 1, 2048, 128 }, /* as with a shorter MTU; */
	};

	roce_cc_start(&cc, 32, 64, 0);
	cc.window = 64;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(roce_cc_share(&cc, rows[i].active_qps, 4096, rows[i].len),
				 rows[i].part);
	assert_int_equal(roce_cc_share(&cc, 1, 512, 8), 64);
	cc.window = 31;		/* and one that was cut is what it is */
	assert_int_equal(roce_cc_share(&cc, 1, 4096, 8), 31);
	assert_int_equal(roce_cc_share(&cc, 2, 4096, 8), 31);
	assert_int_equal(roce_cc_share(&cc, 62, 4096, 8), 2);
}

/*
 * Annex A17; DCQCN: the first notification halves, rare ones later take less; one counts in a round
 * trip.
 */
static void notifications_cut_by_how_steady_they_are(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t before;

	roce_cc_notified(&cc, now);
	assert_int_equal(cc.window, LIMIT / 2);
	roce_cc_notified(&cc, now + 10 * VRB_USEC);
	assert_int_equal(cc.window, LIMIT / 2);
	roce_cc_notified(&cc, now - VRB_USEC);
	assert_int_equal(cc.window, LIMIT / 2);
	for (int i = 0; i < 200; i++)
		roce_cc_acked(&cc, 1, LIMIT, now);
	before = cc.window;
	roce_cc_notified(&cc, now + VRB_MSEC);
	assert_in_range(cc.window, before * 9 / 10, before);
	cc.rtt = 10 * VRB_MSEC;
	before = cc.window;
	roce_cc_notified(&cc, now + 2 * VRB_MSEC);
	roce_cc_notified(&cc, now + 11 * VRB_MSEC);
	assert_in_range(cc.window, before * 8 / 10, before);
}

/*
 * By round trip and by limit: the same bytes at any MTU, but a packet at least for each window's
 * worth.
 */
static void growth_slows_with_delay(void **state)
{
	static const struct {
		uint64_t rtt_us;
		uint32_t limit, packets;
	} rows[] = {
		{ 50, 128, 4 },   { 249, 128, 4 }, { 260, 128, 2 },
		{ 1000, 128, 1 }, { 50, 32, 1 },   { 20000, 32, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t before = rows[i].limit / 2;
		uint64_t now = VRB_SECOND;

		roce_cc_start(&cc, rows[i].limit, rows[i].limit, 0);
		lose();
		cc.window = before;
		round_trip(0, rows[i].rtt_us * VRB_USEC, &now);
		assert_int_equal(cc.window, before + rows[i].packets);
	}
}

/*
 * A probe is the copy of a packet, and an answer may belong to either: the first one counts, or a
 * round trip that has become longer than the time before a probe would never be measured.
 */
static void a_copy_does_not_end_the_timing(void **state)
{
	roce_cc_time(&cc, 5, 1000);
	roce_cc_probe(&cc, 0, 1);
	roce_cc_acked(&cc, 6, 1, 501000);
	assert_int_equal(cc.rtt, 500000);
	roce_cc_time(&cc, 7, 600000);
	lose();
	roce_cc_acked(&cc, 8, 1, 800000);
	assert_int_equal(cc.rtt, 500000);
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
	roce_cc_probe(&cc, 0, 1);
	assert_int_equal(cc.window, TUNE_CC_WINDOW_MIN);
	roce_cc_undo(&cc);
	assert_int_equal(cc.window, LIMIT);
	roce_cc_probe(&cc, 0, 1);
	for (uint32_t una = 1; una < 128; una *= 2)
		roce_cc_acked(&cc, una, una, 0);
	assert_in_range(cc.window, LIMIT - 38, LIMIT - 30);
}

/* Silence that goes on is no reason to forget what the window was. */
static void probes_in_a_row_halve_what_is_come_back_to(void **state)
{
	roce_cc_probe(&cc, 0, 128);
	roce_cc_probe(&cc, 0, 128);
	assert_int_equal(cc.window, TUNE_CC_WINDOW_MIN);
	assert_int_equal(cc.fast_to, (LIMIT - 38) / 2);
	roce_cc_undo(&cc);
	assert_int_equal(cc.window, LIMIT);
}

/*
 * But when what was in flight is answered, silence is another one, and the window of before is that
 * of now.
 */
static void a_probe_after_answers_begins_anew(void **state)
{
	uint32_t una = 0;

	for (int i = 0; i < 20; i++) {
		roce_cc_probe(&cc, una, una + 128);
		una += 128;
		roce_cc_acked(&cc, una, 128, 0);
		assert_int_equal(cc.window, cc.fast_to);
		cc.window = LIMIT;
	}
	assert_int_equal(cc.fast_to, LIMIT - 38);
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

/* The window after n windows' worths with that round trip. */
static uint32_t after_windows(uint32_t n, uint64_t rtt, uint32_t *psn, uint64_t *now)
{
	while (n--)
		round_trip((*psn)++, rtt, now);
	return cc.window;
}

static void a_fast_path_takes_more_than_the_limit(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0;

	assert_int_equal(after_windows(100, 249 * VRB_USEC, &psn, &now), 2 * LIMIT);
	assert_int_equal(after_windows(4, VRB_MSEC, &psn, &now), LIMIT);
	roce_cc_start(&cc, LIMIT, LIMIT + 10, 0);
	assert_int_equal(after_windows(100, 50 * VRB_USEC, &psn, &now), LIMIT + 10);
	roce_cc_start(&cc, LIMIT, LIMIT / 2, 0);
	assert_int_equal(after_windows(100, 50 * VRB_USEC, &psn, &now), LIMIT);
}

/* A path that is not seen to be fast gets no more than the limit. */
static void a_path_of_unknown_speed_keeps_the_limit(void **state)
{
	for (int i = 0; i < 1000; i++)
		roce_cc_acked(&cc, 5000, cc.window, 0);
	assert_int_equal(cc.window, LIMIT);
}

/*
 * Each loss beyond the limit makes the next attempt wait four times as long; what is lost along
 * with it does not.
 */
static void what_was_lost_beyond_the_limit_is_remembered(void **state)
{
	static const uint32_t calm[] = { 16, 64, 256, 1024 };
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0;

	for (size_t i = 0; i < ARRAY_SIZE(calm); i++) {
		assert_true(after_windows(calm[i] - 1, 50 * VRB_USEC, &psn, &now) <= LIMIT);
		assert_int_equal(after_windows(60, 50 * VRB_USEC, &psn, &now), 2 * LIMIT);
		if (i % 2)
			roce_cc_notified(&cc, now);
		else
			lose();
		assert_in_range(cc.window, 1, 2 * LIMIT - 1);
	}
	lose();
	assert_int_equal(cc.calm_needed, 4096);
	assert_true(after_windows(4095, 50 * VRB_USEC, &psn, &now) <= LIMIT);
	assert_int_equal(after_windows(60, 50 * VRB_USEC, &psn, &now), 2 * LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_window_has_a_floor_and_a_limit, start),
		cmocka_unit_test_setup(the_losses_of_a_window_cut_once, start),
		cmocka_unit_test_setup(losses_that_a_probe_finds_cut_no_more, start),
		cmocka_unit_test_setup(recovery_ends_with_what_was_in_flight, start),
		cmocka_unit_test_setup(a_full_window_gives_way, start),
		cmocka_unit_test_setup(a_window_is_shared, start),
		cmocka_unit_test_setup(notifications_cut_by_how_steady_they_are, start),
		cmocka_unit_test_setup(growth_slows_with_delay, start),
		cmocka_unit_test_setup(the_first_windows_double, start),
		cmocka_unit_test_setup(probes_in_a_row_halve_what_is_come_back_to, start),
		cmocka_unit_test_setup(a_fast_path_takes_more_than_the_limit, start),
		cmocka_unit_test_setup(a_path_of_unknown_speed_keeps_the_limit, start),
		cmocka_unit_test_setup(what_was_lost_beyond_the_limit_is_remembered, start),
		cmocka_unit_test_setup(a_copy_does_not_end_the_timing, start),
		cmocka_unit_test_setup(an_answer_before_its_request_took_no_time, start),
		cmocka_unit_test_setup(a_probe_in_vain_is_undone, start),
		cmocka_unit_test_setup(a_probe_after_answers_begins_anew, start),
		cmocka_unit_test_setup(a_window_that_was_cut_leaves_in_quarters, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
