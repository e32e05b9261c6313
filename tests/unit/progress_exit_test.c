/* SPDX-License-Identifier: BSD-2-Clause */
/* What the progress thread does for a process that ends. */
#include "run/progress.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/clock.h"
#include "util/time.h"
#include "util/tuning.h"

/* The time of day is set back whenever it was read. */
static bool clock_is_set;

int clock_gettime(clockid_t id, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, id, t);

	t->tv_sec += clock_is_set && id == CLOCK_REALTIME ? 3600 : 0;
	return ret;
}

static struct {
	pthread_t thread;
	unsigned int calls;
	sem_t called, may_return;
} job;

static void on_job(void)
{
	job.thread = pthread_self();
	job.calls++;
	sem_post(&job.called);
}

static void stuck_job(void)
{
	on_job();
	sem_wait(&job.may_return);
}

static void runs_a_job_at_exit(void **state)
{
	struct progress *p;

	job.calls = 0;
	sem_init(&job.called, 0, 0);
	progress_new(NULL, NULL, &p);
	progress_start(p);
	progress_at_exit(p, on_job);
	sem_wait(&job.called);
	assert_int_equal(job.calls, 1);
	assert_false(pthread_equal(job.thread, pthread_self()));
	progress_stop(p);
	progress_at_exit(p, on_job);
	assert_int_equal(job.calls, 2);
	assert_true(pthread_equal(job.thread, pthread_self()));
	progress_free(p);
	progress_at_exit(NULL, on_job);
	assert_int_equal(job.calls, 3);
}

static void a_stuck_job_is_left_behind(void **state)
{
	struct progress *p;

	job.calls = 0;
	sem_init(&job.called, 0, 0);
	sem_init(&job.may_return, 0, 0);
	progress_new(NULL, NULL, &p);
	progress_start(p);
	clock_is_set = true;
	progress_at_exit(p, stuck_job);
	clock_is_set = false;
	sem_wait(&job.called);
	progress_at_exit(p, on_job);
	sem_post(&job.may_return);
	progress_free(p);
	assert_int_equal(job.calls, 1);
}

/* It needs more CPU time than a thread that sleeps would be given. */
static void long_job(void)
{
	uint64_t begin = clock_now();

	while (clock_now() - begin < 2 * LIMIT_EXIT_JOB_MS * VRB_MSEC)
		;
	on_job();
}

static void a_job_that_runs_is_waited_for(void **state)
{
	struct progress *p;

	job.calls = 0;
	sem_init(&job.called, 0, 0);
	progress_new(NULL, NULL, &p);
	progress_start(p);
	progress_at_exit(p, long_job);
	assert_int_equal(job.calls, 1);
	progress_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_a_job_at_exit),
		cmocka_unit_test(a_stuck_job_is_left_behind),
		cmocka_unit_test(a_job_that_runs_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
