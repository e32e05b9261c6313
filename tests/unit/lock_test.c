/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * util/lock.h: excludes other threads, wakes sleeping ones, and trylock fails while it is held; the
 * same with a thread that owns the lock.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/heavy_fence.h"
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
	assert_false(lock_try_at_exit(&lock));
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

enum {
	OFTEN = 5000,	/* turns in a row: enough to become the owner */
	ENDS = 100,
};

static void take_often(int pause)
{
	for (int i = 0; i < OFTEN; i++) {
		lock_acquire(&lock);
		assert_int_equal(first, second);
		first++;
		for (int n = 0; n < pause; n++)
			cpu_relax();
		second++;
		lock_release(&lock);
	}
}

static bool is_owner(void)
{
	return load_relaxed(&lock.owner) == lock_self();
}

static void *take_once(void *arg)
{
	errno = ENOTTY;
	lock_acquire(&lock);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(first, second);
	lock_release(&lock);
	return NULL;
}

static void an_owner(void **state)
{
	pthread_t thread;

	lock_init(&lock);
	first = second = 0;
	take_often(0);
	assert_true(is_owner());
	assert_true(lock_try(&lock));
	assert_false(lock_try_at_exit(&lock));
	assert_false(tried_elsewhere());
	assert_false(lock_try_at_exit(&lock));
	lock_release(&lock);
	assert_true(tried_elsewhere());
	assert_false(is_owner());
	for (int i = 0; i < ENDS; i++) {
		take_often(0);
		assert_true(is_owner());
		lock_acquire(&lock);
		first++;
		assert_int_equal(pthread_create(&thread, NULL, take_once, NULL), 0);
		for (int n = 0; n < 20; n++)
			sched_yield();
		second++;
		lock_release(&lock);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_false(is_owner());
	}
	lock_destroy(&lock);
}

static uint32_t stop; /* atomic */

/* Half of the threads try, the others wait: who waits comes right behind one that gives up. */
static void *end_it_often(void *arg)
{
	bool tries = arg;

	while (!load_relaxed(&stop)) {
		if (!tries)
			lock_acquire(&lock);
		else if (!lock_try(&lock))
			continue;
		assert_int_equal(first, second);
		first++;
		second++;
		lock_release(&lock);
	}
	return NULL;
}

/* Threads end the ownership at any instruction of the owner. */
static void an_owner_among_others(void **state)
{
	pthread_t thread[TRYING];

	lock_init(&lock);
	first = second = 0;
	store_relaxed(&stop, 0);
	for (int i = 0; i < TRYING; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, end_it_often,
						i % 2 ? &lock : NULL), 0);
	for (int i = 0; i < ENDS / 5; i++)
		take_often(20);
	store_relaxed(&stop, 1);
	for (int i = 0; i < TRYING; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(first, second);
	lock_destroy(&lock);
}

static void *become_owner(void *arg)
{
	take_often(0);
	*(bool *)arg = is_owner();
	return NULL;
}

/* Its thread pointer may be the next thread's. */
static void an_owner_that_is_gone(void **state)
{
	pthread_t thread;
	bool owned;

	lock_init(&lock);
	first = second = 0;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&thread, NULL, become_owner, &owned), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(i || owned);
	}
	take_often(0);
	assert_false(is_owner());	/* only the first thread becomes that */
	lock_destroy(&lock);
}

#if !defined(__SANITIZE_THREAD__)	/* which reports it */
static void *give_it(void *arg)
{
	lock_release(&lock);
	return NULL;
}

static void another_thread_gives_a_shared_lock(void **state)
{
	pthread_t thread;

	lock_init_shared(&lock);
	first = second = 0;
	take_often(0);
	lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, give_it, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(tried_elsewhere());
	lock_destroy(&lock);
}
#endif

static int allow_owners(void **state)
{
	lock_allow_owners();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_threads_count),
		cmocka_unit_test(trying),
		cmocka_unit_test(a_sleeper_gets_it_from_threads_that_try),
#if !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(another_thread_gives_a_shared_lock),
#endif
	};
	const struct CMUnitTest with_owners[] = {
		cmocka_unit_test(an_owner),
		cmocka_unit_test(an_owner_among_others),
		cmocka_unit_test(an_owner_that_is_gone),
		cmocka_unit_test(many_threads_count),
		cmocka_unit_test(trying),
		cmocka_unit_test(a_sleeper_gets_it_from_threads_that_try),
#if !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(another_thread_gives_a_shared_lock),
#endif
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	/* Only where the kernel has heavy fences. */
	if (heavy_fence_own_join())
		failed += cmocka_run_group_tests(with_owners, allow_owners, NULL);
	return failed;
}
