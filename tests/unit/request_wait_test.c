/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits for the next one-sided request: gaps between requests, and whether the thread polls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/progress/request_wait.h"
#include "util/compiler.h"

static const struct row {
	const char *what;
	/*
	 * One letter per gap: p: so short that a thread that polls finds the request; s: longer,
	 * but short for one that sleeps; l: long
	 */
	const char *gaps;
	bool polls;
} rows[] = {
	{ "the first request: it sleeps", "l", false },
	{ "the second comes soon: it polls", "lp", true },
	{ "so it does if that took a wake-up", "ls", true },
	{ "and goes on while it finds them", "lspppppppp", true },
	{ "one that it polls for in vain", "lsps", false },
	{ "seldom requests: it never polls", "llllllll", false },
	{ "requests as far apart as a wake-up takes: three gaps asleep", "lsssss", false },
	{ "then it tries again", "lsssssss", true },
};

static const uint64_t gap_ns[] = {
	['p'] = TUNE_REQUEST_WAIT - 1,
	['s'] = LIMIT_REQUEST_SOON - 1,
	['l'] = VRB_SECOND,
};

static void check(const struct row *row, unsigned int slowdown)
{
	struct request_wait w;
	uint64_t now = 1, until = 0;

	request_wait_init(&w, slowdown);
	for (const char *g = row->gaps; *g; g++) {
		now += (gap_ns[(unsigned char)*g] + 1) * slowdown - 1;
		until = request_wait_arrived(&w, now);
	}
	if (until != (row->polls ? now + slowdown * TUNE_REQUEST_WAIT : 0))
		fail_msg("%s (%s), %u times as slow", row->what, row->gaps, slowdown);
}

static void polls_for_requests_that_come_soon(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i], 1);
}

static void waits_longer_on_a_slow_machine(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i], 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(polls_for_requests_that_come_soon),
		cmocka_unit_test(waits_longer_on_a_slow_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
