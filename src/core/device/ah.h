/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles: a resolved path, immutable after creation. Work requests copy it.
 *
 * Handles come from slabs of the context, are reused for address handles only, and oldest first. So
 * the use of a destroyed handle is detected, and touches no freed memory.
 */
#ifndef VRB_CORE_DEVICE_AH_H
#define VRB_CORE_DEVICE_AH_H

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/net.h"

struct vrb_context;
struct vrb_pd;

struct vrb_ah {
	struct ibv_ah ibv;
	struct net_path path;
	struct ibv_ah_attr attr;
	uint32_t magic;   /* VRB_AH_MAGIC while the handle exists */
	struct list node; /* in vrb_context.free_ahs when destroyed */
};

#define VRB_AH_MAGIC 0x76726168u

static inline struct vrb_ah *to_vrb_ah(struct ibv_ah *ah)
{
	return (struct vrb_ah *)ah;
}

/* Return 0 or an errno value. */
int vrb_ah_create(struct vrb_pd *pd, const struct ibv_ah_attr *attr, struct vrb_ah **ah);
int vrb_ah_destroy(struct vrb_ah *ah);

/* The attributes of a path back to the sender of a UD message. */
int vrb_ah_init_from_wc(struct vrb_context *ctx, uint8_t port_num, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr);

/* Frees the pool when the context is closed. */
void vrb_ah_free_pool(struct vrb_context *ctx);

#endif
