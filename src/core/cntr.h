/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: how many requests (or bytes) of a QP were done, and how many failed, signaled or not.
 *
 * A counter is attached to operations of QPs while they are in RESET or INIT, and stays until the QP is destroyed.  Its values are
 * atomic: QPs add under their own locks, programs read and write at any time.
 */
#ifndef VRB_CORE_CNTR_H
#define VRB_CORE_CNTR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/wqe.h"

struct vrb_context;
struct vrb_qp;

/* What is counted of a QP: indices of vrb_qp.cntr. What peers do one-sidedly passes by, so it is not offered. */
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
	bool bytes;		/* adds up bytes instead of requests */
	uint32_t users;		/* atomic: attachments */
	uint64_t done, failed;	/* atomic */
};

static inline struct vrb_cntr *to_vrb_cntr(struct ibv_comp_cntr *c)
{
	return (struct vrb_cntr *)c;
}

void vrb_cntr_caps(struct ibv_comp_cntr_caps *caps);

/* Return 0, EINVAL, ENOMEM, EBUSY (attached, or the operation is counted already), EOPNOTSUPP. */
int vrb_cntr_create(struct vrb_context *ctx, const struct ibv_comp_cntr_init_attr *attr,
		    struct vrb_cntr **cntr);
int vrb_cntr_destroy(struct vrb_cntr *cntr);
int vrb_cntr_attach(struct vrb_qp *qp, struct vrb_cntr *cntr, uint32_t op_mask);

/* Ends what is attached to a QP that is being destroyed. */
void vrb_cntr_release(struct vrb_qp *qp);

/* A request of the QP ended. Must hold qp->lock. */
void vrb_cntr_sent(struct vrb_qp *qp, const struct send_wqe *w, bool ok);
void vrb_cntr_received(struct vrb_qp *qp, uint32_t bytes, bool ok);

#endif
