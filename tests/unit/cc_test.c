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
	for (int i = 0; i < 150; i++)
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

/* Returns the window, in 1 / TUNE_CC_STEPS packet, after CNPs in one of `every` intervals. */
static uint32_t after_cnps(uint64_t rtt, uint64_t time, int every)
{
	uint64_t step = every * LIMIT_CC_CNP_INTERVAL;

	start(NULL);
	cc.rtt = rtt;
	for (uint64_t t = 0; t < time; t += step)
		roce_cc_notified(&cc, VRB_SECOND + t);
	return cc.window * TUNE_CC_STEPS + cc.part;
}

/* Annex A17. A round trip full of CNPs takes an eighth of the window, whatever its length. */
static void notifications_reduce_the_window_by_their_number(void **state)
{
	static const uint64_t rtts[] = { 50, 200, 1000, 3000 };
	const uint32_t full = LIMIT * TUNE_CC_STEPS;

	for (size_t i = 0; i < ARRAY_SIZE(rtts); i++) {
		uint64_t rtt = rtts[i] * VRB_USEC;

		assert_in_range(after_cnps(rtt, rtt, 1), full * 87 / 100, full * 89 / 100);
		assert_in_range(after_cnps(rtt, 4 * rtt, 4), full * 87 / 100, full * 89 / 100);
		assert_in_range(after_cnps(rtt, 40 * rtt, 1), 1, full / 80);
	}
	assert_int_equal(after_cnps(VRB_MSEC, VRB_SECOND, 1), TUNE_CC_WINDOW_MIN * TUNE_CC_STEPS);
}

static void notifications_of_one_interval_count_once(void **state)
{
	uint32_t once;

	roce_cc_notified(&cc, VRB_SECOND);
	once = cc.window;
	assert_int_equal(once, LIMIT - LIMIT / TUNE_CC_CNP_PART);
	roce_cc_notified(&cc, VRB_SECOND + LIMIT_CC_CNP_INTERVAL - 1);
	roce_cc_notified(&cc, VRB_SECOND - VRB_USEC);
	assert_int_equal(cc.window, once);
	roce_cc_notified(&cc, VRB_SECOND + LIMIT_CC_CNP_INTERVAL);
	assert_in_range(cc.window, 1, once - 1);
}

/* A window of two packets cannot cause more than two CNPs in a round trip. */
static void a_small_window_is_reduced_per_packet(void **state)
{
	cc.window = 2;
	cc.rtt = 2 * VRB_MSEC;
	roce_cc_notified(&cc, VRB_SECOND);
	assert_int_equal(cc.window * TUNE_CC_STEPS + cc.part,
			 2 * TUNE_CC_STEPS - TUNE_CC_STEPS / TUNE_CC_CNP_PART);
}

/* Windows grow although CNPs arrive: both add up. */
static void notifications_do_not_stop_growth(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t before;

	lose();
	round_trip(0, VRB_MSEC, &now);
	cc.window = LIMIT / 2;
	before = cc.part;
	for (uint32_t acked = 0; acked < LIMIT / 2; acked += LIMIT / 4) {
		roce_cc_acked(&cc, 1, LIMIT / 4, now);
		if (!acked)
			roce_cc_notified(&cc, now);
	}
	assert_int_equal(cc.window * TUNE_CC_STEPS + cc.part,
			 LIMIT / 2 * TUNE_CC_STEPS + before + TUNE_CC_GROWTH -
				 LIMIT / 2 * TUNE_CC_STEPS / TUNE_CC_CNP_PART / 20);
}

/*
 * With a queue, the same growth per unit of time, at least TUNE_CC_GROWTH_MIN and at most one
 * packet for each window's worth, which is also the growth without a queue, and without loss for
 * long; then a fast path's window grows by bytes.
 */
