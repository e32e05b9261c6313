/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a memfd that programs reach through the copy calls, through regions, or by
 * exporting it.
 */
#ifndef VRB_CORE_MEM_DM_H
#define VRB_CORE_MEM_DM_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"

struct vrb_context;

struct vrb_dm {
	struct ibv_dm ibv;
	struct list node;      /* vrb_context.dms */
	struct vrb_dm *origin; /* imported handle: the owner of the memory */
	int fd;
	uint8_t *mem;
	void *reserved; /* the address range reserved around mem */
	size_t reserved_len;
	uint64_t length;
	uint32_t users; /* atomic: regions, also those made with an import, and imports */
};

static inline struct vrb_dm *to_vrb_dm(struct ibv_dm *dm)
{
	return (struct vrb_dm *)dm;
}

/* Return 0 or an errno value. */
int vrb_dm_alloc(struct vrb_context *ctx, const struct ibv_alloc_dm_attr *attr, struct vrb_dm **dm);
int vrb_dm_free(struct vrb_dm *dm);
int vrb_dm_export(struct vrb_dm *dm, int *fd); /* returns a duplicate */
int vrb_dm_import(struct vrb_context *ctx, uint32_t handle, struct vrb_dm **dm);
void vrb_dm_unimport(struct vrb_dm *dm);

#endif
