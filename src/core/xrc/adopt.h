/* SPDX-License-Identifier: BSD-2-Clause */
/* An XRC receive QP moves in: from the process that was its home to this one, with its number. docs/XRC.md */
#ifndef VRB_CORE_XRC_ADOPT_H
#define VRB_CORE_XRC_ADOPT_H

struct vrb_qp;
struct xrc_adoption;
struct xrc_msg;

/*
 * Makes a QP in the context and domain of `handle` out of what m, which asks for it, says.  It has no handle yet.  Returns 0, EINVAL (it makes no
 * sense), ENOMEM, or why the number cannot be had. Must hold vrb.drive.
 */
int vrb_adopt(struct vrb_qp *handle, const struct xrc_adoption *a, const struct xrc_msg *m,
	      struct vrb_qp **out);

#endif
