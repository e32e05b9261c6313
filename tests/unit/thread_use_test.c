/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel counts of a thread, of the others, and of one by its clock. */
#include "run/thread_use.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "util/atomic.h"
#include "util/time.h"

#define WORK (5 * VRB_MSEC)

enum { LIMIT_S = 60 };

struct spinner {
	pthread_t thread;
	int clock;		/* atomic; 0 until it runs */
	bool over;
};

static void *spin(void *arg)
{
	struct spinner *s = arg;

	store_relaxed(&s->clock, thread_cpu_clock());
	while (!load_relaxed(&s->over))
		;
	return NULL;
}

static void start(struct spinner *s)
{
	*s = (struct spinner){ 0 };
	assert_int_equal(pthread_create(&s->thread, NULL, spin, s), 0);
	while (!load_relaxed(&s->clock))
		;
}

static void finish(struct spinner *s)
{
	store_relaxed(&s->over, true);
	assert_int_equal(pthread_join(s->thread, NULL), 0);
}

static void the_own_time_grows_with_work(void **state)
{
	struct thread_use begin = thread_use_now(), now;

	do
		now = thread_use_now();
	while (now.cpu - begin.cpu < WORK);
	assert_true(time_since(begin.others, now.others) < WORK);
}

static void that_of_others_grows_with_theirs(void **state)
{
	struct thread_use begin = thread_use_now(), now;
	struct spinner s;
	uint64_t time;

	start(&s);
	do
		now = thread_use_now();
	while (time_since(begin.others, now.others) < WORK);
	do
		time = thread_cpu_time(load_relaxed(&s.clock));
	while (time < WORK);
	finish(&s);
}

static void a_sleep_counts(void **state)
{
	struct thread_use begin = thread_use_now();

	usleep(1);
	assert_true(thread_use_now().sleeps > begin.sleeps);
}

static void a_thread_that_has_ended_or_never_was_has_no_time(void **state)
{
	struct spinner s;

	start(&s);
	finish(&s);
	assert_int_equal(thread_cpu_time(0), 0);
	/* pthread_join() returns a little earlier. */
	while (thread_cpu_time(load_relaxed(&s.clock)))
		;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_own_time_grows_with_work),
		cmocka_unit_test(that_of_others_grows_with_theirs),
		cmocka_unit_test(a_sleep_counts),
		cmocka_unit_test(a_thread_that_has_ended_or_never_was_has_no_time),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
