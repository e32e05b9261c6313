/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariant under q->lock: queued nodes == eventfd count + takers that have read a count but not
 * yet taken a node. A taker that finds the list empty lost its node to
 * vrb_event_queue_remove_locked() and retries.
 */
#include "core/base/event_queue.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "util/cancel.h"

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
	/* Cannot fail or block: the counter's maximum is 2^64 - 2. */
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

/*
 * Takes one count from the eventfd without blocking. Returns false if a taker already has it or
 * the kernel lacks RWF_NOWAIT.
 */
static bool take_count(struct vrb_event_queue *q)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	return sys_preadv2_here(q->fd, &iov, 1, RWF_NOWAIT) >= 0;
}

void vrb_event_queue_remove_locked(struct vrb_event_queue *q, struct list *node)
{
	list_del(node);
	/*
	 * On failure, a taker finds the list empty and retries; on an old kernel, the next taker
	 * wakes up once for nothing.
	 */
	if (!take_count(q))
		return;
}

void vrb_event_queue_touch_locked(struct vrb_event_queue *q)
{
	uint64_t one = 1;

	/* On failure the count is 0: a taker has read it and is about to take the node. */
	if (!take_count(q))
		return;
	if (sys_write(q->fd, &one, sizeof(one)) < 0)
		return;
}
