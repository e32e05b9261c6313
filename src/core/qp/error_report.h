/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs one warning for the first failure of a QP, with the QP, the work request, the key, the
 * address and the reason.
 *
 *	QP 0x8a31 (RC, to 0x9b02 at ::ffff:10.0.0.2) failed: RDMA WRITE wr_id 0x7:
 *	IBV_WC_REM_ACCESS_ERR, vendor_err 301: the remote side answered NAK remote access error:
 *	rkey, range or rights; rkey 0x3000142f, address 0x7f00, length 64: the rkey names a region
 *	[0x7000, 0x8000) without REMOTE_WRITE, registered at server+0x1a2c in main
 *
 * Off the data path: the checks in access.c record the last refused access of each thread. Reports
 * of error completions and responder events include that record if it belongs to the same QP.
 */
#ifndef VRB_CORE_QP_ERROR_REPORT_H
#define VRB_CORE_QP_ERROR_REPORT_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "wq/qp.h"

struct vrb_qp;

/* Called before a completion in error is raised. Must hold qp->lock. */
void vrb_report_completion(struct vrb_qp *qp, const struct wq_cqe *cqe);

/*
 * Called when a message of an unreliable service was dropped; reports only the QP's first. Must
 * hold qp->lock.
 */
void vrb_report_drop(struct vrb_qp *qp, enum reason why);

/*
 * Called when a datagram is dropped because no QP has its number; reports only the process's first.
 */
void vrb_report_no_qp(const struct net_addr *src, uint32_t src_qpn, uint32_t qpn);

/*
 * The peer has no receive for this request, which waits; reports the process's first that has
 * waited for long. Must hold qp->lock.
 */
void vrb_report_rnr(struct vrb_qp *qp, uint32_t psn);

/*
 * The peer has another path MTU, which works here, but not on a device; reports only the process's
 * first. Must hold qp->lock.
 */
void vrb_report_mtu(const struct vrb_qp *qp, uint32_t mtu);

/* Called before an affiliated event is raised. Must hold qp->lock. */
void vrb_report_event(struct vrb_qp *qp, enum ibv_event_type type);

#endif
