/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/rx_queues.h"

#include <assert.h>
#include <stddef.h>

#include "core/base/state.h"
#include "util/compiler.h"

struct vrb_rx_queue vrb_rx_queues[VRB_RX_QUEUES] = {
	[0] = {
		.lock = &vrb.poll_lock,
		.scheduled = { &vrb_main_rx_queue->scheduled, &vrb_main_rx_queue->scheduled },
		.delayed = { &vrb_main_rx_queue->delayed, &vrb_main_rx_queue->delayed },
		.delayed_deadline = VRB_NEVER,
		.pending.deadline = VRB_NEVER,
	},
};

unsigned int vrb_extra_rx_queues;

/* vrb.poll_lock excludes the addition of RX queues, so recheck their number once it is held. */
void vrb_rx_queues_lock(void)
{
	unsigned int n;

	for (;;) {
		n = load_acquire(&vrb_extra_rx_queues);
		for (unsigned int i = 1; i <= n; i++)
			lock_acquire(vrb_rx_queues[i].lock);
		lock_acquire(&vrb.poll_lock);
		if (likely(n == load_relaxed(&vrb_extra_rx_queues)))
			return;
		lock_release(&vrb.poll_lock);
		for (unsigned int i = n; i; i--)
			lock_release(vrb_rx_queues[i].lock);
	}
}

/* Read the number first: once vrb.poll_lock is free, RX queues may be added. */
void vrb_rx_queues_unlock(void)
{
	unsigned int n = load_relaxed(&vrb_extra_rx_queues);

	lock_release(&vrb.poll_lock);
	for (unsigned int i = n; i; i--)
		lock_release(vrb_rx_queues[i].lock);
}

/* Unlike vrb_counters_add(), uses atomic loads, because other threads count concurrently. */
static void add_stats(struct rx_stats *sum, const struct rx_stats *s)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)s;

	static_assert(sizeof(*sum) % sizeof(uint64_t) == 0, "counters are all 64 bits wide");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += load_relaxed(&from[i]);
}

void vrb_rx_stats_sum(struct rx_stats *sum)
{
	*sum = (struct rx_stats){ 0 };
	vrb_for_each_rx_queue (r)
		add_stats(sum, &r->stats);
}
