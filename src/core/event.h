/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events and completion events: queues behind pollable file descriptors.
 *
 * A queue's fd is an eventfd in semaphore mode whose count equals the number of queued events, so
 * it polls readable exactly while an event waits, honours O_NONBLOCK set by the program, and one
 * read takes one event.
 *
 * Acknowledgements are counted in the public objects: their `events_completed` holds the events
 * that were delivered and not yet acknowledged, under their `mutex`; destruction waits on their
 * `cond` until it is zero.
 */
#ifndef VRB_CORE_EVENT_H
#define VRB_CORE_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"

struct vrb_context;

struct vrb_event_queue {
	struct lock lock;
	int fd; /* -1: closed, and everything that is pushed is lost */
	struct list events;
};

/* Returns 0 or an errno value. */
int vrb_event_queue_init(struct vrb_event_queue *q);
void vrb_event_queue_destroy(struct vrb_event_queue *q);

/*
 * For a queue that objects still point to: closes the fd and lets later pushes come to nothing. The
 * queue must be empty.
 */
void vrb_event_queue_close(struct vrb_event_queue *q);

/*
 * Queues a node that is in no queue and makes the fd readable; false if the queue is closed. Takes
 * q->lock.
 */
bool vrb_event_queue_push(struct vrb_event_queue *q, struct list *node);

/* The same for a caller that holds q->lock. */
void vrb_event_queue_push_locked(struct vrb_event_queue *q, struct list *node);

/*
 * Takes one count from the fd and then the oldest node; sleeps unless the fd is O_NONBLOCK.  On
 * success returns 0 with q->lock HELD, so that the caller can note the delivery before anybody
 * forgets the object, and the node unlinked.  Otherwise the errno of read(2): EAGAIN, EINTR.
 */
int vrb_event_queue_take(struct vrb_event_queue *q, struct list **node);

/* Unlinks a queued node and takes its count back. Must hold q->lock. */
void vrb_event_queue_remove_locked(struct vrb_event_queue *q, struct list *node);

/* Something more has come for a node that is queued: who waits for edges of the descriptor sees one. Must hold q->lock. */
void vrb_event_queue_touch_locked(struct vrb_event_queue *q);

/*
 * Raises an event of a port or the device (GID_CHANGE, PORT_ERR, ...). Allocates; loses the event
 * with a log line when memory is out.
 */
void vrb_event_port(struct vrb_context *ctx, enum ibv_event_type type);

/*
 * Raises an event affiliated with an object; the object counts it and its destruction waits for the
 * acknowledgement.
 */
void vrb_event_cq(struct ibv_cq *cq, enum ibv_event_type type);
void vrb_event_qp(struct ibv_qp *qp, enum ibv_event_type type);
void vrb_event_srq(struct ibv_srq *srq, enum ibv_event_type type);
void vrb_event_wq(struct ibv_wq *wq, enum ibv_event_type type);

/* Forgets queued, not yet delivered events of an object that is being destroyed. */
void vrb_event_forget(struct vrb_context *ctx, const void *object);

/*
 * Waits until *unacked, which is protected by mutex, is zero. For destruction, after
 * vrb_event_forget.
 */
void vrb_event_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *unacked);

/* Delivery and acknowledgement of n events; acknowledging more than were delivered is ignored. */
void vrb_event_delivered(pthread_mutex_t *mutex, uint32_t *unacked);
void vrb_event_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *unacked, uint32_t n);

/* The next event of a context: 0 or the errno of vrb_event_queue_take. */
int vrb_event_get(struct vrb_context *ctx, struct ibv_async_event *event);
void vrb_event_ack(struct ibv_async_event *event);

#endif
