/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: the number of requests (or bytes) of a QP that completed, and that failed,
 * signaled or not.
 *
 * A counter attaches to operations of a QP in RESET or INIT and stays until the QP is destroyed.
 * QPs update the atomic values under their own locks; programs read and write them at any time.
 */
#ifndef VRB_CORE_CQ_COMP_CNTR_H
#define VRB_CORE_CQ_COMP_CNTR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/wqe.h"

struct vrb_context;

/*
 * The operations that can be counted: indices of vrb_qp.cntr. One-sided operations of peers bypass
 * the counters and are not offered.
 */
enum vrb_cntr_op {
	VRB_CNTR_SEND,
	VRB_CNTR_RECV,
	VRB_CNTR_READ,
	VRB_CNTR_WRITE,
	VRB_CNTR_OPS
};

struct vrb_cntr {
	struct ibv_comp_cntr ibv;
	struct vrb_context *ctx;
	bool bytes;		/* counts bytes instead of requests */
	uint32_t users;		/* atomic: attachments */
	uint64_t done, failed;	/* atomic */
};

static inline struct vrb_cntr *to_vrb_cntr(struct ibv_comp_cntr *c)
{
	return (struct vrb_cntr *)c;
}

void vrb_cntr_caps(struct ibv_comp_cntr_caps *caps);

/* Return 0, EINVAL, ENOMEM, EBUSY (attached, or the operation has a counter) or EOPNOTSUPP. */
int vrb_cntr_create(struct vrb_context *ctx, const struct ibv_comp_cntr_init_attr *attr,
		    struct vrb_cntr **cntr);
int vrb_cntr_destroy(struct vrb_cntr *cntr);

/* `slots` is the QP's array, one slot per operation. Must hold qp->lock. */
int vrb_cntr_attach(struct vrb_cntr *slots[], struct vrb_cntr *cntr, uint32_t op_mask);
uint32_t vrb_cntr_ops(void);	/* mask of all operations */

/* Detaches the counters of a QP that is being destroyed. */
void vrb_cntr_release(struct vrb_cntr *slots[]);

/* Count a finished request. Must hold qp->lock. */
void vrb_cntr_sent(struct vrb_cntr *const slots[], const struct send_wqe *w, bool ok);
void vrb_cntr_received(struct vrb_cntr *const slots[], uint32_t bytes, bool ok);

#endif
