/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QPs that progress serves: in the QP table, with a timer, and known to steering and to raw
 * packet ports.
 */
#ifndef VRB_CORE_PROGRESS_SERVED_QPS_H
#define VRB_CORE_PROGRESS_SERVED_QPS_H

struct vrb_context;
struct vrb_qp;

/* Add a QP after creation. Returns 0 or an errno value. Must hold no lock of level 3 or below. */
int vrb_progress_add_qp(struct vrb_qp *qp);
int vrb_progress_add_qp_locked(struct vrb_qp *qp);	/* must hold vrb.poll_lock */

/* Waits until none of its packets or timers is being processed. */
void vrb_progress_remove_qp(struct vrb_qp *qp);

/* Removes the QPs left open when their context is closed. Must hold no lock. */
void vrb_progress_remove_context(struct vrb_context *ctx);

#endif
