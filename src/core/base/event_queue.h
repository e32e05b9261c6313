/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues behind pollable file descriptors, for asynchronous and completion events.
 *
 * The fd is an eventfd in semaphore mode whose count equals the number of queued events: it polls
 * readable exactly while an event is queued, honours O_NONBLOCK set by the program, and one read
 * takes one event.
 */
#ifndef VRB_CORE_BASE_EVENT_QUEUE_H
#define VRB_CORE_BASE_EVENT_QUEUE_H

#include <stdbool.h>

#include "util/list.h"
#include "util/lock.h"

struct vrb_event_queue {
	struct lock lock;
	int fd; /* -1: closed, pushes have no effect */
	struct list events;
};

/* Returns 0 or an errno value. */
int vrb_event_queue_init(struct vrb_event_queue *q);
void vrb_event_queue_destroy(struct vrb_event_queue *q);

/*
 * Closes the fd of a queue that objects still point to; later pushes have no effect. The queue must
 * be empty.
 */
void vrb_event_queue_close(struct vrb_event_queue *q);

/*
 * Queues a node that is in no queue and makes the fd readable. Returns false if the queue is
 * closed. Takes q->lock.
 */
bool vrb_event_queue_push(struct vrb_event_queue *q, struct list *node);

/* As vrb_event_queue_push(), for an open queue. Must hold q->lock. */
void vrb_event_queue_push_locked(struct vrb_event_queue *q, struct list *node);

/*
 * Takes one count from the fd, then the oldest node; blocks unless the fd is O_NONBLOCK. On success
 * returns 0 with the node unlinked and q->lock HELD, so that the caller can count the delivery
 * before vrb_event_forget() runs for the object. Otherwise returns the errno of read(2): EAGAIN,
 * EINTR.
 */
int vrb_event_queue_take(struct vrb_event_queue *q, struct list **node);

/* Unlinks a queued node and removes its count from the fd. Must hold q->lock. */
void vrb_event_queue_remove_locked(struct vrb_event_queue *q, struct list *node);

/*
 * Signals another event of a node that is already queued, so that edge-triggered waiters on the
 * descriptor see an edge. Must hold q->lock.
 */
void vrb_event_queue_touch_locked(struct vrb_event_queue *q);

#endif
