/* SPDX-License-Identifier: BSD-2-Clause */
/* util/lock.h: excludes other threads, wakes sleeping ones, and trylock fails while it is held. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/lock.h"

enum {
	THREADS = 8,
	TRYING = 3,
	ROUNDS = 20000,
	HOLD = 500, /* every so many rounds the holder sleeps with the lock held */
};

static struct lock lock;
static uint64_t first, second; /* protected by lock; equal outside of it */

static void *count_up(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		errno = i;
		lock_acquire(&lock);
		assert_int_equal(errno, i);
		assert_int_equal(first, second);
		first++;
		if (i % HOLD == 0)
			for (int n = 0; n < 50; n++)
				sched_yield();
		second++;
		lock_release(&lock);
		assert_int_equal(errno, i);
	}
	return NULL;
}

static void many_threads_count(void **state)
{
	pthread_t thread[THREADS];

	lock_init(&lock);
	first = second = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count_up, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(first, (uint64_t)THREADS * ROUNDS);
	lock_destroy(&lock);
}

static void *try_it(void *arg)
{
	*(bool *)arg = lock_try(&lock);
	if (*(bool *)arg)
		lock_release(&lock);
	return NULL;
}

static bool tried_elsewhere(void)
{
	pthread_t thread;
	bool mine = false;

	assert_int_equal(pthread_create(&thread, NULL, try_it, &mine), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return mine;
}

static void trying(void **state)
{
	lock_init(&lock);
	assert_true(tried_elsewhere());
	assert_true(lock_try(&lock));
	assert_false(tried_elsewhere());
	lock_release(&lock);
	assert_true(tried_elsewhere());
	lock_acquire(&lock);
	assert_false(tried_elsewhere());
	lock_release(&lock);
	lock_destroy(&lock);
}

static uint32_t got; /* atomic */

static void *get_it(void *arg)
{
	lock_acquire(&lock);
	store_relaxed(&got, 1);
	lock_release(&lock);
	return NULL;
}

static void *take_again(void *arg)
{
	while (!load_relaxed(&got))
		if (lock_try(&lock))
			lock_release(&lock);
	return NULL;
}

/* Without an end to its losses, the sleeper would wait for as long as the others go on. */
static void a_sleeper_gets_it_from_threads_that_try(void **state)
{
	pthread_t sleeper, thread[TRYING];

	lock_init(&lock);
	for (int i = 0; i < 20; i++) {
		store_relaxed(&got, 0);
		for (int n = 0; n < TRYING; n++)
			assert_int_equal(pthread_create(&thread[n], NULL, take_again, NULL), 0);
		assert_int_equal(pthread_create(&sleeper, NULL, get_it, NULL), 0);
		assert_int_equal(pthread_join(sleeper, NULL), 0);
		for (int n = 0; n < TRYING; n++)
			assert_int_equal(pthread_join(thread[n], NULL), 0);
	}
	lock_destroy(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_threads_count),
		cmocka_unit_test(trying),
		cmocka_unit_test(a_sleeper_gets_it_from_threads_that_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
