/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mem/pd_senders.h"

#include <stddef.h>

#include "util/atomic.h"

void pd_senders_init(struct pd_senders *s)
{
	lock_init(&s->lock);
	list_init(&s->list);
	s->n = 0;
}

void pd_senders_add(struct pd_senders *s, struct list *node)
{
	lock_acquire(&s->lock);
	list_add_tail(&s->list, node);
	store_relaxed(&s->n, s->n + 1);
	lock_release(&s->lock);
}

/* Must hold the lock. */
static void unlink_node(struct pd_senders *s, struct list *node)
{
	list_del(node);
	store_relaxed(&s->n, s->n - 1);
}

struct list *pd_senders_take(struct pd_senders *s)
{
	struct list *node = NULL;

	lock_acquire(&s->lock);
	if (!list_empty(&s->list)) {
		node = s->list.next;
		unlink_node(s, node);
	}
	lock_release(&s->lock);
	return node;
}

uint32_t pd_senders_number(struct pd_senders *s)
{
	uint32_t n;

	lock_acquire(&s->lock);
	n = s->n;
	lock_release(&s->lock);
	return n;
}

void pd_senders_remove(struct pd_senders *s, struct list *node)
{
	lock_acquire(&s->lock);
	if (!list_empty(node))
		unlink_node(s, node);
	lock_release(&s->lock);
}
