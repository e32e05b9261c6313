/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp: which state may follow which, with which attributes, per QP type; and the checks
 * of their values.
 *
 * Guard first, commit at once: a refused modification changes nothing.
 */
#ifndef VRB_CORE_QP_STATE_H
#define VRB_CORE_QP_STATE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

struct vrb_qp;

/*
 * May a QP of this type go from cur to next with exactly this mask?  IBV_QP_STATE is always
 * allowed, IBV_QP_CUR_STATE where the table lists it.  Looks at no values.
 */
bool qp_state_allowed(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		      int mask);

/*
 * The attributes a transition needs and those it may take besides; false if there is no such
 * transition.
 */
bool qp_state_masks(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		    int *required, int *optional);

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
