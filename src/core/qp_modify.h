/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp and ibv_query_qp.  A refused modification changes nothing, and its reason is logged (level warn).
 */
#ifndef VRB_CORE_QP_MODIFY_H
#define VRB_CORE_QP_MODIFY_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_qp;

/* Returns 0, EINVAL, ENOMEM. Takes qp->lock. */
int vrb_qp_modify(struct vrb_qp *qp, const struct ibv_qp_attr *attr, int mask);

/*
 * Paces the QP's requests to kbps (0: not at all), in bursts of that many bytes.  Returns 0, EINVAL
 * (value, type or state). Takes qp->lock.
 */
int vrb_qp_set_rate(struct vrb_qp *qp, uint32_t kbps, uint32_t burst);

/* Fills everything, whatever the mask: hardware providers do too. Takes qp->lock. */
void vrb_qp_query(struct vrb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

#endif
