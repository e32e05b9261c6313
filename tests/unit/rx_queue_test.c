/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who stopped all receivers lets go of those that he stopped, and of no other: as soon as
 * vrb.poll_lock is free, whoever waited for it may have added some.  The slow ways of locks are the
 * test's, so that it knows the moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "core/progress/rx_queue.h"

enum { MORE = 2 };

void lock_wait(struct lock *l)
{
	fail_msg("nobody has it");
}

/* Who slept on vrb.poll_lock has it now, and adds receivers that are at work at once. */
void lock_wake(struct lock *l)
{
	store_relaxed(&l->sleepers, 0);
	for (unsigned int i = 1; i <= MORE; i++) {
		vrb_rx_queues[i].lock = &vrb_rx_queues[i].own_lock;
		lock_init(vrb_rx_queues[i].lock);
		lock_acquire(vrb_rx_queues[i].lock);
	}
	store_release(&vrb_extra_rx_queues, MORE);
}

static void new_receivers_are_not_let_go(void **state)
{
	vrb_rx_queues_lock();
	store_relaxed(&vrb.poll_lock.sleepers, 1);
	vrb_rx_queues_unlock();
	assert_int_equal(load_relaxed(&vrb_extra_rx_queues), MORE);
	for (unsigned int i = 1; i <= MORE; i++) {
		assert_false(lock_try(vrb_rx_queues[i].lock));
		lock_release(vrb_rx_queues[i].lock);
	}
	vrb_rx_queues_lock();
	vrb_rx_queues_unlock();
	for (unsigned int i = 1; i <= MORE; i++)
		assert_true(lock_try(vrb_rx_queues[i].lock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_receivers_are_not_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
