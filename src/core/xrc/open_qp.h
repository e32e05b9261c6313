/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC receive QPs and their handles. ibv_open_qp() adds a handle to a QP of this or another
 * process; the QP lives until its last handle is closed.
 */
#ifndef VRB_CORE_XRC_OPEN_QP_H
#define VRB_CORE_XRC_OPEN_QP_H

#include <infiniband/verbs.h>

struct vrb_context;
struct vrb_qp;
struct vrb_qp_hooks;

/* Hooks of XRC receive QPs, for vrb_qp_create(). */
extern const struct vrb_qp_hooks vrb_xrc_qp_hooks;

/*
 * Opens a handle of the shared XRC receive QP with this number. Returns 0, EINVAL (no such QP in
 * the domain), ENOMEM, ETIMEDOUT (its process does not reply).
 */
int vrb_qp_open(struct vrb_context *ctx, const struct ibv_qp_open_attr *attr, struct vrb_qp **qp);

/* Closes a handle, the creator's or another one. Closing the last destroys the QP. Returns 0. */
int vrb_qp_close(struct vrb_qp *qp);

#endif
