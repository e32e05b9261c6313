/* SPDX-License-Identifier: BSD-2-Clause */
/* The factor of slow machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/slowdown.h"
#include "util/compiler.h"
#include "util/tuning.h"

static void grows_with_the_cost_of_a_call(void **state)
{
	static const struct {
		uint64_t ns;
		unsigned int factor;
	} rows[] = {
		{ 0, 1 },
		{ TUNE_USUAL_CALL, 1 },
		{ 2 * TUNE_USUAL_CALL - 1, 1 },
		{ 2 * TUNE_USUAL_CALL, 2 },
		{ 7 * TUNE_USUAL_CALL, 7 },
		{ 100 * TUNE_USUAL_CALL, SLOWDOWN_MAX },
		{ VRB_NEVER, SLOWDOWN_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(slowdown_of(rows[i].ns), rows[i].factor);
}

static void is_measured_once(void **state)
{
	unsigned int factor = slowdown();

	assert_in_range(factor, 1, SLOWDOWN_MAX);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(slowdown(), factor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_with_the_cost_of_a_call),
		cmocka_unit_test(is_measured_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
