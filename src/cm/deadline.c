/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of all conns in a pairing heap that is linked through the conns themselves.  The
 * earliest is the root.  `child` is the first of a node's children, which are linked by next and
 * prev; prev of the first child is the parent.
 */
#include "cm/parts.h"

static struct cm_conn *meld(struct cm_conn *a, struct cm_conn *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->deadline < a->deadline) {
		struct cm_conn *later = a;

		a = b;
		b = later;
	}
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	b->prev = a;
	a->child = b;
	return a;
}

/* Melds a list of heaps into one: adjacent ones in pairs, then the pairs from last to first. */
static struct cm_conn *meld_all(struct cm_conn *first)
{
	struct cm_conn *pairs = NULL, *heap = NULL;

	while (first) {
		struct cm_conn *a = first, *b = a->next;

		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct cm_conn *a = pairs;

		pairs = a->next;
		a->next = NULL;
		heap = meld(heap, a);
	}
	return heap;
}

/* Unlinks a node other than the root from its parent or previous sibling. */
static void cut(struct cm_conn *c)
{
	if (c->prev->child == c)
		c->prev->child = c->next;
	else
		c->prev->next = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

void cm_deadline_clear(struct cm *cm, struct cm_conn *c)
{
	struct cm_conn *rest;

	if (c->deadline == VRB_NEVER)
		return;
	rest = meld_all(c->child);
	if (cm->deadlines == c) {
		cm->deadlines = rest;
	} else {
		cut(c);
		cm->deadlines = meld(cm->deadlines, rest);
	}
	c->child = c->next = c->prev = NULL;
	c->deadline = VRB_NEVER;
}

void cm_deadline_set(struct cm *cm, struct cm_conn *c, uint64_t at)
{
	cm_deadline_clear(cm, c);
	if (at == VRB_NEVER)
		return;
	c->deadline = at;
	cm->deadlines = meld(cm->deadlines, c);
}

uint64_t cm_next_timeout(const struct cm *cm)
{
	return cm->deadlines ? cm->deadlines->deadline : VRB_NEVER;
}
