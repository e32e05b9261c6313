/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: an event queue behind a file descriptor. It holds the CQs with undelivered
 * completion events, each CQ once; a CQ with several events goes back to the end after each
 * delivery.
 */
#ifndef VRB_CORE_CQ_COMP_CHANNEL_H
#define VRB_CORE_CQ_COMP_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/event_queue.h"
#include "core/base/live_objects.h"
#include "core/cq/busy_poll.h"

struct vrb_context;
struct vrb_cq;

struct vrb_channel {
	struct ibv_comp_channel ibv;	/* ibv.refcnt: CQs attached, under ctx->lock */
	struct vrb_context *ctx;
	/* of struct vrb_cq.event_node; its lock also protects event_pending of the CQs, and left */
	struct vrb_event_queue queue;
	/* of struct vrb_cq.left_node: CQs armed beside entries since vrb_channel_raise_left() */
	struct list left;
	struct busy_poll busy_poll;
	/* atomic hint: rx queue shards of the CQs that were armed */
	uint32_t shards;
	bool any_left;	/* atomic hint: left has nodes */
	struct vrb_live live;
};

static inline struct vrb_channel *to_vrb_channel(struct ibv_comp_channel *c)
{
	return (struct vrb_channel *)c;
}

int vrb_channel_create(struct vrb_context *ctx, struct vrb_channel **channel);

/* EBUSY while a CQ uses it. */
int vrb_channel_destroy(struct vrb_channel *channel);

/* Called when a CQ that uses the channel is created or destroyed. */
void vrb_channel_attach(struct vrb_channel *channel);
void vrb_channel_detach(struct vrb_channel *channel);

/* Queues one completion event of cq. The caller may hold cq->lock. */
void vrb_channel_raise(struct vrb_channel *channel, struct vrb_cq *cq);

/* Notes that an armed CQ has entries. Must hold cq->lock. */
void vrb_channel_note_left(struct vrb_channel *channel, struct vrb_cq *cq);

/*
 * Before a thread sleeps: entries in armed CQs raise their events, though others may have announced
 * them.  Must hold no lock.
 */
void vrb_channel_raise_left(struct vrb_channel *channel);

/*
 * A thread is about to sleep: logs once, informational, if no CQ of the channel can raise an event.
 * Must hold no lock.
 */
void vrb_channel_report_unarmed(struct vrb_channel *channel);

/* For a CQ that is being destroyed: vrb_channel_raise_left() ignores it. Must hold ctx->lock. */
void vrb_channel_forget_left(struct vrb_channel *channel, struct vrb_cq *cq);

/* Drops the undelivered events of a CQ that is being destroyed. */
void vrb_channel_forget(struct vrb_channel *channel, struct vrb_cq *cq);

#endif
