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

/*
 * n yields, if they may, at the end of a run each, that take `took` ns, `own` of them for threads
 * of the process. Returns how many yielded.
 */
static unsigned int yields(struct yield_pause *p, unsigned int n, uint64_t took,
			   uint64_t own, uint64_t *now)
{
	unsigned int yielded = 0;

	for (unsigned int i = 0; i < n; i++) {
		*now += RUN;
		if (yield_is_paused(p, *now))
			continue;
		yield_pause_yielded(p, *now, *now + took, yield_is_measured(p, *now) ? own : 0);
		*now += took;
		yielded++;
	}
	return yielded;
}

static void it_yields_to_whatever_runs_of_other_processes(void **state)
{
	struct yield_pause p = { 0 };
	uint64_t now = VRB_SECOND;

	assert_int_equal(yields(&p, 1000, SLICE, 0, &now), 1000);
	assert_int_equal(yields(&p, 1000, SLICE, SLICE / 3, &now), 1000);
}

static void it_yields_to_own_threads_that_yield(void **state)
{
	struct yield_pause p = { 0 };
	uint64_t now = VRB_SECOND;

	assert_int_equal(yields(&p, 1000, RUN + SWITCHES, RUN, &now), 1000);
}

static void own_threads_that_take_slices_pause_yields(void **state)
{
	const unsigned int paused = LIMIT_YIELD_PAUSE / RUN;
	struct yield_pause p = { 0 };
	uint64_t now = VRB_SECOND;

	assert_int_equal(yields(&p, 2, SLICE, SLICE, &now), 2);
	assert_int_equal(yields(&p, paused, SLICE, SLICE, &now), 0);
	assert_in_range(yields(&p, 10 * paused, SLICE, SLICE, &now), 9, 11);
}

/* The first yield that takes a slice is not measured. */
static void a_pause_takes_two_slices_within_a_while(void **state)
{
	struct yield_pause p = { 0 };
	uint64_t now = VRB_SECOND;

	for (int i = 0; i < 1000; i++) {
		assert_int_equal(yields(&p, 1, SLICE, SLICE, &now), 1);
		now += LIMIT_CPU_MEASURE;
	}
	/* A thread that has run for long runs for less the next time. */
	assert_int_equal(yields(&p, 1, SLICE, SLICE, &now), 1);
	assert_int_equal(yields(&p, 1, RUN, RUN, &now), 1);
	assert_int_equal(yields(&p, 1, SLICE, SLICE, &now), 1);
	assert_int_equal(yields(&p, 1, SLICE, SLICE, &now), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_it_never_yields),
		cmocka_unit_test(it_yields_to_another_thread),
		cmocka_unit_test(two_pollers_yield_to_each_other),
		cmocka_unit_test(it_stops_when_the_other_has_gone),
		cmocka_unit_test(polls_may_become_slower),
		cmocka_unit_test(it_yields_to_whatever_runs_of_other_processes),
		cmocka_unit_test(it_yields_to_own_threads_that_yield),
		cmocka_unit_test(own_threads_that_take_slices_pause_yields),
		cmocka_unit_test(a_pause_takes_two_slices_within_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
