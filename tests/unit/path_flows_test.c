/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows that share a path: counts by period, and the lifetime of the counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "core/base/path_flows.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum { QPS = 16 };

static struct path_table table;
static struct path_ref qp[QPS];
static const struct net_path path_a = { .dst = { { [10] = 0xff, 0xff, 10, 0, 0, 1 } } };
static const struct net_path path_b = { .dst = { { [10] = 0xff, 0xff, 10, 0, 0, 2 } } };

static int start(void **state)
{
	path_table_init(&table);
	for (int i = 0; i < QPS; i++)
		qp[i] = (struct path_ref){ 0 };
	return 0;
}

/* No counter may be left when all flows have ended. */
static int leave(void **state)
{
	for (int i = 0; i < QPS; i++)
		path_leave(&table, &qp[i]);
	for (int i = 0; i < PATH_BUCKETS; i++)
		assert_true(list_empty(&table.bucket[i]));
	return 0;
}

static uint32_t use(int i, const struct net_path *path, uint64_t now)
{
	uint32_t active_qps = path_active_qps(&table, &qp[i], path);

	path_mark_active(&table, &qp[i], 0, now);
	return active_qps;
}

static void each_new_flow_counts_one_more(void **state)
{
	for (int i = 0; i < QPS; i++)
		assert_int_equal(use(i, &path_a, VRB_SECOND), i + 1);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(use(i, &path_a, VRB_SECOND + 1), QPS);
}

static void another_address_is_another_path(void **state)
{
	struct net_path local[2] = {
		{ .dst = { { 0xfe, 0x80, [15] = 1 } }, .ifindex = 1 },
		{ .dst = { { 0xfe, 0x80, [15] = 1 } }, .ifindex = 2 },
	};
	struct net_path elsewhere = path_a;

	assert_int_equal(use(0, &path_a, 0), 1);
	assert_int_equal(use(1, &path_b, 0), 1);
	assert_int_equal(use(2, &path_a, 0), 2);
	/* The interface matters for addresses that are valid on one link only. */
	elsewhere.ifindex = 7;
	assert_int_equal(use(3, &elsewhere, 0), 3);
	assert_int_equal(use(4, &local[0], 0), 1);
	assert_int_equal(use(5, &local[1], 0), 1);
}

/* A QP that waits for each answer is not counted. */
static void flows_without_packets_in_flight_do_not_count(void **state)
{
	assert_int_equal(use(0, &path_a, 0), 1);
	for (int i = 1; i < QPS; i++)
		assert_int_equal(path_active_qps(&table, &qp[i], &path_a), 2);
	assert_int_equal(use(0, &path_a, 1), 1);
}

/*
 * Rows of steps of one period each: this many QPs are active, and the first one reads this count.
 */
static void past_periods_decay_by_halves(void **state)
{
	static const struct {
		int count;
		uint32_t found;
	} rows[] = { { 16, 16 }, { 16, 16 }, { 1, 16 }, { 1, 8 }, { 1, 4 }, { 8, 8 },
		     { 1, 8 },   { 1, 4 },   { 1, 2 },  { 1, 1 }, { 2, 2 }, { 2, 2 } };
	uint64_t now = VRB_SECOND;

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++, now += TUNE_FLOWS_PERIOD) {
		for (int i = 0; i < rows[r].count; i++)
			use(i, &path_a, now + i);
		assert_int_equal(path_active_qps(&table, &qp[0], &path_a), rows[r].found);
	}
}

static void a_pause_changes_nothing(void **state)
{
	for (int i = 0; i < QPS; i++)
		use(i, &path_a, VRB_SECOND);
	assert_int_equal(use(0, &path_a, 1000 * VRB_SECOND), QPS);
	assert_int_equal(use(1, &path_a, 1000 * VRB_SECOND), QPS);
}

static void a_period_is_two_round_trips_at_least(void **state)
{
	const uint64_t rtt = 40 * VRB_MSEC;

	for (int i = 0; i < QPS; i++) {
		path_active_qps(&table, &qp[i], &path_a);
		path_mark_active(&table, &qp[i], rtt, VRB_SECOND + i * VRB_MSEC * 4);
	}
	assert_int_equal(path_active_qps(&table, &qp[0], &path_a), QPS);
	path_mark_active(&table, &qp[0], rtt, VRB_SECOND + 2 * rtt);
	path_mark_active(&table, &qp[0], rtt, VRB_SECOND + 4 * rtt);
	assert_int_equal(path_active_qps(&table, &qp[0], &path_a), QPS / 2);
}

/* After migration, or another connection. */
static void a_qp_takes_its_count_to_its_new_path(void **state)
{
	use(0, &path_a, 0);
	use(1, &path_a, 0);
	use(2, &path_b, 0);
	assert_int_equal(use(1, &path_b, 0), 2);
	assert_int_equal(use(2, &path_b, 0), 2);
	assert_int_equal(use(1, &path_a, 0), 3);
}

/* Returns its argument if it was always counted. */
static void *use_often(void *arg)
{
	struct path_ref *ref = arg;
	bool counted = true;

	for (uint64_t now = 0; now < 20000; now++) {
		const struct net_path *path = now / 1000 % 2 ? &path_a : &path_b;
		uint32_t n = path_active_qps(&table, ref, path);

		counted &= n > 0;
		path_mark_active(&table, ref, 0, now * 50 * VRB_USEC);
		if (now % 777 == 0)
			path_leave(&table, ref);
	}
	return counted ? arg : NULL;
}

static void threads_may_use_it_at_once(void **state)
{
	pthread_t thread[4];

	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, use_often, &qp[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++) {
		void *ret;

		assert_int_equal(pthread_join(thread[i], &ret), 0);
		assert_ptr_equal(ret, &qp[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_new_flow_counts_one_more, start, leave),
		cmocka_unit_test_setup_teardown(another_address_is_another_path, start, leave),
		cmocka_unit_test_setup_teardown(flows_without_packets_in_flight_do_not_count, start,
						leave),
		cmocka_unit_test_setup_teardown(past_periods_decay_by_halves, start, leave),
		cmocka_unit_test_setup_teardown(a_pause_changes_nothing, start, leave),
		cmocka_unit_test_setup_teardown(a_period_is_two_round_trips_at_least, start, leave),
		cmocka_unit_test_setup_teardown(a_qp_takes_its_count_to_its_new_path, start, leave),
		cmocka_unit_test_setup_teardown(threads_may_use_it_at_once, start, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
