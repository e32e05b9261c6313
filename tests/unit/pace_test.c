/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing with simulated time: when the next request may be sent, to the nanosecond; bursts; the
 * ends of the ranges; and the rate of responses after a sign of congestion.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/pace.h"
#include "util/compiler.h"
#include "util/time.h"

enum {
	SLACK_NS = 50000,	/* shorter delays are not worth a timer */
	SPREAD = 16,		/* READs */
	AHEAD = 4,		/* responses */
};

static struct wq_qp wq;
static struct roce_qp qp;

static int reset(void **state)
{
	wq = (struct wq_qp){ 0 };
	qp = (struct roce_qp){ .wq = &wq };
	roce_pace_reset(&qp);
	return 0;
}

static void no_rate_no_limit(void **state)
{
	for (int i = 0; i < 1000; i++) {
		assert_true(roce_pace_allows(&qp, 5));
		roce_pace_sent(&qp, SIZE_MAX / 16, 5);
	}
	assert_int_equal(roce_pace_next(&qp), VRB_NEVER);
}

/* How long a packet delays the next one: rate in kbit/s, burst and packet in bytes, nanoseconds. */
static const struct {
	uint32_t rate, burst;
	size_t len;
	uint64_t wait;
} rows[] = {
	{ 8000, 0, 1000, 1000000 - SLACK_NS },		/* a byte per microsecond */
	{ 8000, 1000, 2000, 1000000 },			/* half of it is a burst */
	{ 8000, 20, 1000, 1000000 - SLACK_NS },		/* a burst below the slack */
	{ 1, 0, 1000, 8000000000 - SLACK_NS },
	{ 400000000, 0, 4096, 0 },			/* as fast as it gets: not worth a wait */
	{ 400000000, 0, 4096 * 1000, 81920 - SLACK_NS },
	{ 1, UINT32_MAX, 1000, 0 },			/* a burst of nine hours */
	{ 1, UINT32_MAX, (size_t)UINT32_MAX + 1001, 8 * 1000000 * UINT64_C(1001) },
};

static void waits(void **state)
{
	const uint64_t now = 12345;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		reset(NULL);
		wq.rate_kbps = rows[i].rate;
		wq.rate_burst = rows[i].burst;
		/* the first packet may always be sent */
		assert_true(roce_pace_allows(&qp, now));
		roce_pace_sent(&qp, rows[i].len, now);
		if (!rows[i].wait) {
			assert_true(roce_pace_allows(&qp, now));
			continue;
		}
		assert_false(roce_pace_allows(&qp, now));
		assert_int_equal(roce_pace_next(&qp), now + rows[i].wait);
		assert_false(roce_pace_allows(&qp, now + rows[i].wait - 1));
		assert_true(roce_pace_allows(&qp, now + rows[i].wait));
	}
}

/* Unused time does not accumulate. */
static void idle_time_gives_no_credit(void **state)
{
	uint64_t now = 0;

	wq.rate_kbps = 8000;
	roce_pace_sent(&qp, 1000, now);
	now += 100 * VRB_SECOND;
	for (int i = 0; i < 3; i++) {
		assert_true(roce_pace_allows(&qp, now));
		roce_pace_sent(&qp, 1000, now);
		assert_false(roce_pace_allows(&qp, now));
		assert_int_equal(roce_pace_next(&qp), now + 1000000 - SLACK_NS);
		now += 1000000;
	}
}

/*
 * The rate is exact for any packet sizes: sends whenever allowed, for one second of simulated time.
 */
static void the_rate_is_exact(void **state)
{
	static const size_t sizes[] = { 1, 256, 1024, 4096, 60000 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t now = 0, sent = 0;

		reset(NULL);
		wq.rate_kbps = 80000;	/* 10 bytes per microsecond */
		wq.rate_burst = 5000;
		while (now < VRB_SECOND) {
			if (roce_pace_allows(&qp, now)) {
				roce_pace_sent(&qp, sizes[i], now);
				sent += sizes[i];
				continue;
			}
			assert_true(roce_pace_next(&qp) > now);
			now = roce_pace_next(&qp);
			roce_pace_expire(&qp, now);
			assert_int_equal(roce_pace_next(&qp), VRB_NEVER);
		}
		assert_in_range(sent, 10000000 - sizes[i], 10000000 + 5000 + 2 * sizes[i]);
	}
}

