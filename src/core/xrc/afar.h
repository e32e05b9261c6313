/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC receive QPs of other processes that are open here (ibv_open_qp): handles whose calls are questions to the QP's home, wherever that
 * is at the moment.  When this process becomes the home, the handles become those of a QP of its own; docs/XRC.md.
 */
#ifndef VRB_CORE_XRC_AFAR_H
#define VRB_CORE_XRC_AFAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_qp;
struct xrc_msg;

/*
 * Makes a handle, which is whole but for its target, one of the QP with its number.  Returns 0, EINVAL (no such QP in the handle's domain),
 * ENOMEM, ETIMEDOUT.  Must hold no lock.
 */
int vrb_afar_open(struct vrb_qp *handle);

/* False if the handle is, meanwhile, one of a QP of this process. */
bool vrb_afar_close(struct vrb_qp *handle);

/* Like vrb_qp_modify() and vrb_qp_query(), on a handle. EINVAL once the home has died. */
int vrb_afar_modify(struct vrb_qp *handle, const struct ibv_qp_attr *attr, int mask);
int vrb_afar_query(struct vrb_qp *handle, struct ibv_qp_attr *attr);

/* The home says that something has happened, or that it is the home now. Must hold vrb.drive. */
void vrb_afar_receive(const struct xrc_msg *m);

/* Question of a home that closes. Must hold vrb.drive. */
int vrb_afar_on_adopt(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);

/* In a forked child. */
void vrb_afar_forget_all(void);

#endif
