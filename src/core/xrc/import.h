/* SPDX-License-Identifier: BSD-2-Clause */
/* Imports an XRC receive QP and its number from its former home process; docs/XRC.md. */
#ifndef VRB_CORE_XRC_IMPORT_H
#define VRB_CORE_XRC_IMPORT_H

struct vrb_qp;
struct xrc_import;
struct xrc_msg;

/*
 * Creates a QP in the context and domain of `handle` from the request m. The new QP has no handles.
 * Returns 0, EINVAL (invalid configuration or state), ENOMEM, or the error of host_qpn_take().
 * Must hold vrb.poll_lock.
 */
int vrb_xrc_import(struct vrb_qp *handle, const struct xrc_import *a, const struct xrc_msg *m,
	      struct vrb_qp **out);

#endif
