/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events, and the acknowledgement of all events. */
#ifndef VRB_CORE_CQ_ASYNC_EVENT_H
#define VRB_CORE_CQ_ASYNC_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;

/*
 * The acknowledgements of an object's events. Destruction waits until none is missing. The pointers
 * lead to members of the public object, whose count of acknowledged events programs read.
 */
struct vrb_event_acks {
	pthread_mutex_t *mutex;		/* protects both counts */
	pthread_cond_t *cond;
	uint32_t *completed;
	uint32_t missing;		/* events delivered and not acknowledged */
};

void vrb_event_acks_init(struct vrb_event_acks *acks, pthread_mutex_t *mutex, pthread_cond_t *cond,
			 uint32_t *completed);

/*
 * Raises a port or device event (GID_CHANGE, PORT_ERR, ...). If memory is exhausted, the event is
 * lost and logged.
 */
void vrb_event_port(struct vrb_context *ctx, enum ibv_event_type type);

/*
 * Raises an event affiliated with an object, whose destruction then waits for the acknowledgement.
 */
void vrb_event_cq(struct ibv_cq *cq, struct vrb_event_acks *acks, enum ibv_event_type type);
void vrb_event_qp(struct ibv_qp *qp, struct vrb_event_acks *acks, enum ibv_event_type type);
void vrb_event_srq(struct ibv_srq *srq, struct vrb_event_acks *acks, enum ibv_event_type type);

/* The same for a work queue; vrb_event_forget() knows it by the QP that implements it. */
void vrb_event_wq(struct ibv_wq *wq, const struct ibv_qp *qp, struct vrb_event_acks *acks,
		  enum ibv_event_type type);

/* Drops the queued events of an object that is being destroyed. */
void vrb_event_forget(struct vrb_context *ctx, const void *object);

/* For destruction, after vrb_event_forget(): waits until no acknowledgement is missing. */
void vrb_event_wait_acked(struct vrb_event_acks *acks);

/* Count deliveries and acknowledgements. Surplus acknowledgements are ignored. */
void vrb_event_delivered(struct vrb_event_acks *acks);
void vrb_event_acked(struct vrb_event_acks *acks, uint32_t n);

/* The kind of object in ibv_async_event.element, which the type of the event selects. */
enum vrb_event_object {
	VRB_EVENT_OF_PORT, /* or of the device */
	VRB_EVENT_OF_CQ,
	VRB_EVENT_OF_QP,
	VRB_EVENT_OF_SRQ,
	VRB_EVENT_OF_WQ,
};

enum vrb_event_object vrb_event_object(enum ibv_event_type type);

/* Takes the context's next event. Returns 0 or the errno of vrb_event_queue_take(). */
int vrb_event_get(struct vrb_context *ctx, struct ibv_async_event *event);

#endif
