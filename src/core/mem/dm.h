/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a memfd that programs reach through the copy calls, through regions, or by
 * exporting it.
 *
 * It can have several handles: one from ibv_alloc_dm and others from ibv_import_dm. Freeing any of
 * them frees the memory for all, as for domains (pd.h); the others may then only be unimported.
 */
#ifndef VRB_CORE_MEM_DM_H
#define VRB_CORE_MEM_DM_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"

struct vrb_context;

struct dm_memory {
	uint32_t refs;    /* atomic: handles and regions */
	uint32_t regions; /* atomic: while not 0, freeing returns EBUSY */
	bool freed;       /* through one of its handles */
	int fd;
	uint8_t *mem;
	void *reserved; /* the address range reserved around mem */
	size_t reserved_len;
	uint64_t length;
};

struct vrb_dm {
	struct ibv_dm ibv;
	struct list node; /* vrb_context.dms */
	struct dm_memory *memory;
	uint64_t charged; /* bytes of its context's limit; an imported handle has none */
};

static inline struct vrb_dm *to_vrb_dm(struct ibv_dm *dm)
{
	return (struct vrb_dm *)dm;
}

/* Is the range within the memory? */
static inline bool dm_memory_has(const struct dm_memory *m, uint64_t offset, size_t length)
{
	return offset <= m->length && length <= m->length - offset;
}

/* Called when a region on the memory is registered or deregistered. */
void dm_memory_get(struct dm_memory *m);
void dm_memory_put(struct dm_memory *m);

/* Return 0 or an errno value. */
int vrb_dm_alloc(struct vrb_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vrb_dm **dm);
int vrb_dm_free(struct vrb_dm *dm);
int vrb_dm_export(struct vrb_dm *dm, int *fd); /* returns a duplicate */
int vrb_dm_import(struct vrb_context *ctx, uint32_t handle, struct vrb_dm **dm);
void vrb_dm_unimport(struct vrb_dm *dm);

#endif
