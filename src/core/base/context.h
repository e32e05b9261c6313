/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device.  Wraps verbs_context, whose operation table the inline functions of
 * <infiniband/verbs.h> call.
 */
#ifndef VRB_CORE_BASE_CONTEXT_H
#define VRB_CORE_BASE_CONTEXT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "core/base/event_queue.h"
#include "core/base/limits.h"
#include "core/base/state.h"
#include "util/atomic.h"
#include "util/list.h"
#include "util/text.h"

struct vrb_device;

/*
 * Fills the verbs_context and ibv_context operation tables; unsupported slots return an error.
 * Lives in src/verbs/ops.c; the verbs layer passes it in, because core may not include verbs.
 */
typedef void (*vrb_fill_ops_fn)(struct verbs_context *vctx);

/* The kinds of objects of which a context keeps a count. */
enum context_object {
	CTX_PD,
	CTX_TD,
	CTX_MR,
	CTX_MW,
	CTX_AH,
	CTX_CQ,
	CTX_QP,
	CTX_SRQ,
	CTX_XRCD,
	CTX_CHANNEL,
	CTX_CNTR,
	CTX_FLOW,
	CTX_FLOW_COUNT,
	CTX_RWQ_TABLE,
	CTX_OBJECTS
};

struct vrb_context {
	struct list node; /* vrb.contexts */
	struct vrb_device *dev;
	unsigned int generation; /* vrb.generation at open */
	vrb_fill_ops_fn fill;
	/* inherited by fork: the replacement in this process, opened on first use */
	struct vrb_context *successor;
	struct vrb_context *origin;	/* successor: the context that the program holds */
	dev_t cmd_dev; /* identity of the file behind cmd_fd, shared by imported contexts */
	ino_t cmd_ino;
	pthread_mutex_t lock;	/* n, lists of PDs and DMs, address handle pool */
	unsigned int n[CTX_OBJECTS];
	struct list pds;   /* struct vrb_pd.node */
	struct list cqs;		/* struct vrb_cq.node */
	struct list dms;   /* struct vrb_dm.node */
	uint64_t dm_bytes; /* allocated device memory */
	/* struct vrb_ah.node; reused oldest first, only as address handles */
	struct list free_ahs;
	struct list ah_slabs;
	struct vrb_event_queue events; /* behind ibv.async_fd */
	struct verbs_context vctx;     /* last: ibv_context is its last member */
};

static inline struct vrb_context *to_vrb_context(struct ibv_context *c)
{
	return container_of(c, struct vrb_context, vctx.context);
}

/* Returns true if the context was inherited by fork, or closed while it had objects. */
static inline bool vrb_context_is_dead(const struct vrb_context *ctx)
{
	return ctx->generation != load_relaxed(&vrb.generation);
}

/*
 * First check of every verb on an object's context. Returns 0, EINVAL for NULL, or ENODEV if the
 * context is dead.
 */
static inline int vrb_context_check(struct ibv_context *c)
{
	if (!c)
		return EINVAL;
	return vrb_context_is_dead(to_vrb_context(c)) ? ENODEV : 0;
}

/*
 * First check of every verb that takes a context. Replaces a context inherited by fork in *c with
 * its successor, opened on first use. Returns as above, or the error from opening the successor.
 */
int vrb_context_enter(struct ibv_context **c);

/* Called by vrb_context_enter() for a dead context. Set before the first context is opened. */
extern int (*vrb_context_enter_successor)(struct ibv_context **c);

/*
 * Count an object of the context. vrb_context_take() returns ENOMEM at the limit. Both take
 * ctx->lock.
 */
int vrb_context_take(struct vrb_context *ctx, enum context_object kind, int limit);
void vrb_context_give(struct vrb_context *ctx, enum context_object kind);

/* Returns how many objects the context has, device memory included. Must hold ctx->lock. */
unsigned int vrb_context_objects(struct vrb_context *ctx);

/* For the log: appends how many objects of each kind it has. Takes ctx->lock. */
void vrb_context_add_objects(struct vrb_context *ctx, struct text *t);

#endif
