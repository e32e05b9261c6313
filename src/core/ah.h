/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: a resolved path, immutable after creation. */
#ifndef VRB_CORE_AH_H
#define VRB_CORE_AH_H

#include <infiniband/verbs.h>

#include "util/net.h"

struct vrb_ah {
	struct ibv_ah ibv;
	struct net_path path;
	struct ibv_ah_attr attr;
	uint32_t magic;		/* VRB_AH_MAGIC while it lives */
};

#define VRB_AH_MAGIC 0x76726168u

static inline struct vrb_ah *to_vrb_ah(struct ibv_ah *ah)
{
	return (struct vrb_ah *)ah;
}

#endif
