/* SPDX-License-Identifier: BSD-2-Clause */
/* See region_map.h. */
#include "local/region_map.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "local/peer_file.h"
#include "local/segment.h"
#include "run/log.h"
#include "run/nofault.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/tuning.h"

static bool used;	/* atomic: never set back, as some thread may hold a hazard */

bool region_maps_used(void)
{
	return load_relaxed(&used);
}

static void unmap(struct region_maps *maps, struct region_map *m)
{
	if (m->base) {
		munmap(m->base, m->size);
		maps->n--;
	}
	m->base = NULL;
	m->bytes = NULL;
}

/* Call before clearing the hazard, so that an owner that has waited for it sees the number. */
static void show_number(const struct region_maps *maps, const struct peer_map *peer)
{
	store_relaxed(&peer->lane->maps, maps->n);
}

void region_maps_sweep(struct region_maps *maps, const struct peer_map *peer)
{
	for (unsigned int i = 0; i < REGION_MAP_SETS * REGION_MAP_WAYS; i++) {
		struct region_map *m = &maps->map[0][0] + i;

		if (m->edition != 0 && !region_map_lives(m)) {
			unmap(maps, m);
			m->edition = 0;
		}
	}
	show_number(maps, peer);
}

/* peer_file_open() has checked that the file contains the range, so the length is plausible. */
static int map_file(struct region_map *m, const struct peer_file *f)
{
	uint64_t skip = f->offset % f->page;
	int prot = PROT_READ | (f->writable ? PROT_WRITE : 0);
	void *base;

	m->size = (skip + m->key.length + f->page - 1) / f->page * f->page;
	base = mmap(NULL, m->size, prot, MAP_SHARED, f->fd, (off_t)(f->offset - skip));
	/* A seal may forbid new writable mappings. */
	if (base == MAP_FAILED && f->writable) {
		prot = PROT_READ;
		base = mmap(NULL, m->size, prot, MAP_SHARED, f->fd, (off_t)(f->offset - skip));
	}
	if (base == MAP_FAILED)
		return errno;
	m->base = base;
	m->bytes = (uint8_t *)base + skip;
	m->writable = prot & PROT_WRITE;
	/* Keep our peers' memory out of core dumps of this process. */
	(void)madvise(base, m->size, MADV_DONTDUMP);
	return 0;
}

/* Remote writing requires local writing; without that right, map it for reading. */
static void map_region(struct region_maps *maps, struct region_map *m, const struct peer_map *peer,
		       uint32_t access)
{
	int cancel = cancel_off(), err;
	struct peer_file f;

	err = peer_file_open(peer->pid, m->key.host, m->key.length,
			     access & IBV_ACCESS_LOCAL_WRITE, &f);
	if (err == 0) {
		vrb_guard_install();
		err = map_file(m, &f);
		close(f.fd);
	}
	maps->n += err == 0;
	show_number(maps, peer);
	store_relaxed(&used, true);
	full_fence();	/* L8: lane.maps and `used` before light fences of onesided_one() */
	log_debug(LOG_LOCAL, "region %u of process %d, %llu bytes: %s", (unsigned int)m->index,
		  (int)peer->pid, (unsigned long long)m->key.length,
		  err == 0 ? "mapped" : "reached by the kernel only");
	cancel_on(cancel);
}

/*
 * Finds a place for another region: free, or of one that has ended or is idle. NULL if all are in
 * use: a program that uses many regions in turn must not map and unmap them all the time.
 */
static struct region_map *find_place(struct region_maps *maps, uint32_t index)
{
	struct region_map *set = maps->map[index % REGION_MAP_SETS], *oldest = set;

	for (unsigned int i = 0; i < REGION_MAP_WAYS; i++) {
		if (set[i].edition == 0 || !region_map_lives(&set[i]))
			return &set[i];
		if (maps->lookups - set[i].used > maps->lookups - oldest->used)
			oldest = &set[i];
	}
	if (maps->lookups - oldest->used < LIMIT_REGION_REST)
		return NULL;
	return oldest;
}

/* Returns NULL if there is no place. */
static struct region_map *add(struct region_maps *maps, const struct peer_map *peer, uint32_t index,
			      uint32_t edition, const struct mr_entry *key)
{
	struct region_map *m;

	m = find_place(maps, index);
	if (m == NULL)
		return NULL;
	unmap(maps, m);
	m->edition = 0;
	region_maps_sweep(maps, peer);
	*m = (struct region_map){
		.index = index, .edition = edition, .wait = TUNE_REGION_USES,
		.entry = peer_map_key(peer, index), .key = *key,
	};
	return m;
}

uint8_t *region_map_find(struct region_maps *maps, const struct peer_map *peer, uint32_t index,
			 uint32_t edition, const struct mr_entry *key, enum mem_access access,
			 bool in_use)
{
	struct region_map *set = maps->map[index % REGION_MAP_SETS], *m = NULL;

	if (unlikely(++maps->lookups % LIMIT_REGION_SWEEP == 0) && !in_use)
		region_maps_sweep(maps, peer);
	for (unsigned int i = 0; m == NULL && i < REGION_MAP_WAYS; i++) {
		if (set[i].index == index && set[i].edition == edition)
			m = &set[i];
	}
	if (unlikely(m == NULL)) {
		m = in_use ? NULL : add(maps, peer, index, edition, key);
		if (m == NULL)
			return NULL;
	}
	m->used = maps->lookups;
	if (unlikely(m->wait > 0) && !in_use) {
		m->wait = access == MEM_REMOTE_ATOMIC ? 0 : m->wait - 1;
		if (m->wait == 0)
			map_region(maps, m, peer, key->access);
	}
	if (unlikely(m->bytes == NULL) || (access != MEM_REMOTE_READ && !m->writable))
		return NULL;
	/* The entry may have been overwritten by accident, so the mapped range is authoritative. */
	return likely(m->key.host == key->host && m->key.length == key->length) ? m->bytes : NULL;
}

/*
 * Are all pages present? If so, the fault was in memory of this process. Reads each page, which
 * detects truncation and pages that a full file system cannot supply.
 */
static bool is_whole(const uint8_t *at, uint64_t len)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	uint8_t byte;

	for (uint64_t i = 0; i < len; i += min(page, len - i))
		if (!vrb_guard_copy(&byte, at + i, 1))
			return false;
	return vrb_guard_copy(&byte, at + len - 1, 1);
}

void region_map_faulted(struct region_maps *maps, const void *at, uint64_t len)
{
	if (is_whole(at, len))
		return;
	for (unsigned int i = 0; i < REGION_MAP_SETS * REGION_MAP_WAYS; i++) {
		struct region_map *m = &maps->map[0][0] + i;

		if (m->bytes != NULL && (uintptr_t)at - (uintptr_t)m->bytes < m->key.length)
			unmap(maps, m);
	}
}

void region_maps_free(struct region_maps *maps)
{
	for (unsigned int i = 0; i < REGION_MAP_SETS * REGION_MAP_WAYS; i++)
		unmap(maps, &maps->map[0][0] + i);
}
