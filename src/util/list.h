/* SPDX-License-Identifier: BSD-2-Clause */
/* Intrusive doubly linked list with a head; an unlinked node points to itself. */
#ifndef VRB_UTIL_LIST_H
#define VRB_UTIL_LIST_H

#include <stdbool.h>

#include "util/compiler.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	node->next = head;
	node->prev = head->prev;
	head->prev->next = node;
	head->prev = node;
}

/* Unlinks and leaves the node pointing to itself, so that a second removal is harmless. */
static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Moves all nodes of `from` to the end of `head`. */
static inline void list_splice_tail(struct list *head, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)

#define list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)

/* The body may unlink pos. */
#define list_for_each_safe(pos, tmp, head)                                                         \
	for (pos = (head)->next, tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

#endif
