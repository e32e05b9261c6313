/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device.  Wraps verbs_context, whose operation table the inline functions of
 * <infiniband/verbs.h> call.
 */
#ifndef VRB_CORE_CONTEXT_H
#define VRB_CORE_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "core/device.h"
#include "core/event.h"
#include "util/list.h"

/* Completion vectors are only a number to spread CQs by: there is one progress thread. */
#define VRB_COMP_VECTORS 4

/*
 * Fills the verbs_context and ibv_context operation tables; every slot gets an answer, unsupported
 * ones refuse. Lives in src/verbs/ops.c; the verbs layer passes it in, because core may not include
 * verbs.
 */
typedef void (*vrb_fill_ops_fn)(struct verbs_context *vctx);

struct vrb_context {
	struct list node; /* vrb.contexts */
	struct vrb_device *dev;
	unsigned int generation; /* vrb.generation at open */
	vrb_fill_ops_fn fill;
	struct vrb_context *heir;	/* inherited by fork: what it stands for now, once it was used */
	struct vrb_context *origin;	/* an heir's: the one that the program has */
	dev_t cmd_dev; /* identity of the file behind cmd_fd: imported contexts share it */
	ino_t cmd_ino;
	pthread_mutex_t
		lock; /* counts of objects below, list of PDs and DMs, address handle pool */
	unsigned int n_pd, n_mr, n_mw, n_ah, n_cq, n_qp, n_srq, n_xrcd, n_channel, n_cntr;
	unsigned int n_flow, n_flow_count, n_rwq_table;
	struct list pds;   /* struct vrb_pd.node */
	struct list cqs;		/* struct vrb_cq.node */
	struct list dms;   /* struct vrb_dm.node */
	uint64_t dm_bytes; /* device memory allocated */
	struct list
		free_ahs; /* struct vrb_ah.node; reused for address handles only, oldest first */
	struct list ah_slabs;
	struct vrb_event_queue events; /* behind ibv.async_fd */
	struct verbs_context vctx;     /* last: ibv_context is its last member */
};

static inline struct vrb_context *to_vrb_context(struct ibv_context *c)
{
	return container_of(c, struct vrb_context, vctx.context);
}

/*
 * What every verb asks first about the context of an object: 0, EINVAL for NULL, ENODEV for one
 * that was inherited by fork, or closed with objects in it.
 */
int vrb_context_check(struct ibv_context *c);

/*
 * What every verb asks first about the context it was given.  One that was inherited by fork stands for one of
 * this process, which is opened at its first use and takes its place in *c.  Returns as above, or
 * why it could not be opened.
 */
int vrb_context_enter(struct ibv_context **c);

/* A forked child. */
void vrb_context_after_fork(void);

/* Both return 0 or an errno value. Import takes ownership of cmd_fd on success. */
int vrb_context_open(struct vrb_device *dev, vrb_fill_ops_fn fill, struct vrb_context **ctx);
int vrb_context_import(int cmd_fd, vrb_fill_ops_fn fill, struct vrb_context **ctx);

/*
 * Stops everything of the context and frees it; objects left open are orphaned as the manual says
 * (their memory is not freed).  0, EINVAL for NULL, ENODEV for one that was closed.
 */
int vrb_context_close(struct ibv_context *c);

/*
 * Counts an object of the context against its limit: 0 or ENOMEM.  counter is one of the n_*
 * members.  Take ctx->lock.
 */
int vrb_context_take(struct vrb_context *ctx, unsigned int *counter, int limit);
void vrb_context_give(struct vrb_context *ctx, unsigned int *counter);

#endif
