/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events, and the acknowledgement of all events.
 *
 * Public objects count unacknowledged deliveries in `events_completed`, under their `mutex`;
 * destruction waits on their `cond` until the count is zero.
 */
#ifndef VRB_CORE_CQ_ASYNC_EVENT_H
#define VRB_CORE_CQ_ASYNC_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;

/*
 * Raises a port or device event (GID_CHANGE, PORT_ERR, ...). If memory is exhausted, the event is
 * lost and logged.
 */
void vrb_event_port(struct vrb_context *ctx, enum ibv_event_type type);

/*
 * Raises an event affiliated with an object, whose destruction then waits for the acknowledgement.
 */
void vrb_event_cq(struct ibv_cq *cq, enum ibv_event_type type);
void vrb_event_qp(struct ibv_qp *qp, enum ibv_event_type type);
void vrb_event_srq(struct ibv_srq *srq, enum ibv_event_type type);
void vrb_event_wq(struct ibv_wq *wq, enum ibv_event_type type);

/* Drops the queued events of an object that is being destroyed. */
void vrb_event_forget(struct vrb_context *ctx, const void *object);

/*
 * For destruction, after vrb_event_forget(): waits until *unacked is zero. The mutex protects it.
 */
void vrb_event_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *unacked);

/* Count deliveries and acknowledgements. Surplus acknowledgements are ignored. */
void vrb_event_delivered(pthread_mutex_t *mutex, uint32_t *unacked);
void vrb_event_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *unacked, uint32_t n);

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
void vrb_event_ack(struct ibv_async_event *event);

#endif
