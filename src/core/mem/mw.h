/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows, type 1 (bound by ibv_bind_mw) and type 2B (bound by a work request of a QP). */
#ifndef VRB_CORE_MEM_MW_H
#define VRB_CORE_MEM_MW_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/live_objects.h"

struct send_wqe;
struct vrb_mr_waits;
struct vrb_pd;

struct vrb_mw {
	struct ibv_mw ibv;
	uint32_t index; /* in the key table */
	uint32_t key;   /* names the window in queued binds; see mw.c */
	struct vrb_live live;
};

static inline struct vrb_mw *to_vrb_mw(struct ibv_mw *mw)
{
	return (struct vrb_mw *)mw;
}

/* Return 0 or an errno value. */
int vrb_mw_alloc(struct vrb_pd *pd, enum ibv_mw_type type, struct vrb_mw **mw);
int vrb_mw_dealloc(struct vrb_mw *mw, const struct vrb_mr_waits *waits);

/*
 * Checks the bind of a type 1 window as far as possible before it is queued, and returns the rkey
 * that the window will have. 0 or an errno value.
 */
int vrb_mw_prepare_bind(struct vrb_mw *mw, const struct ibv_mw_bind *bind, uint32_t *rkey);

/* Copies the bind into its WQE; the window or the region may be gone when it executes. */
void vrb_mw_fill_bind(struct send_wqe *w, const struct ibv_mw *mw,
		      const struct ibv_mw_bind_info *info);

#endif
