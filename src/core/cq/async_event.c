/* SPDX-License-Identifier: BSD-2-Clause */
/* The asynchronous events of a context. */
#include "core/cq/async_event.h"

#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/event_queue.h"
#include "core/base/limits.h"
#include "core/base/tap.h"
#include "run/log.h"
#include "util/compiler.h"

/* A queued asynchronous event. */
struct async_event {
	struct list node;
	struct ibv_async_event ev;
	const void *object; /* NULL: unaffiliated */
	pthread_mutex_t *mutex;
	uint32_t *unacked;
};

static void raise_event(struct vrb_context *ctx, const struct async_event *proto)
{
	struct async_event *e = malloc(sizeof(*e));

	if (tapped())
		vrb_tap_event(&(struct tap_event){ .context = &ctx->vctx.context,
						   .async = &proto->ev });
	if (!e) {
		log_error(LOG_CORE, "out of memory: asynchronous event %d is lost",
			  (int)proto->ev.event_type);
		return;
	}
	*e = *proto;
	if (!vrb_event_queue_push(&ctx->events, &e->node))
		free(e);
}

void vrb_event_port(struct vrb_context *ctx, enum ibv_event_type type)
{
	struct async_event e = { .ev = { .event_type = type } };

	/* DEVICE_FATAL belongs to the device, other unaffiliated events to its only port. */
	e.ev.element.port_num = type == IBV_EVENT_DEVICE_FATAL ? 0 : VRB_PORT_NUM;
	raise_event(ctx, &e);
}

void vrb_event_cq(struct ibv_cq *cq, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.cq = cq, .event_type = type },
		.object = cq,
		.mutex = &cq->mutex,
		.unacked = &cq->async_events_completed,
	};

	raise_event(to_vrb_context(cq->context), &e);
}

void vrb_event_qp(struct ibv_qp *qp, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.qp = qp, .event_type = type },
		.object = qp,
		.mutex = &qp->mutex,
		.unacked = &qp->events_completed,
	};

	raise_event(to_vrb_context(qp->context), &e);
}

void vrb_event_srq(struct ibv_srq *srq, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.srq = srq, .event_type = type },
		.object = srq,
		.mutex = &srq->mutex,
		.unacked = &srq->events_completed,
	};

	raise_event(to_vrb_context(srq->context), &e);
}

void vrb_event_wq(struct ibv_wq *wq, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.wq = wq, .event_type = type },
		.object = wq,
		.mutex = &wq->mutex,
		.unacked = &wq->events_completed,
	};

	raise_event(to_vrb_context(wq->context), &e);
}

void vrb_event_forget(struct vrb_context *ctx, const void *object)
{
	struct vrb_event_queue *q = &ctx->events;
	struct list *pos, *tmp;

	lock_acquire(&q->lock);
	list_for_each_safe (pos, tmp, &q->events) {
		struct async_event *e = list_entry(pos, struct async_event, node);

		if (object && e->object != object)
			continue;
		vrb_event_queue_remove_locked(q, pos);
		free(e);
	}
	lock_release(&q->lock);
}

void vrb_event_delivered(pthread_mutex_t *mutex, uint32_t *unacked)
{
	pthread_mutex_lock(mutex);
	++*unacked;
	pthread_mutex_unlock(mutex);
}

void vrb_event_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *unacked, uint32_t n)
{
	pthread_mutex_lock(mutex);
	*unacked -= min(n, *unacked);
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void vrb_event_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *unacked)
{
	pthread_mutex_lock(mutex);
	while (*unacked)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

int vrb_event_get(struct vrb_context *ctx, struct ibv_async_event *event)
{
	struct async_event *e;
	struct list *node;
	int err = vrb_event_queue_take(&ctx->events, &node);

	if (err)
		return err;
	e = list_entry(node, struct async_event, node);
	/*
	 * Count the delivery before releasing the queue's lock: destruction first drops queued
	 * events, then reads the count.
	 */
	if (e->unacked)
		vrb_event_delivered(e->mutex, e->unacked);
	lock_release(&ctx->events.lock);
	*event = e->ev;
	free(e);
	return 0;
}

enum vrb_event_object vrb_event_object(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return VRB_EVENT_OF_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return VRB_EVENT_OF_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return VRB_EVENT_OF_SRQ;
	case IBV_EVENT_WQ_FATAL:
		return VRB_EVENT_OF_WQ;
	default:
		return VRB_EVENT_OF_PORT;
	}
}

void vrb_event_ack(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_wq *wq = event->element.wq;

	switch (vrb_event_object(event->event_type)) {
	case VRB_EVENT_OF_CQ:
		vrb_event_acked(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
		break;
	case VRB_EVENT_OF_QP:
		vrb_event_acked(&qp->mutex, &qp->cond, &qp->events_completed, 1);
		break;
	case VRB_EVENT_OF_SRQ:
		vrb_event_acked(&srq->mutex, &srq->cond, &srq->events_completed, 1);
		break;
	case VRB_EVENT_OF_WQ:
		vrb_event_acked(&wq->mutex, &wq->cond, &wq->events_completed, 1);
		break;
	case VRB_EVENT_OF_PORT:
		break;
	}
}
