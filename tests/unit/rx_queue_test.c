/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that stopped all RX queues releases the locks that it took, and no other: as soon as
 * vrb.poll_lock is free, a waiting thread may have added queues. The test replaces the slow paths
 * of locks to act at that moment.
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
	fail_msg("no thread holds it");
}

/*
 * The thread that slept on vrb.poll_lock now holds it and adds RX queues, which start to work at
 * once.
 */
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

static void locks_of_new_queues_are_not_released(void **state)
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
		cmocka_unit_test(locks_of_new_queues_are_not_released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
