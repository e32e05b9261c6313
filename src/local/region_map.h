/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer's regions that this process has mapped: memory that the owner shares through a file.
 * Mapped memory is read and written without a system call.
 *
 * A region is mapped at its first atomic, so that atomics are locked instructions, or after
 * TUNE_REGION_USES accesses, when a mapping pays. It stays mapped while its key's edition
 * (wq/key.h) shows that it is registered. An edition that could not be mapped is recorded as such.
 * The mapping of an ended region is removed when another region is mapped, after LIMIT_REGION_SWEEP
 * lookups, when the owner rings because a region has ended (local_region_ended()), and when the
 * last QP stops using the peer or the peer dies (peer_unmap_regions()).
 *
 * As on a NIC, a mapping keeps the pages that the region had at registration: it does not follow
 * the owner's later munmap() or mremap(). Only truncation takes pages away, so every access must be
 * guarded (run/nofault.h).
 *
 * A mapping is used only while a hazard on its key is set (L8). Must hold peer->lock.
 */
#ifndef VRB_LOCAL_REGION_MAP_H
#define VRB_LOCAL_REGION_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"
#include "wq/key.h"

struct peer_map;

enum {
	REGION_MAP_SETS = 16,
	REGION_MAP_WAYS = 4,
};

struct region_map {
	uint32_t index;		/* of the key */
	uint32_t edition;	/* 0: free */
	uint32_t used;		/* value of region_maps.lookups at the last use */
	uint32_t wait;		/* accesses left until it is mapped; 0: that was tried */
	bool writable;
	uint8_t *bytes;		/* our address of the byte at key.host; NULL: not mapped */
	const struct mr_entry *entry;	/* in the owner's table */
	struct mr_entry key;	/* what the owner has published for this edition */
	void *base;		/* the mapping, of whole pages */
	size_t size;
};

/* The mappings of one peer. All zero: none yet. */
struct region_maps {
	uint32_t lookups;
	uint32_t n;		/* number of mappings; published as lane.maps */
	struct region_map map[REGION_MAP_SETS][REGION_MAP_WAYS];
};

/*
 * Returns our address of the byte at key->host, from which key->length bytes can be accessed; NULL
 * if they cannot. key is a copy of the live entry at `index`, which is a region with an edition
 * other than 0.
 *
 * Makes system calls and removes other mappings, unless `in_use` says that the caller still uses
 * addresses of an earlier call: their regions may have ended meanwhile, and another mapping could
 * take their place.
 */
uint8_t *region_map_find(struct region_maps *maps, const struct peer_map *peer, uint32_t index,
			 uint32_t edition, const struct mr_entry *key, enum mem_access access,
			 bool in_use);

/* Does the key still name the mapped registration? */
static inline bool region_map_lives(const struct region_map *m)
{
	return load_acquire(&m->entry->refs) == (MR_LIVE | m->edition);
}

/*
 * The same for a key whose region is mapped already, without a copy of its entry; NULL: call
 * region_map_find(). The caller checks ->key, then sets the hazard and sees that ->edition lives.
 * ->bytes is valid.
 */
static inline const struct region_map *region_map_known(struct region_maps *maps, uint32_t index,
							enum mem_access access)
{
	struct region_map *set = maps->map[index % REGION_MAP_SETS];

	if (unlikely((maps->lookups + 1) % LIMIT_REGION_SWEEP == 0))
		return NULL;
	for (unsigned int i = 0; i < REGION_MAP_WAYS; i++) {
		struct region_map *m = &set[i];

		if (m->index != index || m->bytes == NULL)
			continue;
		m->used = ++maps->lookups;
		return m->writable || access == MEM_REMOTE_READ ? m : NULL;
	}
	return NULL;
}

/*
 * A copy from or to our [at, at + len), len > 0, faulted. If the region caused the fault, it is
 * recorded as one that cannot be mapped.
 */
void region_map_faulted(struct region_maps *maps, const void *at, uint64_t len);

/* Removes the mappings of ended regions. The caller must not use an address within one of them. */
void region_maps_sweep(struct region_maps *maps, const struct peer_map *peer);

void region_maps_free(struct region_maps *maps);

/* Has this process ever mapped a region? */
bool region_maps_used(void);

#endif
