/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failures explained: one warning line for the first failure of a QP, with the QP, the work request, the key, the address and the reason.
 *
 *	QP 0x8a31 (RC, to 0x9b02 at ::ffff:10.0.0.2) failed: RDMA WRITE wr_id 0x7: IBV_WC_REM_ACCESS_ERR, vendor_err 301: the
 *	remote side answered NAK remote access error: rkey, range or rights; rkey 0x3000142f, address 0x7f00, length 64: the rkey names a
 *	region [0x7000, 0x8000) without REMOTE_WRITE, registered at server+0x1a2c in main
 *
 * All of it is off the data path: the checks of mem.c note what they refused, completions in error and events of the responder come here.
 * What was noted belongs to the thread; it is used if it is about the QP that fails next.
 */
#ifndef VRB_CORE_FAULT_H
#define VRB_CORE_FAULT_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/qp.h"

struct vrb_qp;

/* An access was refused; e is what the key names, NULL if it names nothing. The caller holds a reference on e. */
void vrb_fault_note(const struct wq_qp *wq, uint32_t key, uint64_t va, uint64_t len,
		    enum mem_access access, enum reason why, const struct mr_entry *e);

/* A completion in error is about to be raised. Must hold qp->lock. */
void vrb_fault_complete(struct vrb_qp *qp, const struct wq_cqe *cqe);

/* A message of an unreliable service was dropped: the first of a QP is told. Must hold qp->lock. */
void vrb_fault_dropped(struct vrb_qp *qp, enum reason why);

/* An affiliated event is about to be raised. Must hold qp->lock. */
void vrb_fault_event(struct vrb_qp *qp, enum ibv_event_type type);

#endif
