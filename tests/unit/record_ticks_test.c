/* SPDX-License-Identifier: BSD-2-Clause */
/* The timestamps of records lie between two readings of the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/record/ticks.h"
#include "run/clock.h"

enum { READINGS = 200000, OFF = 2000 };

static void check_readings(struct record_ticks *t)
{
	for (int i = 0; i < READINGS; i++) {
		uint64_t before = clock_now(), now = record_ticks_now(t), after = clock_now();

		assert_true(now + OFF >= before);
		assert_true(now <= after + OFF);
	}
}

static void before_the_start_the_clock_is_used(void **state)
{
	struct record_ticks t = { 0 };

	check_readings(&t);
	assert_int_equal(t.limit, 0);
}

static void it_follows_the_clock(void **state)
{
	struct record_ticks t = { 0 };

	record_ticks_start();
	check_readings(&t);
}

/* As after suspend or live migration: the counter starts at another value. */
static void a_counter_that_jumps(void **state)
{
	struct record_ticks t = { 0 };

	record_ticks_start();
	check_readings(&t);
	t.tick += 1ull << 40;
	t.first_tick += 1ull << 40;
	check_readings(&t);
	t.tick -= 1ull << 50;
	check_readings(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_the_start_the_clock_is_used),
		cmocka_unit_test(it_follows_the_clock),
		cmocka_unit_test(a_counter_that_jumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
