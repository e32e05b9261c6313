/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A binary heap of pointers.  slot is the position + 1, or 0 outside the heap. Every added timer
 * has a reserved place, armed or not: capacity >= added.
 */
#include "run/timers.h"

#include <errno.h>
#include <stdlib.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/lock.h"

enum { NOT_ADDED = 0, NOT_ARMED = UINT32_MAX };

struct timers *timers_new(void)
{
	struct timers *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return NULL;
	lock_init(&ts->lock);
	ts->next = VRB_NEVER;
	return ts;
}

void timers_free(struct timers *ts)
{
	if (!ts)
		return;
	lock_destroy(&ts->lock);
	free(ts->heap);
	free(ts);
}

static void place(struct timers *ts, uint32_t i, struct timer *t)
{
	ts->heap[i] = t;
	t->slot = i + 1;
}

static void sift_up(struct timers *ts, uint32_t i, struct timer *t)
{
	while (i > 0) {
		uint32_t parent = (i - 1) / 2;

		if (ts->heap[parent]->at <= t->at)
			break;
		place(ts, i, ts->heap[parent]);
		i = parent;
	}
	place(ts, i, t);
}

static void sift_down(struct timers *ts, uint32_t i, struct timer *t)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= ts->n)
			break;
		if (child + 1 < ts->n && ts->heap[child + 1]->at < ts->heap[child]->at)
			child++;
		if (t->at <= ts->heap[child]->at)
			break;
		place(ts, i, ts->heap[child]);
		i = child;
	}
	place(ts, i, t);
}

static void publish(struct timers *ts)
{
	store_relaxed(&ts->next, ts->n ? ts->heap[0]->at : VRB_NEVER);
}

static bool is_armed(const struct timer *t)
{
	return t->slot != NOT_ADDED && t->slot != NOT_ARMED;
}

/* Removes an armed timer from the heap; the last one fills the gap and moves up or down. */
static void disarm(struct timers *ts, struct timer *t)
{
	uint32_t i = t->slot - 1;
	struct timer *last = ts->heap[--ts->n];

	store_relaxed(&t->at, VRB_NEVER);
	t->slot = NOT_ARMED;
	if (last != t) {
		if (i > 0 && ts->heap[(i - 1) / 2]->at > last->at)
			sift_up(ts, i, last);
		else
			sift_down(ts, i, last);
	}
	publish(ts);
}

static int reserve(struct timers *ts)
{
	uint32_t capacity = ts->capacity ? 2 * ts->capacity : 16;
	struct timer **heap;

	if (ts->added < ts->capacity)
		return 0;
	heap = realloc(ts->heap, capacity * sizeof(struct timer *));
	if (!heap)
		return ENOMEM;
	ts->heap = heap;
	ts->capacity = capacity;
	return 0;
}

int timers_add(struct timers *ts, struct timer *t)
{
	int err;

	lock_acquire(&ts->lock);
	err = reserve(ts);
	if (!err) {
		ts->added++;
		t->slot = NOT_ARMED;
		t->at = VRB_NEVER;
	}
	lock_release(&ts->lock);
	return err;
}

void timers_remove(struct timers *ts, struct timer *t)
{
	lock_acquire(&ts->lock);
	if (is_armed(t))
		disarm(ts, t);
	if (t->slot != NOT_ADDED)
		ts->added--;
	t->slot = NOT_ADDED;
	lock_release(&ts->lock);
}

bool timers_arm(struct timers *ts, struct timer *t, uint64_t at)
{
	bool first;

	/*
	 * A stale value is harmless: if the timer was popped meanwhile, the popper has yet to check
	 * the owner.
	 */
	if (at >= load_relaxed(&t->at))
		return false;
	lock_acquire(&ts->lock);
	at = max(at, ts->popped_until + 1);
	first = at < load_relaxed(&ts->next);
	if (at < t->at && t->slot != NOT_ADDED) {
		uint32_t i = is_armed(t) ? t->slot - 1 : ts->n++;

		store_relaxed(&t->at, at);
		sift_up(ts, i, t);
		publish(ts);
	}
	lock_release(&ts->lock);
	return first;
}

struct timer *timers_pop(struct timers *ts, uint64_t now)
{
	struct timer *t = NULL;

	if (!time_reached(load_relaxed(&ts->next), now))
		return NULL;
	lock_acquire(&ts->lock);
	if (ts->n && time_reached(ts->heap[0]->at, now)) {
		t = ts->heap[0];
		disarm(ts, t);
		ts->popped_until = max(ts->popped_until, now);
	}
	lock_release(&ts->lock);
	return t;
}
