/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels over event queues. */
#include "core/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "core/answer.h"
#include "core/context.h"
#include "core/cq.h"
#include "core/drive.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/time.h"

enum { POLLS_PER_YIELD = 16 };	/* in vain: whoever is to answer may want this processor */

int vrb_channel_create(struct vrb_context *ctx, struct vrb_channel **channel)
{
	struct vrb_channel *ch = calloc(1, sizeof(*ch));
	int ret;

	if (!ch)
		return ENOMEM;
	ret = vrb_event_queue_init(&ch->queue);
	if (ret) {
		free(ch);
		return ret;
	}
	patience_init(&ch->patience);
	ch->ctx = ctx;
	ch->ibv.context = &ctx->vctx.context;
	ch->ibv.fd = ch->queue.fd;
	vrb_context_take(ctx, &ctx->n_channel, INT32_MAX);
	vrb_live_add(&ch->live, ch, ch->ibv.context, 0);
	*channel = ch;
	return 0;
}

int vrb_channel_destroy(struct vrb_channel *channel)
{
	struct vrb_context *ctx = channel->ctx;
	int users;

	pthread_mutex_lock(&ctx->lock);
	users = channel->ibv.refcnt;
	pthread_mutex_unlock(&ctx->lock);
	if (users)
		return EBUSY;
	vrb_live_del(&channel->live);
	vrb_context_give(ctx, &ctx->n_channel);
	vrb_event_queue_destroy(&channel->queue);
	free(channel);
	return 0;
}

static void count_user(struct vrb_channel *channel, int change)
{
	pthread_mutex_lock(&channel->ctx->lock);
	channel->ibv.refcnt += change;
	pthread_mutex_unlock(&channel->ctx->lock);
}

void vrb_channel_attach(struct vrb_channel *channel)
{
	count_user(channel, 1);
}

void vrb_channel_detach(struct vrb_channel *channel)
{
	count_user(channel, -1);
}

void vrb_channel_raise(struct vrb_channel *channel, struct vrb_cq *cq)
{
	lock_acquire(&channel->queue.lock);
	if (cq->event_pending++ == 0)
		vrb_event_queue_push_locked(&channel->queue, &cq->event_node);
	else
		vrb_event_queue_touch_locked(&channel->queue);
	lock_release(&channel->queue.lock);
}

void vrb_channel_arm(struct vrb_channel *channel, const struct vrb_cq *cq)
{
	store_relaxed(&channel->shards, load_relaxed(&channel->shards) | load_relaxed(&cq->shards));
	if (patience_polls(&channel->patience))
		vrb_answer_try_owed();
	else
		vrb_drive_blocks();
}

static bool raised(struct vrb_channel *channel)
{
	bool any;

	lock_acquire(&channel->queue.lock);
	any = !list_empty(&channel->queue.events);
	lock_release(&channel->queue.lock);
	return any;
}

/* Packets are taken and sent under locks, so the thread must not end there; where it sleeps it may. */
static void poll_until_raised(struct vrb_channel *channel, uint64_t end)
{
	unsigned int in_vain = 0;
	int cancel = cancel_off();
	bool came;

	while (!(came = raised(channel)) && !time_reached(end, clock_now()))
		if (!vrb_drive_poll(load_relaxed(&channel->shards)) && ++in_vain % POLLS_PER_YIELD == 0)
			sched_yield();
	patience_polled(&channel->patience, came);
	if (!came)
		vrb_drive_blocks();
	cancel_on(cancel);
}

/* The program has made the channel's descriptor non-blocking, and does not want to wait at all. */
static bool blocks(const struct vrb_channel *channel)
{
	return !(fcntl(channel->ibv.fd, F_GETFL) & O_NONBLOCK);
}

/* Waits for an event and takes it, with the queue's lock. */
static int await(struct vrb_channel *channel, struct list **node)
{
	uint64_t end = clock_now() + SHORT_WAIT;
	int ret;

	if (raised(channel))
		return vrb_event_queue_take(&channel->queue, node);
	if (patience_polls(&channel->patience) && blocks(channel)) {
		poll_until_raised(channel, end);
		return vrb_event_queue_take(&channel->queue, node);
	}
	ret = vrb_event_queue_take(&channel->queue, node);
	patience_slept(&channel->patience, !ret && !time_reached(end, clock_now()));
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
	vrb_event_delivered(&(*cq)->ibv.mutex, &(*cq)->ibv.comp_events_completed);
	lock_release(&channel->queue.lock);
	return 0;
}

void vrb_channel_forget(struct vrb_channel *channel, struct vrb_cq *cq)
{
	lock_acquire(&channel->queue.lock);
	if (cq->event_pending)
		vrb_event_queue_remove_locked(&channel->queue, &cq->event_node);
	cq->event_pending = 0;
	lock_release(&channel->queue.lock);
}
