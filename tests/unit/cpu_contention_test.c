/* SPDX-License-Identifier: BSD-2-Clause */
/* When a poller sleeps after empty runs or polls briefly, by what it and others did meanwhile. */
#include "core/progress/cpu_contention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define RUN (40 * VRB_USEC)
#define SLICE (3 * VRB_MSEC)

struct poller {
	struct cpu_contention contention;
	struct thread_use use;
	uint64_t now;
};

/* What happens in a run beside the polls. */
struct meanwhile {
	uint64_t off;		/* without the CPU */
	uint64_t works;		/* of the program, between the polls */
	uint64_t sleeps;
	uint64_t others;	/* CPU time of the process's other threads */
};

/* Returns whether the poller sleeps after the run. */
static bool run(struct poller *p, struct meanwhile m)
{
	uint64_t begin = p->now;

	if (cpu_contention_begin(&p->contention, p->now))
		p->contention.begin = p->use;
	p->now += RUN + m.off + m.works;
	p->use.cpu += RUN + m.works;
	p->use.sleeps += m.sleeps;
	p->use.others += m.others;
	if (cpu_contention_ran(&p->contention, begin, p->now))
		cpu_contention_used(&p->contention, begin, p->now, p->use);
	return cpu_is_contended(&p->contention, p->now);
}

static struct poller poller(void)
{
	return (struct poller){ .now = VRB_SECOND };
}

static const struct meanwhile nothing, interrupted = { .off = SLICE };

static void alone_it_never_sleeps(void **state)
{
	struct poller p = poller();

	for (int i = 0; i < 100000; i++)
		assert_false(run(&p, (struct meanwhile){ .off = i % 100 ? 0 : 20 * VRB_USEC }));
}

/* The first run that was interrupted is not measured. */
static void it_sleeps_once_it_has_lost_the_cpu_twice(void **state)
{
	struct poller p = poller();

	assert_false(run(&p, interrupted));
	assert_true(run(&p, interrupted));
	for (uint64_t at = 0; at + RUN < TUNE_POLL_SLEEPS; at += RUN)
		assert_true(run(&p, nothing));
	assert_false(run(&p, nothing));
}

/* Interruptions that are rare are not worth a sleep. */
static void two_losses_far_apart_do_not_count(void **state)
{
	struct poller p = poller();

	for (int i = 0; i < 10; i++) {
		assert_false(run(&p, interrupted));
		p.now += LIMIT_CPU_MEASURE;
	}
}

static void a_program_that_works_between_polls_goes_on(void **state)
{
	struct poller p = poller();

	for (int i = 0; i < 1000; i++)
		assert_false(run(&p, (struct meanwhile){ .works = SLICE }));
}

static void a_program_that_sleeps_itself_goes_on(void **state)
{
	struct poller p = poller();

	for (int i = 0; i < 1000; i++)
		assert_false(run(&p, (struct meanwhile){ .off = SLICE, .sleeps = 1 }));
}

/* They may spin for a lock that the poller holds. */
static void it_polls_briefly_if_own_threads_run(void **state)
{
	struct poller p = poller();

	for (int i = 0; i < 1000; i++) {
		assert_false(run(&p, (struct meanwhile){ .off = SLICE, .others = SLICE / 4 }));
		assert_int_equal(cpu_is_contended_within(&p.contention, p.now), i > 0);
	}
	for (uint64_t at = 0; at + RUN < TUNE_POLL_SLEEPS; at += RUN) {
		assert_false(run(&p, nothing));
		assert_true(cpu_is_contended_within(&p.contention, p.now));
	}
	assert_false(run(&p, nothing));
	assert_false(cpu_is_contended_within(&p.contention, p.now));
	assert_false(run(&p, interrupted));
	assert_true(run(&p, (struct meanwhile){ .off = SLICE, .others = SLICE / 16 }));
}

static void a_long_yield_counts_at_once(void **state)
{
	struct poller p = poller();

	cpu_contention_yielded(&p.contention, LIMIT_CPU_LOST - 1, 0, p.now);
	assert_false(cpu_is_contended(&p.contention, p.now));
	cpu_contention_yielded(&p.contention, LIMIT_CPU_LOST, 0, p.now);
	assert_true(cpu_is_contended(&p.contention, p.now));
	cpu_contention_yielded(&p.contention, SLICE, SLICE / 4, p.now);
	assert_false(cpu_is_contended(&p.contention, p.now));
	assert_true(cpu_is_contended_within(&p.contention, p.now));
}

/* Sleeps for `times` runs, in which other threads of the process use `others`. */
static bool sleeps(struct poller *p, unsigned int times, uint64_t others)
{
	bool all = true;

	for (unsigned int i = 0; i < times; i++) {
		p->now += RUN;
		p->use.others += others;
		cpu_contention_lost(&p->contention, SLICE, 0, p->now);
		all &= cpu_contention_sleeps(&p->contention, p->now, p->use.others);
	}
	return all;
}

/* Each slice that is lost is another program's, but the process's own threads run, too. */
static void it_stops_sleeping_once_own_threads_run_for_long(void **state)
{
	struct poller p = poller();

	assert_true(sleeps(&p, 10000, RUN / 10));
	assert_false(sleeps(&p, LIMIT_CPU_WATCH / RUN + LIMIT_YIELD_SLICE / RUN + 2, RUN / 4));
	assert_true(cpu_is_contended_within(&p.contention, p.now));
	p.now += LIMIT_CPU_NO_SLEEP;
	assert_true(sleeps(&p, 10000, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alone_it_never_sleeps),
		cmocka_unit_test(it_sleeps_once_it_has_lost_the_cpu_twice),
		cmocka_unit_test(two_losses_far_apart_do_not_count),
		cmocka_unit_test(a_program_that_works_between_polls_goes_on),
		cmocka_unit_test(a_program_that_sleeps_itself_goes_on),
		cmocka_unit_test(it_polls_briefly_if_own_threads_run),
		cmocka_unit_test(a_long_yield_counts_at_once),
		cmocka_unit_test(it_stops_sleeping_once_own_threads_run_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
