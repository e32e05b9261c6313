/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: an event queue behind a file descriptor, where CQs line up whose completion
 * event was raised. A CQ is in the queue once, whatever the number of its events, and goes back to
 * the end while it has more.
 */
#ifndef VRB_CORE_CHANNEL_H
#define VRB_CORE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/event.h"
#include "core/live.h"
#include "core/patience.h"

struct vrb_context;
struct vrb_cq;

struct vrb_channel {
	struct ibv_comp_channel ibv;	/* ibv.refcnt: CQs that use it, under ctx->lock */
	struct vrb_context *ctx;
	/* struct vrb_cq.event_node; its lock protects the CQs' event_pending */
	struct vrb_event_queue queue;
	struct patience patience;
	uint32_t shards;		/* atomic hint: of the CQs that were armed */
	struct vrb_live live;
};

static inline struct vrb_channel *to_vrb_channel(struct ibv_comp_channel *c)
{
	return (struct vrb_channel *)c;
}

int vrb_channel_create(struct vrb_context *ctx, struct vrb_channel **channel);

/* EBUSY while a CQ uses it. */
int vrb_channel_destroy(struct vrb_channel *channel);

/* A CQ begins and ceases to use the channel. */
void vrb_channel_attach(struct vrb_channel *channel);
void vrb_channel_detach(struct vrb_channel *channel);

/* Queues one completion event of cq. The caller may hold cq->lock. */
void vrb_channel_raise(struct vrb_channel *channel, struct vrb_cq *cq);

/*
 * Takes the oldest event and counts it as delivered to cq.  Sleeps unless the fd is O_NONBLOCK, after polling for a moment where waits
 * are short.  Must hold no lock.  Returns 0, EAGAIN, EINTR.
 */
int vrb_channel_take(struct vrb_channel *channel, struct vrb_cq **cq);

/* The program asks for an event of cq: brings back the progress thread, unless vrb_channel_take() is going to poll first. */
void vrb_channel_arm(struct vrb_channel *channel, const struct vrb_cq *cq);

/* Forgets the undelivered events of a CQ that is being destroyed. */
void vrb_channel_forget(struct vrb_channel *channel, struct vrb_cq *cq);

#endif
