/* SPDX-License-Identifier: BSD-2-Clause */
/* Adaptive busy polling: sequences of waits, one letter each, and whether the next wait polls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/cq/busy_poll.h"
#include "util/compiler.h"
#include "util/tuning.h"

static const struct row {
	const char *what;
	/* s: the event comes soon; l: late. A wait that polls first measures this by polling. */
	const char *waits;
	bool polls;
} rows[] = {
	{ "at first it sleeps", "", false },
	{ "after a short wait it polls", "s", true },
	{ "and goes on", "ssssssss", true },
	{ "a long wait: it sleeps", "sssl", false },
	{ "idle: it never polls", "llllllllll", false },
	{ "one short wait after a failed poll: it polls again", "sls", true },
	{ "two failed polls in a row: three short waits", "slslss", false },
	{ "then", "slslsss", true },
	{ "three failed polls: seven", "slslssslssssss", false },
	{ "then", "slslssslsssssss", true },
	{ "a successful poll resets this", "slslssslsssssssss" "ls", true },
	{ "long waits that sleep do not count", "slslllllllss", false },
};

static void one_wait(struct busy_poll *p, bool soon)
{
	if (busy_poll_enabled(p))
		busy_poll_polled(p, soon);
	else
		busy_poll_slept(p, soon);
}

static void short_waits_are_polled(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct busy_poll p;

		busy_poll_init(&p);
		for (const char *w = rows[i].waits; *w; w++)
			one_wait(&p, *w == 's');
		if (busy_poll_enabled(&p) != rows[i].polls)
			fail_msg("%s (%s)", rows[i].what, rows[i].waits);
	}
}

/* If polling always fails, only one wait of many polls. */
static void failed_polls_become_rare(void **state)
{
	struct busy_poll p;
	int polled = 0, waits;

	busy_poll_init(&p);
	for (waits = 0; waits < 10 * (TUNE_BUSY_POLL_SLEEPS_MAX + 1); waits++) {
		if (busy_poll_enabled(&p)) {
			polled++;
			busy_poll_polled(&p, false);
		} else {
			busy_poll_slept(&p, true);
		}
	}
	assert_in_range(polled, 1, 7 + waits / (TUNE_BUSY_POLL_SLEEPS_MAX + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_waits_are_polled),
		cmocka_unit_test(failed_polls_become_rare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
