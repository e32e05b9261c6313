/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bursts that one call has received share a round. A thread that stopped all RX queues releases the
 * locks that it took, and no other: as soon as vrb.poll_lock is free, a waiting thread may have
 * added queues. The test replaces the slow paths of locks to act at that moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "core/cq/round.h"
#include "core/progress/rx_queue.h"
#include "wire/udp_state.h"

enum { MORE = 2 };

/* No lock has an owner. */
bool lock_take_now(struct lock *l)
{
	bool mine = load_relaxed(&l->taken) == LOCK_FREE;

	store_relaxed(&l->taken, LOCK_TAKEN);
	return mine;
}

void lock_take(struct lock *l)
{
	if (!lock_take_now(l))
		fail_msg("no thread holds it");
}

/*
 * The thread that slept on vrb.poll_lock now holds it and adds RX queues, which start to work at
 * once.
 */
void lock_give(struct lock *l)
{
	store_relaxed(&l->taken, LOCK_FREE);
	if (!load_relaxed(&l->sleepers))
		return;
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

/* A wire with so many bursts of short packets, all received by one call. */
static unsigned int bursts;
static char rounds[16];	/* of each burst: B begins a round, c continues it */

static unsigned int recv_burst(struct wire *w, struct wire_pkt *pkts, unsigned int n)
{
	size_t i = strlen(rounds);

	if (!bursts)
		return 0;
	memset(pkts, 0, n * sizeof(*pkts));
	rounds[i] = vrb_round ? 'c' : 'B';
	w->held = --bursts > 0;
	return n;
}

static void bursts_received_together_share_rounds(void **state)
{
	static const char *const rows[] = { "", "B", "Bc", "BcB", "BcBc", "BcBcBc" };
	static const struct wire_ops ops = { .recv = recv_burst };
	static struct udp_wire udp = { .wire = { .ops = &ops } };
	struct vrb_rx_queue *r = vrb_main_rx_queue;

	list_init(&r->scheduled);
	list_init(&r->delayed);
	r->wire = &udp.wire;
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(rounds, 0, sizeof(rounds));
		bursts = (unsigned int)strlen(rows[i]);
		assert_int_equal(vrb_rx_queue_poll(r, 1, true), strlen(rows[i]) * WIRE_BURST);
		assert_string_equal(rounds, rows[i]);
		assert_null(vrb_round);
	}
	r->wire = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bursts_received_together_share_rounds),
		cmocka_unit_test(locks_of_new_queues_are_not_released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
