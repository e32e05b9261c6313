/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control alone: the effect of each signal on the window, and when packets may be sent.
 */
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

/* Starts with the full window, as after some time without congestion. */
static int start(void **state)
{
	roce_cc_start(&cc, LIMIT, MOST, 0);
	cc.window = LIMIT;
	return 0;
}

/* A single packet is lost. */
static void lose(void)
{
	roce_cc_lost(&cc, cc.recover, cc.recover);
}

/* Acknowledges a packet after `rtt`, and a window's worth of packets with it. */
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
 * Packets sent before the first loss was detected belong to the same congestion event; later ones
 * do not.
 */
static void losses_of_a_window_reduce_it_once(void **state)
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

/* A probe has already reduced the window for these losses, and the window recovers fast. */
static void losses_found_by_a_probe_reduce_it_once(void **state)
{
	roce_cc_probe(&cc, 100, 228);
	roce_cc_acked(&cc, 102, 1, 0);
	roce_cc_lost(&cc, 102, 228);
	assert_int_equal(cc.fast_to, LIMIT - 38);
	roce_cc_undo(&cc);
	assert_int_equal(cc.window, 2);		/* a loss was found: nothing to undo */
	roce_cc_lost(&cc, 228, 300);
	assert_int_equal(cc.fast_to, 0);
}

/* A PSN acknowledged long ago has no meaning after the numbers wrap. */
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
 * Long round trips with a full window: a part of the window is given up, and restored if the round
 * trips stay as long.
 */
static void a_full_window_yields_to_other_flows(void **state)
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

/*
 * Round trips of a fast link are short even if its queue is full: there a window is reduced once
 * the path has lost a packet.
 */
static void a_full_short_queue_makes_flows_yield(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0, window;

	for (int i = 0; i < 1000; i++) {
		window = cc.window;
		round_trip(psn++, 300 * VRB_USEC, &now);
		assert_true(cc.window >= window);
	}
	lose();
	for (uint32_t i = 0; i < TUNE_CC_PROBE_WAIT * TUNE_CC_PROBE_PERIOD; i++) {
		window = cc.window;
		round_trip(psn++, 300 * VRB_USEC, &now);
	}
	assert_in_range(cc.window, 1, window * 3 / 4);
}

/* The share of a window of 64 packets of 4096 bytes that one of several QPs may use. */
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
		{ 65, 65536, 1 }, { 1000000, 65536, 1 }, /* never zero */
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
	cc.window = 31;		/* a reduced window is used as it is */
	assert_int_equal(roce_cc_share(&cc, 1, 4096, 8), 31);
	assert_int_equal(roce_cc_share(&cc, 2, 4096, 8), 31);
	assert_int_equal(roce_cc_share(&cc, 62, 4096, 8), 2);
}

/*
 * Annex A17; DCQCN: the first notification halves the window, later rare ones reduce it less; one
 * counts per round trip.
 */
static void steady_notifications_reduce_more(void **state)
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
 * Growth depends on the round trip and the limit: the same number of bytes at any MTU, but at least
 * one packet for each window's worth.
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
 * A probe is a copy of a packet, and a response may belong to either. The first response counts;
 * otherwise a round trip longer than the probe interval would never be measured.
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

/* Two threads can read the clock in one order and take the QP's lock in the other. */
static void a_response_before_its_request_took_no_time(void **state)
{
	roce_cc_time(&cc, 5, VRB_SECOND + 1000);
	roce_cc_acked(&cc, 6, 1, VRB_SECOND);
	assert_int_equal(cc.rtt, 1);
}

static void a_spurious_probe_is_undone(void **state)
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

/* Continued silence does not change the window to restore. */
static void consecutive_probes_keep_the_window_to_restore(void **state)
{
	roce_cc_probe(&cc, 0, 128);
	roce_cc_probe(&cc, 0, 128);
	assert_int_equal(cc.window, TUNE_CC_WINDOW_MIN);
	assert_int_equal(cc.fast_to, (LIMIT - 38) / 2);
	roce_cc_undo(&cc);
	assert_int_equal(cc.window, LIMIT);
}

/*
 * Once the packets in flight are acknowledged, silence is a new event, and the window to restore is
 * the current one.
 */
static void a_probe_after_responses_is_a_new_event(void **state)
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

static void a_reduced_window_is_sent_in_quarters(void **state)
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

static void a_fast_path_exceeds_the_limit(void **state)
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

/* A path not known to be fast gets at most the limit. */
static void a_path_of_unknown_speed_keeps_the_limit(void **state)
{
	for (int i = 0; i < 1000; i++)
		roce_cc_acked(&cc, 5000, cc.window, 0);
	assert_int_equal(cc.window, LIMIT);
}

/*
 * After each loss above the limit the next attempt waits four times as long; further losses of the
 * same event do not count.
 */
static void losses_above_the_limit_delay_the_next_attempt(void **state)
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
		cmocka_unit_test_setup(losses_of_a_window_reduce_it_once, start),
		cmocka_unit_test_setup(losses_found_by_a_probe_reduce_it_once, start),
		cmocka_unit_test_setup(recovery_ends_with_what_was_in_flight, start),
		cmocka_unit_test_setup(a_full_window_yields_to_other_flows, start),
		cmocka_unit_test_setup(a_full_short_queue_makes_flows_yield, start),
		cmocka_unit_test_setup(a_window_is_shared, start),
		cmocka_unit_test_setup(steady_notifications_reduce_more, start),
		cmocka_unit_test_setup(growth_slows_with_delay, start),
		cmocka_unit_test_setup(the_first_windows_double, start),
		cmocka_unit_test_setup(consecutive_probes_keep_the_window_to_restore, start),
		cmocka_unit_test_setup(a_fast_path_exceeds_the_limit, start),
		cmocka_unit_test_setup(a_path_of_unknown_speed_keeps_the_limit, start),
		cmocka_unit_test_setup(losses_above_the_limit_delay_the_next_attempt, start),
		cmocka_unit_test_setup(a_copy_does_not_end_the_timing, start),
		cmocka_unit_test_setup(a_response_before_its_request_took_no_time, start),
		cmocka_unit_test_setup(a_spurious_probe_is_undone, start),
		cmocka_unit_test_setup(a_probe_after_responses_is_a_new_event, start),
		cmocka_unit_test_setup(a_reduced_window_is_sent_in_quarters, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
