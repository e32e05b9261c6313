/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: a pollable file descriptor behind which CQs queue up whose completion event was raised.
 *
 * The fd is an eventfd in semaphore mode; its count equals the number of events that wait and changes only under channel->lock,
 * so it is readable exactly while ibv_get_cq_event() would return at once.  A CQ is on the list once, whatever the number
 * of its events.
 */
#ifndef VRB_CORE_CHANNEL_H
#define VRB_CORE_CHANNEL_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"

struct vrb_context;
struct vrb_cq;

struct vrb_channel {
	struct ibv_comp_channel ibv;	/* ibv.refcnt: CQs that use it, under ibv.context->mutex */
	struct vrb_context *ctx;
	struct lock lock;
	struct list ready;		/* struct vrb_cq.event_node */
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
 * Takes the oldest event and counts it in cq->comp_events.  Sleeps unless the fd is O_NONBLOCK.
 * Returns 0, EAGAIN, EINTR.
 */
int vrb_channel_take(struct vrb_channel *channel, struct vrb_cq **cq);

/* Forgets the events of a CQ that is being destroyed; returns how many events of it the program has taken so far. */
uint32_t vrb_channel_forget(struct vrb_channel *channel, struct vrb_cq *cq);

#endif
