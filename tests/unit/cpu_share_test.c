/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often a poller yields, by what else runs on its CPU: runs of polls take RUN ns, yields take
 * the time of the other thread's run.
 */
#include "core/progress/cpu_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "util/compiler.h"

#define RUN (15 * VRB_USEC)
#define SWITCHES (3 * VRB_USEC)		/* to another thread and back */
#define SLICE (3 * VRB_MSEC)
#define YIELD 300			/* to nobody */

struct poller {
	struct cpu_share share;
	uint64_t now;
};

/*
 * A run, during which others take `lost` ns, and a yield, if one is wanted, during which they take
 * `theirs`. True if it yielded.
 */
static bool run(struct poller *p, uint64_t lost, uint64_t theirs)
{
	uint64_t begin = p->now;

	p->now += RUN + lost;
	if (!cpu_share_wants_yield(&p->share, begin, p->now))
		return false;
	begin = p->now;
	p->now += theirs ? theirs : YIELD;
	cpu_share_yielded(&p->share, begin, p->now);
	return true;
}

static struct poller poller(void)
{
	struct poller p = { .now = VRB_SECOND };

	assert_false(run(&p, 0, 0));
	return p;
}

static void alone_it_never_yields(void **state)
{
	struct poller p = poller();

	for (int i = 0; i < 1000000; i++)
		assert_false(run(&p, i % 300 ? 0 : 2 * VRB_USEC, 0));	/* timer interrupts */
}

/* From the end of its first time slice on, with a peer that yields or one that does not. */
static void it_yields_to_another_thread(void **state)
{
	static const uint64_t theirs[] = { RUN + SWITCHES, SLICE };

	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
		struct poller p = poller();

		assert_true(run(&p, theirs[i], theirs[i]));
		for (int n = 0; n < 1000; n++)
			assert_true(run(&p, 0, theirs[i]));
	}
}

/* Both begin alone; the scheduler ends the time slice of one that does not yield. */
static void two_pollers_yield_to_each_other(void **state)
{
	struct poller p[2] = { poller(), poller() };

	assert_true(run(&p[1], SLICE, SLICE));
	for (int i = 0; i < 100; i++) {
		assert_true(run(&p[0], i ? 0 : RUN + SWITCHES, RUN + SWITCHES));
		assert_true(run(&p[1], 0, RUN + SWITCHES));
	}
}

static void it_stops_when_the_other_has_gone(void **state)
{
	struct poller p = poller();

	assert_true(run(&p, SLICE, SLICE));
	for (int i = 0; i < LIMIT_YIELDS_IN_VAIN; i++)
		assert_true(run(&p, 0, 0));
	for (int i = 0; i < 1000; i++)
		assert_false(run(&p, 0, 0));
	assert_true(run(&p, SLICE, SLICE));
}

/* More peers make a poll longer. */
static void polls_may_become_slower(void **state)
{
	struct poller p = poller();
	unsigned int yields = 0;

	for (int i = 0; i < 1000; i++)
		yields += run(&p, 2 * RUN, 0);
	assert_true(yields > 0);
	for (int i = 0; i < 1000; i++)
		assert_false(run(&p, 2 * RUN, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_it_never_yields),
		cmocka_unit_test(it_yields_to_another_thread),
		cmocka_unit_test(two_pollers_yield_to_each_other),
		cmocka_unit_test(it_stops_when_the_other_has_gone),
		cmocka_unit_test(polls_may_become_slower),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
