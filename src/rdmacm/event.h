/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels and the events in them.
 *
 * A channel's descriptor is an eventfd in semaphore mode whose count equals the number of queued
 * events: it is readable exactly while one waits, honours an O_NONBLOCK of the program, and one
 * read takes one event.
 *
 * All under the cma lock, but for what says otherwise.
 */
#ifndef VRB_RDMACM_EVENT_H
#define VRB_RDMACM_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#include "cm/msg.h"
#include "util/compiler.h"
#include "util/list.h"
#include "util/net.h"

struct cma_id;
struct group;

struct channel {
	struct rdma_event_channel pub;
	unsigned int generation; /* cma.generation when it was made */
	struct list events;      /* struct event.node, oldest first */
};

struct event {
	struct rdma_cm_event pub;
	struct list node;
	struct cma_id *counts_on;     /* whose rdma_destroy_id() waits until it is acknowledged: the
					 listener's for a request */
	struct group *group;          /* of multicast events */
	uint8_t data[CM_RTU_PRIVATE]; /* private data */
};

static inline struct channel *to_channel(struct rdma_event_channel *c)
{
	return container_of(c, struct channel, pub);
}

static inline struct event *to_event(struct rdma_cm_event *e)
{
	return container_of(e, struct event, pub);
}

/* Returns 0 or an errno value.  No lock needed. */
int channel_create(struct channel **out);
void channel_destroy(struct channel *ch);

/* A new event of an id; NULL: no memory, which is logged.  No lock needed. */
struct event *event_new(struct cma_id *id, enum rdma_cm_event_type type, int status);

/*
 * The event's private data: len bytes from data, or from where they lie (NULL), told as connection
 * or datagram parameters.
 */
void event_set_conn_data(struct event *e, const void *data, uint8_t len);
void event_set_ud_data(struct event *e, const void *data, uint8_t len);

/* Queues it on its id's channel (a request: on the listener's). */
void event_post(struct event *e);

/* The two together. */
void event_raise(struct cma_id *id, enum rdma_cm_event_type type, int status);

/*
 * The oldest event of the channel, counted as delivered.  Sleeps as read(2) does, and must hold no
 * lock.  Returns 0, EAGAIN, EINTR ...
 */
int channel_take(struct channel *ch, struct event **out);

/* Takes it out of its channel's queue. */
void event_unqueue(struct channel *ch, struct event *e);

/* Acknowledges: frees it.  Takes the lock. */
void event_ack(struct event *e);

/*
 * Takes the events that count on the id and were not fetched out of the channel and hands each to
 * fn, which owns it.
 */
void channel_sweep(struct channel *ch, struct cma_id *id, void (*fn)(struct event *e, void *arg),
		   void *arg);

#endif
