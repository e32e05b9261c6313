/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events and completion events: queues behind pollable file descriptors.
 *
 * A queue's fd is an eventfd in semaphore mode whose count equals the number of queued events, so it polls readable exactly while an
 * event waits, honours O_NONBLOCK set by the program, and one read takes one event.
 */
#ifndef VRB_CORE_EVENT_H
#define VRB_CORE_EVENT_H

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"

struct vrb_context;

struct vrb_event_queue {
	struct lock lock;
	int fd;
	struct list events;
};

int vrb_event_queue_init(struct vrb_event_queue *q);
void vrb_event_queue_destroy(struct vrb_event_queue *q);

/*
 * Raises an event of a port or the device (GID_CHANGE, PORT_ERR, ...). Allocates; loses the event with a log line when memory is out.
 */
void vrb_event_port(struct vrb_context *ctx, enum ibv_event_type type);

/* Raises an event affiliated with an object; the object counts it and its destruction waits for the acknowledgement. */
void vrb_event_cq(struct ibv_cq *cq, enum ibv_event_type type);
void vrb_event_qp(struct ibv_qp *qp, enum ibv_event_type type);
void vrb_event_srq(struct ibv_srq *srq, enum ibv_event_type type);

/* Forgets queued, not yet delivered events of an object that is being destroyed. */
void vrb_event_forget(struct vrb_context *ctx, const void *object);

#endif
