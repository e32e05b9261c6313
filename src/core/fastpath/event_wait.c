/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/fastpath/event_wait.h"

#include <fcntl.h>
#include <sched.h>

#include "core/cq/async_event.h"
#include "core/cq/comp_channel.h"
#include "core/cq/cq.h"
#include "core/progress/poll_loop.h"
#include "core/tx/tx_sched.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/slowdown.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/time.h"
#include "util/tuning.h"

/*
 * The program may sleep next: starts the progress thread, unless vrb_channel_take() will poll
 * first.
 */
static void expect_event(struct vrb_channel *channel, const struct vrb_cq *cq)
{
	store_relaxed(&channel->shards, load_relaxed(&channel->shards) | load_relaxed(&cq->shards));
	if (busy_poll_enabled(&channel->busy_poll))
		vrb_tx_try_flush_delayed();
	else
		vrb_prepare_sleep();
}

void vrb_cq_arm(struct vrb_cq *cq, bool solicited_only)
{
	if (cq->channel)
		expect_event(cq->channel, cq);
	vrb_cq_arm_only(cq, solicited_only);
}

static bool raised(struct vrb_channel *channel)
{
	bool any;

	lock_acquire(&channel->queue.lock);
	any = !list_empty(&channel->queue.events);
	lock_release(&channel->queue.lock);
	return any;
}

/* Cancellation is off, because polling holds locks; a thread that sleeps may be cancelled. */
static void poll_until_raised(struct vrb_channel *channel, uint64_t end)
{
	unsigned int in_vain = 0;
	int cancel = cancel_off();
	bool came;

	while (!(came = raised(channel)) && !time_reached(end, clock_now()))
		if (!vrb_poll_once(load_relaxed(&channel->shards)) &&
		    ++in_vain % TUNE_BUSY_POLL_YIELD == 0)
			sched_yield();
	busy_poll_polled(&channel->busy_poll, came);
	if (!came)
		vrb_prepare_sleep();
	cancel_on(cancel);
}

/* With O_NONBLOCK the program does not want to wait at all. */
static bool blocks(const struct vrb_channel *channel)
{
	return !(fcntl(channel->ibv.fd, F_GETFL) & O_NONBLOCK);
}

static void report_unarmed(struct vrb_channel *channel)
{
	if (unlikely(log_on(LOG_CORE, LOG_INFO)) && blocks(channel) && !raised(channel))
		vrb_channel_report_unarmed(channel);
}

/*
 * Waits for an event and takes it; returns with the queue's lock held. A program that sleeps though
 * it has left completions in an armed CQ, as perftest does, gets an event for them, lest it sleep
 * for ever.
 */
static int await(struct vrb_channel *channel, struct list **node)
{
	uint64_t end = clock_now() + slowdown() * TUNE_BUSY_POLL_TIME;
	int ret;

	if (unlikely(load_relaxed(&channel->any_left)) && !raised(channel) && blocks(channel))
		vrb_channel_raise_left(channel);
	if (raised(channel))
		return vrb_event_queue_take(&channel->queue, node);
	if (busy_poll_enabled(&channel->busy_poll) && blocks(channel)) {
		poll_until_raised(channel, end);
		report_unarmed(channel);
		return vrb_event_queue_take(&channel->queue, node);
	}
	report_unarmed(channel);
	/* A thread that a signal wakes up may find the channel destroyed. */
	ret = vrb_event_queue_take(&channel->queue, node);
	if (!ret)
		busy_poll_slept(&channel->busy_poll, !time_reached(end, clock_now()));
	return ret;
}

int vrb_channel_take(struct vrb_channel *channel, struct vrb_cq **cq)
{
	struct list *node;
	int ret = await(channel, &node);

	if (ret)
		return ret;
	*cq = list_entry(node, struct vrb_cq, event_node);
	if (--(*cq)->event_pending)
		vrb_event_queue_push_locked(&channel->queue, node);
	vrb_event_delivered(&(*cq)->comp_acks);
	lock_release(&channel->queue.lock);
	return 0;
}
