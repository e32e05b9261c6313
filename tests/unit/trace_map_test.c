/* SPDX-License-Identifier: BSD-2-Clause */
/* The map of verbena trace against an array that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/random.h"
#include "verbena/trace_map.h"

enum { KEYS = 300, STEPS = 50000, DEPTH = 64 };

static void an_empty_map_finds_nothing(void **state)
{
	struct trace_map m = { 0 };

	assert_int_equal(trace_map_get(&m, (struct trace_key){ 1, 2 }), TRACE_NONE);
	assert_int_equal(trace_map_take(&m, (struct trace_key){ 1, 2 }), TRACE_NONE);
	trace_map_free(&m);
}

static void both_halves_of_a_key_count(void **state)
{
	struct trace_map m = { 0 };

	trace_map_put(&m, (struct trace_key){ 1, 2 }, 10);
	trace_map_put(&m, (struct trace_key){ 2, 1 }, 20);
	assert_int_equal(trace_map_get(&m, (struct trace_key){ 1, 2 }), 10);
	assert_int_equal(trace_map_get(&m, (struct trace_key){ 2, 1 }), 20);
	assert_int_equal(trace_map_get(&m, (struct trace_key){ 1, 1 }), TRACE_NONE);
	trace_map_free(&m);
}

/* Also after the map has grown several times in between. */
static void the_newest_value_of_a_key_comes_first(void **state)
{
	struct trace_key key = { 7, 7 };
	struct trace_map m = { 0 };

	for (uint32_t i = 0; i < 10000; i++) {
		trace_map_put(&m, (struct trace_key){ i, 99 }, i);
		if (i % 1000 == 0)
			trace_map_put(&m, key, i);
	}
	for (uint32_t i = 10; i-- > 0;) {
		assert_int_equal(trace_map_get(&m, key), 1000 * i);
		assert_int_equal(trace_map_take(&m, key), 1000 * i);
	}
	assert_int_equal(trace_map_take(&m, key), TRACE_NONE);
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(trace_map_take(&m, (struct trace_key){ i, 99 }), i);
	trace_map_free(&m);
}

/* Removed entries make room: a map that is used for long does not grow. */
static void entries_are_reused(void **state)
{
	struct trace_map m = { 0 };

	for (uint32_t i = 0; i < 100000; i++) {
		trace_map_put(&m, (struct trace_key){ i, 0 }, i);
		assert_int_equal(trace_map_take(&m, (struct trace_key){ i, 0 }), i);
	}
	assert_int_equal(m.n, 1);
	trace_map_free(&m);
}

static void agrees_with_an_array(void **state)
{
	static uint32_t stack[KEYS][DEPTH], n[KEYS];
	struct trace_map m = { 0 };

	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t k = (uint32_t)(random_u64() % KEYS), what = (uint32_t)(random_u64() % 3);
		struct trace_key key = { k / 2, k % 2 };

		if (what == 0 && n[k] < DEPTH) {
			trace_map_put(&m, key, step);
			stack[k][n[k]++] = step;
		}
		assert_int_equal(trace_map_get(&m, key), n[k] ? stack[k][n[k] - 1] : TRACE_NONE);
		if (what == 1)
			assert_int_equal(trace_map_take(&m, key),
					 n[k] ? stack[k][--n[k]] : TRACE_NONE);
	}
	trace_map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_map_finds_nothing),
		cmocka_unit_test(both_halves_of_a_key_count),
		cmocka_unit_test(the_newest_value_of_a_key_comes_first),
		cmocka_unit_test(entries_are_reused),
		cmocka_unit_test(agrees_with_an_array),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
