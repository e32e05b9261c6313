/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/mad_queue.h"

#include <stdlib.h>
#include <string.h>

#include "core/mad/exit_mad.h"
#include "host/host.h"
#include "util/lock.h"

static struct {
	struct lock lock;
	struct list mads;		/* struct queued_mad */
	unsigned int n, kept;
	unsigned int waiting[HOST_SLOTS];	/* for a process, those taken included */
} queue = { .mads = { &queue.mads, &queue.mads } };

static struct queued_mad *copy_of(const struct queued_mad *p)
{
	struct queued_mad *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *p;
	copy->kept = false;
	copy->exit_mad = 0;
	return copy;
}

/* Must hold the lock, as must the next four. */
static void link_last(struct queued_mad *p)
{
	list_add_tail(&queue.mads, &p->node);
	queue.n++;
	queue.kept += p->kept;
}

static void unlink_mad(struct queued_mad *p)
{
	list_del(&p->node);
	queue.n--;
	queue.kept -= p->kept;
}

static void count_waiting(int slot, int n)
{
	if (slot >= 0)
		queue.waiting[slot] += (unsigned int)n;
}

static void append(struct queued_mad *p)
{
	link_last(p);
	count_waiting(p->slot, 1);
}

/* The first that is not kept, if others may have its place. It is unlinked. */
static struct queued_mad *take_overdue(uint64_t now)
{
	struct list *pos;

	list_for_each (pos, &queue.mads) {
		struct queued_mad *p = list_entry(pos, struct queued_mad, node);

		if (p->kept)
			continue;
		if (now < p->until)
			break;
		unlink_mad(p);
		count_waiting(p->slot, -1);
		return p;
	}
	return NULL;
}

bool vrb_mad_queue_add(const struct queued_mad *p, unsigned int limit, uint64_t now)
{
	struct queued_mad *copy = copy_of(p), *overdue = NULL;
	bool room;

	if (!copy)
		return false;
	lock_acquire(&queue.lock);
	if (queue.n - queue.kept >= limit)
		overdue = take_overdue(now);
	room = queue.n - queue.kept < limit;
	if (room)
		append(copy);
	lock_release(&queue.lock);
	free(overdue);
	if (!room)
		free(copy);
	return room;
}

bool vrb_mad_queue_keep(const struct queued_mad *p, uint32_t comm_id)
{
	struct queued_mad *copy = copy_of(p);

	if (!copy)
		return false;
	if (!vrb_exit_mad_add(comm_id, copy->slot, &copy->path, copy->mad, &copy->exit_mad)) {
		free(copy);
		return true;
	}
	copy->kept = true;
	lock_acquire(&queue.lock);
	append(copy);
	lock_release(&queue.lock);
	return true;
}

unsigned int vrb_mad_queue_length(void)
{
	unsigned int n;

	lock_acquire(&queue.lock);
	n = queue.n;
	lock_release(&queue.lock);
	return n;
}

unsigned int vrb_mad_queue_limited(void)
{
	unsigned int n;

	lock_acquire(&queue.lock);
	n = queue.n - queue.kept;
	lock_release(&queue.lock);
	return n;
}

bool vrb_mad_queue_any_for(int slot)
{
	bool any;

	lock_acquire(&queue.lock);
	any = queue.waiting[slot] != 0;
	lock_release(&queue.lock);
	return any;
}

struct queued_mad *vrb_mad_queue_take(void)
{
	struct queued_mad *p = NULL;

	lock_acquire(&queue.lock);
	if (!list_empty(&queue.mads)) {
		p = list_entry(queue.mads.next, struct queued_mad, node);
		unlink_mad(p);
	}
	lock_release(&queue.lock);
	return p;
}

void vrb_mad_queue_put_back(struct queued_mad *p)
{
	lock_acquire(&queue.lock);
	link_last(p);
	lock_release(&queue.lock);
}

void vrb_mad_queue_drop(struct queued_mad *p)
{
	lock_acquire(&queue.lock);
	count_waiting(p->slot, -1);
	lock_release(&queue.lock);
	vrb_exit_mad_del(p->exit_mad);
	free(p);
}

void vrb_mad_queue_forget_exit_mads(void)
{
	struct list *pos;

	lock_acquire(&queue.lock);
	list_for_each (pos, &queue.mads)
		list_entry(pos, struct queued_mad, node)->exit_mad = 0;
	lock_release(&queue.lock);
}

void vrb_mad_queue_clear(void)
{
	struct queued_mad *p;

	while ((p = vrb_mad_queue_take()))
		vrb_mad_queue_drop(p);
}

void vrb_mad_queue_forget(void)
{
	list_init(&queue.mads);
	queue.n = queue.kept = 0;
	memset(queue.waiting, 0, sizeof(queue.waiting));
	lock_renew(&queue.lock);
}
