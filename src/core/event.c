/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues behind eventfds, and the asynchronous events of a context.
 *
 * Invariant, under q->lock: queued nodes == count of the eventfd + takers that have read a count
 * and not yet a node.  A taker that finds the list empty lost its node to
 * vrb_event_queue_remove_locked() and starts over.
 */
#include "core/event.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/context.h"
#include "run/log.h"
#include "util/cancel.h"

/* A queued asynchronous event. */
struct async_event {
	struct list node;
	struct ibv_async_event ev;
	const void *object; /* NULL: unaffiliated */
	pthread_mutex_t *mutex;
	uint32_t *unacked;
};

int vrb_event_queue_init(struct vrb_event_queue *q)
{
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (q->fd < 0)
		return errno;
	lock_init(&q->lock);
	list_init(&q->events);
	return 0;
}

void vrb_event_queue_destroy(struct vrb_event_queue *q)
{
	close(q->fd);
	lock_destroy(&q->lock);
}

void vrb_event_queue_push_locked(struct vrb_event_queue *q, struct list *node)
{
	uint64_t one = 1;

	list_add_tail(&q->events, node);
	/* Cannot fail or block: the counter holds 2^64 - 2. */
	if (sys_write(q->fd, &one, sizeof(one)) < 0)
		return;
}

bool vrb_event_queue_push(struct vrb_event_queue *q, struct list *node)
{
	bool open;

	lock_acquire(&q->lock);
	open = q->fd >= 0;
	if (open)
		vrb_event_queue_push_locked(q, node);
	lock_release(&q->lock);
	return open;
}

void vrb_event_queue_close(struct vrb_event_queue *q)
{
	lock_acquire(&q->lock);
	close(q->fd);
	q->fd = -1;
	lock_release(&q->lock);
}

int vrb_event_queue_take(struct vrb_event_queue *q, struct list **node)
{
	uint64_t count;

	for (;;) {
		if (read(q->fd, &count, sizeof(count)) < 0)
			return errno;
		lock_acquire(&q->lock);
		if (!list_empty(&q->events)) {
			*node = q->events.next;
			list_del(*node);
			return 0;
		}
		lock_release(&q->lock);
	}
}

/* One off the eventfd, without sleeping. False: a taker has it already, or the kernel is too old. */
static bool take_count(struct vrb_event_queue *q)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	return sys_preadv2_here(q->fd, &iov, 1, RWF_NOWAIT) >= 0;
}

void vrb_event_queue_remove_locked(struct vrb_event_queue *q, struct list *node)
{
	list_del(node);
	/* Where that fails, a taker will find out; on an old kernel the next one wakes up once for nothing. */
	if (!take_count(q))
		return;
}

void vrb_event_queue_touch_locked(struct vrb_event_queue *q)
{
	uint64_t one = 1;

	/* Where it fails because of a taker, that one pushes what is left, which is an edge as well. */
	if (!take_count(q))
		return;
	if (sys_write(q->fd, &one, sizeof(one)) < 0)
		return;
}

static void raise_event(struct vrb_context *ctx, const struct async_event *proto)
{
	struct async_event *e = malloc(sizeof(*e));

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

	/* DEVICE_FATAL belongs to the device, all others of this kind to the one port. */
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
	 * Counted before the queue's lock is released: whoever destroys the object forgets first
	 * and then reads the count.
	 */
	if (e->unacked)
		vrb_event_delivered(e->mutex, e->unacked);
	lock_release(&ctx->events.lock);
	*event = e->ev;
	free(e);
	return 0;
}

void vrb_event_ack(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *cq = event->element.cq;

		vrb_event_acked(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
		return;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *qp = event->element.qp;

		vrb_event_acked(&qp->mutex, &qp->cond, &qp->events_completed, 1);
		return;
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *srq = event->element.srq;

		vrb_event_acked(&srq->mutex, &srq->cond, &srq->events_completed, 1);
		return;
	}
	case IBV_EVENT_WQ_FATAL: {
		struct ibv_wq *wq = event->element.wq;

		vrb_event_acked(&wq->mutex, &wq->cond, &wq->events_completed, 1);
		return;
	}
	default:
		return;
	}
}