static void windows_grow_by_time(void **state)
{
	static const struct {
		uint64_t least_us, rtt_us;
		uint32_t limit, calm, steps;
	} rows[] = {
		{ 20, 50, 128, 0, TUNE_CC_GROWTH_MIN },
		{ 20, 800, 128, 0, TUNE_CC_GROWTH_MIN },
		{ 20, 1000, 128, 0, TUNE_CC_GROWTH },
		{ 1000, 2000, 32, 0, 2 * TUNE_CC_GROWTH },
		{ 1000, 4000, 128, 0, TUNE_CC_STEPS },
		{ 1000, 20000, 32, 0, TUNE_CC_STEPS },
		{ 20, 45, 128, 0, TUNE_CC_STEPS },
		{ 1000, 1150, 128, 0, TUNE_CC_STEPS },
		{ 1000, 1151, 128, 0, 1151 * TUNE_CC_GROWTH / 1000 },
		{ 20, 249, 128, TUNE_CC_CALM_FAST, 4 * TUNE_CC_STEPS },
		{ 20, 249, 16, TUNE_CC_CALM_FAST, TUNE_CC_STEPS },
		{ 20, 260, 128, TUNE_CC_CALM_FAST, TUNE_CC_STEPS },
		{ 20, 20000, 128, TUNE_CC_CALM_FAST, TUNE_CC_STEPS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t before = rows[i].limit / 2;
		uint64_t now = VRB_SECOND;

		roce_cc_start(&cc, rows[i].limit, rows[i].limit, 0);
		lose();
		cc.least_rtt = rows[i].least_us * VRB_USEC;
		cc.window = before;
		cc.calm = rows[i].calm;
		round_trip(0, rows[i].rtt_us * VRB_USEC, &now);
		assert_int_equal((cc.window - before) * TUNE_CC_STEPS + cc.part, rows[i].steps);
	}
}

/* A path that has sent a CNP has a queue, however short its round trips. */
static void a_path_that_marks_has_a_queue(void **state)
{
	uint64_t now = VRB_SECOND;
	uint32_t before;

	roce_cc_notified(&cc, now);
	cc.window = LIMIT / 2;
	before = cc.part;
	round_trip(0, 50 * VRB_USEC, &now);
	assert_int_equal(cc.window * TUNE_CC_STEPS + cc.part,
			 LIMIT / 2 * TUNE_CC_STEPS + before + TUNE_CC_GROWTH_MIN);
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

/* Measures a round trip during which probes are sent as retry.c sends them. */
static void probed_round_trip(uint32_t psn, uint64_t rtt, uint64_t *now)
{
	uint64_t wait = TUNE_PROBE_RTTS * cc.rtt, at;

	roce_cc_time(&cc, psn, *now);
	for (at = wait; at < rtt; at += wait) {
		roce_cc_probe(&cc, psn, psn + 1);
		wait *= 2;
	}
	*now += rtt;
	roce_cc_acked(&cc, psn + 1, 1, *now);
}

/* The peer was stopped, or the path broken: the next answer tells the round trip. */
static void an_answer_after_a_silence_counts_until_the_next(void **state)
{
	const uint64_t rtt = 100 * VRB_USEC;
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0;

	while (psn < 3)
		round_trip(psn++, rtt, &now);
	probed_round_trip(psn++, 3 * VRB_SECOND, &now);
	assert_in_range(cc.rtt, VRB_SECOND / 8, VRB_SECOND / 7);
	round_trip(psn++, rtt, &now);
	assert_in_range(cc.rtt, rtt * 99 / 100, rtt);
}

/* Of a path that has become longer the first answers come after a silence, too. */
static void a_longer_path_is_learned(void **state)
{
	const uint64_t rtt = 30 * VRB_MSEC;
	uint64_t now = VRB_SECOND;
	uint32_t psn = 0;

	while (psn < 3)
		round_trip(psn++, rtt / 300, &now);
	while (psn < 40)
		probed_round_trip(psn++, rtt, &now);
	assert_in_range(cc.rtt, rtt * 95 / 100, rtt);
}

/* Neither what is in flight when a stopped peer is noticed, nor what is sent until it runs. */
static void a_stopped_peer_is_not_measured(void **state)
{
	uint64_t now = VRB_SECOND;

	round_trip(0, 100 * VRB_USEC, &now);
	for (uint32_t psn = 1; psn < 4; psn++) {
		roce_cc_time(&cc, psn, now);
		roce_cc_peer_waits(&cc, psn + 1);
		now += VRB_SECOND;
	}
	roce_cc_time(&cc, 4, now);
	now += VRB_SECOND;
	roce_cc_acked(&cc, 5, 4, now);
	assert_int_equal(cc.rtt, 100 * VRB_USEC);
	round_trip(5, 900 * VRB_USEC, &now);
	assert_int_equal(cc.rtt, 200 * VRB_USEC);
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
	assert_true(roce_cc_allows(&cc, false, now));
	cc.window = LIMIT / 2;
	while (roce_cc_allows(&cc, false, now)) {
		roce_cc_sent(&cc);
		n++;
	}
	assert_int_equal(n, cc.window / 4);
	assert_int_equal(roce_cc_resume(&cc), now + VRB_MSEC / 5);
	assert_true(roce_cc_allows(&cc, false, now + VRB_MSEC / 5));
	assert_true(roce_cc_resume(&cc) == VRB_NEVER);
}

static void an_idle_connection_is_not_paced(void **state)
{
	uint64_t now = VRB_SECOND;

	round_trip(0, VRB_MSEC, &now);
	cc.window = 1;
	for (int i = 0; i < 2; i++) {
		assert_true(roce_cc_allows(&cc, true, now));
		roce_cc_sent(&cc);
		assert_false(roce_cc_allows(&cc, false, now));
	}
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
		assert_int_equal(after_windows(120, 50 * VRB_USEC, &psn, &now), 2 * LIMIT);
		if (i % 2)
			roce_cc_notified(&cc, now);
		else
			lose();
		assert_in_range(cc.window, 1, 2 * LIMIT - 1);
	}
	lose();
	assert_int_equal(cc.calm_needed, 4096);
	assert_true(after_windows(4095, 50 * VRB_USEC, &psn, &now) <= LIMIT);
	assert_int_equal(after_windows(120, 50 * VRB_USEC, &psn, &now), 2 * LIMIT);
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
		cmocka_unit_test_setup(notifications_reduce_the_window_by_their_number, start),
		cmocka_unit_test_setup(notifications_of_one_interval_count_once, start),
		cmocka_unit_test_setup(a_small_window_is_reduced_per_packet, start),
		cmocka_unit_test_setup(notifications_do_not_stop_growth, start),
		cmocka_unit_test_setup(windows_grow_by_time, start),
		cmocka_unit_test_setup(a_path_that_marks_has_a_queue, start),
		cmocka_unit_test_setup(the_first_windows_double, start),
		cmocka_unit_test_setup(consecutive_probes_keep_the_window_to_restore, start),
		cmocka_unit_test_setup(a_fast_path_exceeds_the_limit, start),
		cmocka_unit_test_setup(a_path_of_unknown_speed_keeps_the_limit, start),
		cmocka_unit_test_setup(losses_above_the_limit_delay_the_next_attempt, start),
		cmocka_unit_test_setup(a_copy_does_not_end_the_timing, start),
		cmocka_unit_test_setup(an_answer_after_a_silence_counts_until_the_next, start),
		cmocka_unit_test_setup(a_longer_path_is_learned, start),
		cmocka_unit_test_setup(a_stopped_peer_is_not_measured, start),
		cmocka_unit_test_setup(a_response_before_its_request_took_no_time, start),
		cmocka_unit_test_setup(a_spurious_probe_is_undone, start),
		cmocka_unit_test_setup(a_probe_after_responses_is_a_new_event, start),
		cmocka_unit_test_setup(a_reduced_window_is_sent_in_quarters, start),
		cmocka_unit_test_setup(an_idle_connection_is_not_paced, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
