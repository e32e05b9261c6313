/* SPDX-License-Identifier: BSD-2-Clause */
/* The matching list; tag_list.h documents the interface. */
#include "wq/tag_list.h"

#include <errno.h>
#include <stdlib.h>

enum tag_state {
	TAG_FREE,
	TAG_LISTED,	/* listed or waiting */
	TAG_TAKEN,
};

enum {
	MIN_BUCKET_BITS = 4,
	GENERATION_SHIFT = 16,
};

static uint32_t bucket_bits(uint32_t n)
{
	uint32_t bits = MIN_BUCKET_BITS;

	while (1u << bits < n)
		bits++;
	return bits;
}

int tags_init(struct tags *t, uint32_t n)
{
	uint32_t bits = bucket_bits(n);

	*t = (struct tags){ .n = n, .bucket_shift = 64 - bits };
	t->slot = calloc(n, sizeof(*t->slot));
	t->bucket = calloc(1u << bits, sizeof(*t->bucket));
	if (!t->slot || !t->bucket) {
		tags_free(t);
		return ENOMEM;
	}
	list_init(&t->masked);
	list_init(&t->waiting);
	list_init(&t->free);
	for (uint32_t i = 0; i < 1u << bits; i++)
		list_init(&t->bucket[i]);
	for (uint32_t i = 0; i < n; i++)
		list_add_tail(&t->free, &t->slot[i].node);
	return 0;
}

void tags_free(struct tags *t)
{
	free(t->slot);
	free(t->bucket);
}

static struct tag *first(const struct list *l)
{
	return list_empty(l) ? NULL : list_entry(l->next, struct tag, node);
}

/* Fibonacci hashing: the high bits of the product depend on all bits of the value. */
static struct list *bucket_of(const struct tags *t, uint64_t value)
{
	return &t->bucket[value * 0x9e3779b97f4a7c15ull >> t->bucket_shift];
}

/* The list for the tag while it is listed. */
static struct list *home_of(struct tags *t, const struct tag *tag)
{
	return tag->mask == UINT64_MAX ? bucket_of(t, tag->value) : &t->masked;
}

/* Lists the waiting tags if list and program are in step. */
static void keep_step(struct tags *t)
{
	struct list *pos, *next;

	if (!tags_in_step(t))
		return;
	list_for_each_safe (pos, next, &t->waiting) {
		struct tag *tag = list_entry(pos, struct tag, node);

		list_del(pos);
		list_add_tail(home_of(t, tag), pos);
	}
}

struct tag *tags_add(struct tags *t, uint64_t value, uint64_t mask)
{
	struct tag *tag = first(&t->free);

	if (!tag)
		return NULL;
	list_del(&tag->node);
	tag->value = value;
	tag->mask = mask;
	tag->order = t->next_order++;
	tag->generation++;
	tag->state = TAG_LISTED;
	list_add_tail(tags_in_step(t) ? home_of(t, tag) : &t->waiting, &tag->node);
	return tag;
}

uint32_t tags_handle(const struct tags *t, const struct tag *tag)
{
	return (uint32_t)(tag - t->slot) | (uint32_t)tag->generation << GENERATION_SHIFT;
}

void tags_release(struct tags *t, struct tag *tag)
{
	list_del(&tag->node);
	tag->state = TAG_FREE;
	list_add_tail(&t->free, &tag->node);
}

bool tags_delete(struct tags *t, uint32_t handle)
{
	struct tag *tag;

	if (!tags_has(t, handle))
		return false;
	tag = &t->slot[handle & 0xffff];
	if (tag->state != TAG_LISTED || tag->generation != handle >> GENERATION_SHIFT)
		return false;
	tags_release(t, tag);
	return true;
}

static struct tag *find(const struct list *l, uint64_t message)
{
	struct list *pos;

	list_for_each (pos, l) {
		struct tag *tag = list_entry(pos, struct tag, node);

		if ((message & tag->mask) == tag->value)
			return tag;
	}
	return NULL;
}

struct tag *tags_match(struct tags *t, uint64_t message)
{
	struct tag *tag = find(bucket_of(t, message), message);
	struct tag *masked = find(&t->masked, message);

	if (!tag || (masked && masked->order < tag->order))
		tag = masked;
	if (!tag)
		return NULL;
	list_del(&tag->node);
	tag->state = TAG_TAKEN;
	return tag;
}

void tags_return(struct tags *t, struct tag *tag)
{
	struct list *pos, *home = home_of(t, tag);

	list_for_each (pos, home)
		if (list_entry(pos, struct tag, node)->order > tag->order)
			break;
	list_del(&tag->node);
	list_add_tail(pos, &tag->node);	/* before pos */
	tag->state = TAG_LISTED;
}

void tags_count(struct tags *t)
{
	t->unexpected++;
}

void tags_uncount(struct tags *t)
{
	t->unexpected--;
	keep_step(t);
}

void tags_handled(struct tags *t, uint16_t count)
{
	t->handled = count;
	keep_step(t);
}
