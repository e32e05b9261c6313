/* SPDX-License-Identifier: BSD-2-Clause */
/* Which way copies go, against what they would take each way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rsocket/rs_pace.h"

enum { LEN = 65536, PERIODS = 4, TRIES = 2 * RS_PACE_TRIES };

/* Copies for a period; ns[]: through the caches, past them. Returns how many went past them. */
static unsigned int run(struct rs_pace *p, const uint64_t ns[2], unsigned int *tries)
{
	unsigned int past = 0;

	*tries = 0;
	for (unsigned int i = 0; i < RS_PACE_PERIOD; i++) {
		bool way = rs_pace_past(p), try = rs_pace_tries(p);

		past += way;
		*tries += try;
		rs_pace_copied(p, LEN, try ? ns[way] : 0);
	}
	return past;
}

static void all_but_the_tries_go_the_faster_way(void **state)
{
	static const struct {
		uint64_t ns[2];
		bool past;
	} rows[] = {
		{ { 20000, 4000 }, true },
		{ { 20000, 19000 }, true },
		{ { 20000, 20000 }, false },
		{ { 20000, 40000 }, false },
		{ { 13000, 12000 }, true },
		{ { 12000, 4000 }, false }, /* fast enough, and the peer reads faster */
		{ { 0, 0 }, false },
	};
	struct rs_pace p = { 0 };
	unsigned int tries;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int most = RS_PACE_PERIOD - RS_PACE_TRIES;

		for (unsigned int k = 0; k < PERIODS; k++) {
			assert_int_equal(run(&p, rows[i].ns, &tries),
					 rows[i].past ? most : RS_PACE_TRIES);
			assert_int_equal(tries, TRIES);
		}
	}
}

/* A try that was interrupted does not count beside one that was not. */
static void the_fastest_try_counts(void **state)
{
	for (unsigned int slow = 0; slow < TRIES; slow++) {
		struct rs_pace p = { 0 };

		for (unsigned int i = 0; i < TRIES; i++)
			rs_pace_copied(&p, LEN,
				       i == slow          ? 1000000
				       : rs_pace_past(&p) ? 4000
							  : 19000);
		assert_true(rs_pace_past(&p));
	}
}

/* Copies of different lengths are compared by their speed. */
static void lengths_may_differ(void **state)
{
	struct rs_pace p = { 0 };

	for (unsigned int i = 0; i < TRIES; i++) {
		bool past = rs_pace_past(&p);

		rs_pace_copied(&p, past ? LEN : RS_PACE_LEAST, past ? 10000 : 2000);
	}
	assert_true(rs_pace_past(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_but_the_tries_go_the_faster_way),
		cmocka_unit_test(the_fastest_try_counts),
		cmocka_unit_test(lengths_may_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
