/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers by keys of 128 bits, several for one key: the newest first. Out of memory, the tool ends.
 */
#ifndef VRB_TOOL_TRACE_MAP_H
#define VRB_TOOL_TRACE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_NONE UINT32_MAX

struct trace_key {
	uint64_t a, b;
};

struct trace_map_entry {
	struct trace_key key;
	uint32_t value, next;	/* next: of the same bucket, or of those that are free */
};

/* All zero: empty. */
struct trace_map {
	struct trace_map_entry *entry;
	uint32_t *bucket;	/* index of an entry + 1; 0: empty */
	uint32_t n, n_buckets;	/* as many entries have room */
	uint32_t unused;	/* index of a free entry + 1 */
};

void trace_map_put(struct trace_map *m, struct trace_key key, uint32_t value);

/* The newest value of the key, TRACE_NONE: there is none; take also removes it. */
uint32_t trace_map_get(const struct trace_map *m, struct trace_key key);
uint32_t trace_map_take(struct trace_map *m, struct trace_key key);

void trace_map_free(struct trace_map *m);

#endif
