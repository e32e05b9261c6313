/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp: the permitted state transitions and their attributes, per QP type.
 */
#ifndef VRB_CORE_CONTROL_QP_STATE_H
#define VRB_CORE_CONTROL_QP_STATE_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/*
 * May a QP of this type go from cur to next with exactly this mask? IBV_QP_STATE is always allowed,
 * IBV_QP_CUR_STATE where the table lists it. Ignores the values of attributes.
 */
bool qp_state_allowed(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		      int mask);

/*
 * Returns the attributes that a transition requires and those that are optional; false if there is
 * no such transition.
 */
bool qp_state_masks(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		    int *required, int *optional);

#endif
