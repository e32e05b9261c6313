/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp and ibv_query_qp. A refused modification changes nothing, and a warning gives the
 * reason.
 */
#ifndef VRB_CORE_CONTROL_QP_MODIFY_H
#define VRB_CORE_CONTROL_QP_MODIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_cntr;
struct vrb_qp;

/* Copies the attributes in the mask; a program need not set others. */
void vrb_qp_copy_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask);

/*
 * Must what has arrived be taken before the QP moves to this state? An adapter takes it at once: an
 * ACK completes its request before ERR can flush it, a request succeeds before RESET, and packets
 * of the last connection find the QP before it begins another with the same PSNs. Takes qp->lock.
 */
bool vrb_qp_arrived_first(struct vrb_qp *qp, enum ibv_qp_state next);

/* Returns 0, EINVAL or ENOMEM. Takes qp->lock. */
int vrb_qp_modify(struct vrb_qp *qp, const struct ibv_qp_attr *attr, int mask);

/*
 * Limits the QP's requests to kbps (0: unlimited), in bursts of `burst` bytes. Returns 0 or EINVAL
 * (value, type or state). Takes qp->lock.
 */
int vrb_qp_set_rate(struct vrb_qp *qp, uint32_t kbps, uint32_t burst);

/* Fills everything whatever the mask, as hardware providers do. Takes qp->lock. */
void vrb_qp_query(struct vrb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/*
 * Errors: EINVAL (no operation, another context, or neither RESET nor INIT), EOPNOTSUPP, EBUSY (the
 * operation has a counter).
 */
int vrb_qp_attach_cntr(struct vrb_qp *qp, struct vrb_cntr *cntr, uint32_t op_mask);

#endif
