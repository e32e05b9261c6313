/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels and their events.
 *
 * A channel's descriptor is an eventfd in semaphore mode whose count is the number of queued
 * events: it is readable while one is queued, respects O_NONBLOCK, and each read takes one event.
 * It is written after the lock has been released; otherwise the thread that it wakes would only
 * wait for the lock.
 *
 * All under the cma lock, unless stated otherwise.
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
	unsigned int generation; /* cma.generation at creation */
	struct list events;      /* struct event.node, by rank, then oldest first */
	unsigned int queued;     /* their number; read without the lock */
	unsigned int uncounted;  /* how many of them the eventfd does not count yet */
	struct list on_silent;   /* cma.silent, while there are any */
	unsigned int waiters;    /* atomic: threads that read the eventfd or are about to */
};

struct event {
	struct rdma_cm_event pub;
	struct list node;
	/*
	 * The id whose rdma_destroy_id() waits for the acknowledgement: the listener's for a
	 * request.
	 */
	struct cma_id *counts_on;
	/*
	 * Of a request while many wait: those of its source before it, which the requests of other
	 * sources overtake, and what happens to connections.  Else 0.
	 */
	unsigned int rank;
	unsigned int migrations;      /* counts_on->migrations when it was delivered */
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
 * Sets the event's private data: len bytes from data; NULL: they are in the event already.  Stored
 * as connection or datagram parameters, by the id's kind.
 */
void event_set_conn_data(struct event *e, const void *data, uint8_t len);
void event_set_ud_data(struct event *e, const void *data, uint8_t len);

/* Queues the event on its id's channel; a request on the listener's. */
void event_post(struct event *e);

/* event_new() and event_post(). */
void event_raise(struct cma_id *id, enum rdma_cm_event_type type, int status);

/*
 * Returns true if no event is queued and progress would yield none, so that channel_take() would
 * block. Makes no system call. Needs no lock.
 */
bool channel_idle(const struct channel *ch);

/*
 * Takes the first event and counts it as delivered.  Blocks like read(2); must hold no lock.
 * Returns 0 or an errno value, such as EAGAIN or EINTR.
 */
int channel_take(struct channel *ch, struct event **out);

/*
 * Takes the first event of a channel, without a system call, if this thread has raised one since
 * it took the lock; else returns NULL.
 */
struct event *channel_take_uncounted(struct channel *ch);

/* Counts all events in their eventfds. cma_unlock() does that, too, after releasing the lock. */
void channels_ring(void);
void channels_ring_and_unlock(void);

/* In a forked child. */
void channels_forget(void);

/* Removes the event from its channel's queue. */
void event_unqueue(struct channel *ch, struct event *e);

/*
 * Calls the verbs that the event requires, now that the program gets it (deliver.c).  False: the
 * program must not get it, and it is gone.  Must hold no lock.
 */
bool event_deliver(struct event *e);

/* Acknowledges and frees the event.  Takes the lock. */
void event_ack(struct event *e);

/*
 * Removes all queued events that count on the id, and passes each to fn, which becomes its owner.
 */
void channel_sweep(struct channel *ch, struct cma_id *id, void (*fn)(struct event *e, void *arg),
		   void *arg);

#endif
