/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles of XRC receive QPs of other processes (ibv_open_qp). Verbs on them are remote calls to
 * the QP's current home. When this process becomes the home, the handles move to its own QP;
 * docs/XRC.md.
 */
#ifndef VRB_CORE_XRC_REMOTE_HANDLE_H
#define VRB_CORE_XRC_REMOTE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_qp;
struct xrc_msg;

/*
 * Attaches a handle, complete except for its target, to the QP with its number. Returns 0, EINVAL
 * (no such QP in the handle's domain), ENOMEM, ETIMEDOUT. Must hold no lock.
 */
int vrb_remote_open(struct vrb_qp *handle);

/* Detaches the handle. False: it now belongs to a QP of this process. Must hold no lock. */
bool vrb_remote_close(struct vrb_qp *handle);

/* As vrb_qp_modify() and vrb_qp_query(), on a handle. EINVAL once the home has died. */
int vrb_remote_modify(struct vrb_qp *handle, const struct ibv_qp_attr *attr, int mask);
int vrb_remote_query(struct vrb_qp *handle, struct ibv_qp_attr *attr);

/* Handles XRC_NOTIFY: an event, or the announcement of a new home. Must hold vrb.poll_lock. */
void vrb_remote_receive(const struct xrc_msg *m);

/* Handler of XRC_CALL_IMPORT (rpc.h). Must hold vrb.poll_lock. */
int vrb_remote_on_import(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);

/* When the process state ends: watches no process any more. Must hold no lock but vrb.life. */
void vrb_remote_stop(void);

/* In a forked child. */
void vrb_remote_forget_all(void);

#endif
