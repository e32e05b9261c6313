/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels. */
#include "core/cq/comp_channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "core/base/tap.h"
#include "core/cq/async_event.h"
#include "core/cq/cq.h"
#include "run/log.h"
#include "util/atomic.h"

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
	list_init(&ch->left);
	busy_poll_init(&ch->busy_poll);
	ch->ctx = ctx;
	ch->ibv.context = &ctx->vctx.context;
	ch->ibv.fd = ch->queue.fd;
	vrb_context_take(ctx, CTX_CHANNEL, INT32_MAX);
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
		return vrb_in_use("ibv_destroy_comp_channel", (uint32_t)users, "CQs");
	vrb_live_del(&channel->live);
	vrb_context_give(ctx, CTX_CHANNEL);
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
	if (tapped())
		vrb_tap_event(&(struct tap_event){ .context = cq->ibv.context, .cq = cq });
	lock_acquire(&channel->queue.lock);
	if (cq->event_pending++ == 0)
		vrb_event_queue_push_locked(&channel->queue, &cq->event_node);
	else
		vrb_event_queue_touch_locked(&channel->queue);
	lock_release(&channel->queue.lock);
}

void vrb_channel_note_left(struct vrb_channel *channel, struct vrb_cq *cq)
{
	lock_acquire(&channel->queue.lock);
	list_add_tail(&channel->left, &cq->left_node);
	store_relaxed(&channel->any_left, true);
	lock_release(&channel->queue.lock);
}

static struct vrb_cq *take_left(struct vrb_channel *channel)
{
	struct vrb_cq *cq = NULL;

	lock_acquire(&channel->queue.lock);
	if (!list_empty(&channel->left)) {
		cq = list_entry(channel->left.next, struct vrb_cq, left_node);
		list_del(&cq->left_node);
	}
	store_relaxed(&channel->any_left, !list_empty(&channel->left));
	lock_release(&channel->queue.lock);
	return cq;
}

void vrb_channel_raise_left(struct vrb_channel *channel)
{
	struct vrb_context *ctx = channel->ctx;
	struct vrb_cq *cq;

	/* keeps the CQs alive */
	pthread_mutex_lock(&ctx->lock);
	while ((cq = take_left(channel)))
		vrb_cq_raise_left(cq);
	pthread_mutex_unlock(&ctx->lock);
}

void vrb_channel_forget_left(struct vrb_channel *channel, struct vrb_cq *cq)
{
	lock_acquire(&channel->queue.lock);
	list_del(&cq->left_node);
	lock_release(&channel->queue.lock);
}

/* The lock of the queue ranks below that of a CQ. */
static bool may_raise(struct vrb_channel *channel, struct vrb_cq *cq)
{
	bool may;

	lock_acquire(&cq->lock);
	may = cq->armed;
	lock_release(&cq->lock);
	lock_acquire(&channel->queue.lock);
	may |= cq->event_pending;
	lock_release(&channel->queue.lock);
	return may;
}

void vrb_channel_report_unarmed(struct vrb_channel *channel)
{
	struct vrb_context *ctx = channel->ctx;
	unsigned int cqs = 0;
	bool may = false;
	struct list *pos;

	pthread_mutex_lock(&ctx->lock);
	list_for_each (pos, &ctx->cqs) {
		struct vrb_cq *cq = list_entry(pos, struct vrb_cq, node);

		if (cq->channel != channel)
			continue;
		cqs++;
		may |= may_raise(channel, cq);
	}
	pthread_mutex_unlock(&ctx->lock);
	if (cqs && !may)
		log_once(LOG_CORE, LOG_INFO,
			 "a thread sleeps in ibv_get_cq_event(), and none of the channel's CQs "
			 "(%u) is armed: ibv_req_notify_cq() before, and again after each event",
			 cqs);
}

void vrb_channel_forget(struct vrb_channel *channel, struct vrb_cq *cq)
{
	lock_acquire(&channel->queue.lock);
	if (cq->event_pending)
		vrb_event_queue_remove_locked(&channel->queue, &cq->event_node);
	cq->event_pending = 0;
	lock_release(&channel->queue.lock);
}
