/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device.  Wraps verbs_context, whose operation table the inline functions of <infiniband/verbs.h> call.
 */
#ifndef VRB_CORE_CONTEXT_H
#define VRB_CORE_CONTEXT_H

#include <pthread.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/device.h"
#include "core/event.h"
#include "util/list.h"

struct vrb_context {
	struct list node;		/* vrb.contexts */
	struct vrb_device *dev;
	unsigned int generation;	/* vrb.generation at open */
	pthread_mutex_t lock;		/* counts of objects below */
	unsigned int n_pd, n_mr, n_mw, n_ah, n_cq, n_qp, n_srq, n_xrcd, n_channel;
	struct vrb_event_queue events;	/* behind ibv.async_fd */
	struct verbs_context vctx;	/* last: ibv_context is its last member */
};

static inline struct vrb_context *to_vrb_context(struct ibv_context *c)
{
	return container_of(c, struct vrb_context, vctx.context);
}

/* True in a child that inherited the context by fork: every call on it must fail without side effects. */
bool vrb_context_dead(const struct vrb_context *ctx);

int vrb_context_open(struct vrb_device *dev, struct vrb_context **ctx);

/* Stops everything of the context and frees it; objects left open are orphaned as the manual says (their memory is not freed). */
void vrb_context_close(struct vrb_context *ctx);

/*
 * Fills the verbs_context and ibv_context operation tables; every slot gets an answer, unsupported ones refuse.
 * Lives in src/verbs/ops.c; core calls it through this pointer, set by the verbs layer's constructor-free initialiser.
 */
typedef void (*vrb_fill_ops_fn)(struct verbs_context *vctx);

#endif
