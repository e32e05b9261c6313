/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace_map.h"

#include <stdlib.h>

#include "tool.h"
#include "util/hash.h"

enum { FIRST_ROOM = 1024 };

static uint32_t *bucket_of(const struct trace_map *m, struct trace_key key)
{
	return &m->bucket[hash_mix(hash_mix(key.a) ^ key.b) & (m->n_buckets - 1)];
}

static void *need(void *p)
{
	if (!p)
		exit(complain(EXIT_FAILED, "out of memory"));
	return p;
}

/* Puts the entries of a bucket, `first` and what follows, into the new ones, the oldest first. */
static void move_bucket(struct trace_map *m, uint32_t first)
{
	uint32_t oldest = 0, next;

	for (uint32_t i = first; i; i = next) {
		next = m->entry[i - 1].next;
		m->entry[i - 1].next = oldest;
		oldest = i;
	}
	for (uint32_t i = oldest; i; i = next) {
		uint32_t *b = bucket_of(m, m->entry[i - 1].key);

		next = m->entry[i - 1].next;
		m->entry[i - 1].next = *b;
		*b = i;
	}
}

/* Twice the room. */
static void grow(struct trace_map *m)
{
	uint32_t *old = m->bucket, n = m->n_buckets;

	m->n_buckets = n ? 2 * n : FIRST_ROOM;
	m->entry = need(realloc(m->entry, m->n_buckets * sizeof(*m->entry)));
	m->bucket = need(calloc(m->n_buckets, sizeof(*m->bucket)));
	for (uint32_t i = 0; i < n; i++)
		move_bucket(m, old[i]);
	free(old);
}

void trace_map_put(struct trace_map *m, struct trace_key key, uint32_t value)
{
	uint32_t i, *b;

	if (!m->unused && m->n == m->n_buckets)
		grow(m);
	if (m->unused) {
		i = m->unused - 1;
		m->unused = m->entry[i].next;
	} else {
		i = m->n++;
	}
	b = bucket_of(m, key);
	m->entry[i] = (struct trace_map_entry){ key, value, *b };
	*b = i + 1;
}

/* The link to the key's entry; it is 0 if there is none. NULL: the map is empty. */
static uint32_t *find(const struct trace_map *m, struct trace_key key)
{
	uint32_t *link;

	if (!m->n_buckets)
		return NULL;
	for (link = bucket_of(m, key); *link; link = &m->entry[*link - 1].next) {
		const struct trace_map_entry *e = &m->entry[*link - 1];

		if (e->key.a == key.a && e->key.b == key.b)
			break;
	}
	return link;
}

uint32_t trace_map_get(const struct trace_map *m, struct trace_key key)
{
	uint32_t *link = find(m, key);

	return link && *link ? m->entry[*link - 1].value : TRACE_NONE;
}

uint32_t trace_map_take(struct trace_map *m, struct trace_key key)
{
	uint32_t i, *link = find(m, key);

	if (!link || !*link)
		return TRACE_NONE;
	i = *link - 1;
	*link = m->entry[i].next;
	m->entry[i].next = m->unused;
	m->unused = i + 1;
	return m->entry[i].value;
}

void trace_map_free(struct trace_map *m)
{
	free(m->entry);
	free(m->bucket);
}
