/* SPDX-License-Identifier: BSD-2-Clause */
/* The asynchronous events of a context. */
#include "core/cq/async_event.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/context.h"
#include "core/base/event_queue.h"
#include "core/base/limits.h"
#include "core/base/tap.h"
#include "run/log.h"
#include "util/compiler.h"

enum {
	ACK_LONG_S = 2,		/* another thread acknowledges sooner */
};

/* A queued asynchronous event. */
struct async_event {
	struct list node;
	struct ibv_async_event ev;
	const void *object; /* NULL: unaffiliated */
	struct vrb_event_acks *acks;
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

void vrb_event_cq(struct ibv_cq *cq, struct vrb_event_acks *acks, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.cq = cq, .event_type = type },
		.object = cq,
		.acks = acks,
	};

	raise_event(to_vrb_context(cq->context), &e);
}

void vrb_event_qp(struct ibv_qp *qp, struct vrb_event_acks *acks, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.qp = qp, .event_type = type },
		.object = qp,
		.acks = acks,
	};

	raise_event(to_vrb_context(qp->context), &e);
}

void vrb_event_srq(struct ibv_srq *srq, struct vrb_event_acks *acks, enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.srq = srq, .event_type = type },
		.object = srq,
		.acks = acks,
	};

	raise_event(to_vrb_context(srq->context), &e);
}

void vrb_event_wq(struct ibv_wq *wq, const struct ibv_qp *qp, struct vrb_event_acks *acks,
		  enum ibv_event_type type)
{
	struct async_event e = {
		.ev = { .element.wq = wq, .event_type = type },
		.object = qp,
		.acks = acks,
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

void vrb_event_acks_init(struct vrb_event_acks *acks, pthread_mutex_t *mutex, pthread_cond_t *cond,
			 uint32_t *completed)
{
	*acks = (struct vrb_event_acks){ .mutex = mutex, .cond = cond, .completed = completed };
}

void vrb_event_delivered(struct vrb_event_acks *acks)
{
	pthread_mutex_lock(acks->mutex);
	acks->missing++;
	pthread_mutex_unlock(acks->mutex);
}

void vrb_event_acked(struct vrb_event_acks *acks, uint32_t n)
{
	pthread_mutex_lock(acks->mutex);
	n = min(n, acks->missing);
	acks->missing -= n;
	*acks->completed += n;
	pthread_cond_broadcast(acks->cond);
	pthread_mutex_unlock(acks->mutex);
}

void vrb_event_wait_acked(struct vrb_event_acks *acks)
{
	struct timespec end;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);	/* that of a condition variable */
	end.tv_sec += ACK_LONG_S;
	pthread_mutex_lock(acks->mutex);
	while (acks->missing && !err)
		err = pthread_cond_timedwait(acks->cond, acks->mutex, &end);
	if (acks->missing)
		log_warn(LOG_CORE,
			 "the destruction of a CQ, QP, SRQ or WQ waits for the program to "
			 "acknowledge %u of its events: ibv_ack_cq_events(), "
			 "ibv_ack_async_event()",
			 acks->missing);
	while (acks->missing)
		pthread_cond_wait(acks->cond, acks->mutex);
	pthread_mutex_unlock(acks->mutex);
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
	if (e->acks)
		vrb_event_delivered(e->acks);
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