static void a_deadline_is_kept_until_it_comes(void **state)
{
	wq.rate_kbps = 8000;
	roce_pace_sent(&qp, 1000, 0);
	assert_false(roce_pace_allows(&qp, 0));
	roce_pace_expire(&qp, 1000000 - SLACK_NS - 1);
	assert_int_equal(roce_pace_next(&qp), 1000000 - SLACK_NS);
	roce_pace_expire(&qp, 1000000 - SLACK_NS);
	assert_int_equal(roce_pace_next(&qp), VRB_NEVER);
}

/* The requester requests eight packets every 400 us, so it takes one in 50 us. */
static uint64_t learn(void)
{
	uint64_t now = VRB_SECOND;

	for (int i = 0; i < 100; i++) {
		roce_pace_read(&qp, 8, now);
		now += 400 * VRB_USEC;
	}
	return now;
}

static void responses_are_sent_at_once_without_congestion(void **state)
{
	uint64_t now = learn();

	for (int i = 0; i < 1000; i++) {
		assert_true(roce_pace_answer_allows(&qp, now));
		roce_pace_answered(&qp, now);
	}
	assert_int_equal(roce_pace_next(&qp), VRB_NEVER);
}

/*
 * After a sign of congestion some responses are sent at once, the others one by one, a little
 * faster than the requester takes them.
 */
static void responses_are_spread(void **state)
{
	uint64_t now = learn(), gap;
	unsigned int at_once = 0;

	roce_pace_spread_answers(&qp, false);
	while (roce_pace_answer_allows(&qp, now)) {
		roce_pace_answered(&qp, now);
		at_once++;
	}
	assert_in_range(at_once, AHEAD, 2 * AHEAD);
	gap = 50 * VRB_USEC * 4 / 5;
	for (int i = 0; i < 10; i++) {
		uint64_t next = roce_pace_next(&qp);

		assert_true(next > now);
		assert_true(next - now <= gap + 1);
		assert_false(roce_pace_answer_allows(&qp, next - 1));
		assert_true(roce_pace_answer_allows(&qp, next));
		roce_pace_answered(&qp, next);
		assert_false(roce_pace_answer_allows(&qp, next));
		now = next;
	}
}

/* Spreading ends after this many READs, and each sign of congestion restarts it. */
static void spreading_ends(void **state)
{
	uint64_t now = learn();

	for (int round = 0; round < 2; round++) {
		roce_pace_spread_answers(&qp, false);
		for (int i = 0; i < SPREAD; i++) {
			for (int j = 0; j < 20; j++)
				roce_pace_answered(&qp, now);
			assert_false(roce_pace_answer_allows(&qp, now));
			roce_pace_read(&qp, 8, now);
		}
		assert_true(roce_pace_answer_allows(&qp, now));
	}
}

/*
 * Delays that the network did not cause are not measured: a pause of the program, a retransmission.
 */
static void pauses_are_not_measured(void **state)
{
	uint64_t now = learn(), free_before;

	roce_pace_read(&qp, 8, now + 10 * VRB_SECOND);
	now += 20 * VRB_SECOND;
	roce_pace_spread_answers(&qp, true);
	roce_pace_read(&qp, 8, now);
	roce_pace_answered(&qp, now);
	free_before = qp.pace.answers.free - now;
	assert_in_range(free_before, 50 * VRB_USEC * 4 / 5 - 10, 50 * VRB_USEC * 4 / 5);
}

/*
 * Time in which a process was not scheduled hardly counts: a delay much longer than the others
 * counts as slightly longer.
 */
static void a_stall_hardly_counts(void **state)
{
	uint64_t now = learn();

	now += 7 * VRB_MSEC;	/* from 8 ms on it is a pause */
	roce_pace_read(&qp, 8, now);
	assert_in_range(qp.pace.answers.gap, 50 * VRB_USEC, 50 * VRB_USEC * 7 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(no_rate_no_limit, reset),
		cmocka_unit_test_setup(waits, reset),
		cmocka_unit_test_setup(idle_time_gives_no_credit, reset),
		cmocka_unit_test_setup(the_rate_is_exact, reset),
		cmocka_unit_test_setup(a_deadline_is_kept_until_it_comes, reset),
		cmocka_unit_test_setup(responses_are_sent_at_once_without_congestion, reset),
		cmocka_unit_test_setup(responses_are_spread, reset),
		cmocka_unit_test_setup(spreading_ends, reset),
		cmocka_unit_test_setup(a_stall_hardly_counts, reset),
		cmocka_unit_test_setup(pauses_are_not_measured, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
