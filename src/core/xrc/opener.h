/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * At the home of an XRC receive QP: the other processes that have it open (ibv_open_qp).  They hear of its events, change and ask it, and one
 * of them becomes its home when it is closed for good here; docs/XRC.md.
 *
 * The list is under qp->lock.
 */
#ifndef VRB_CORE_XRC_OPENER_H
#define VRB_CORE_XRC_OPENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;
struct vrb_qp;
struct xrc_msg;

/* An event of the QP goes to all handles of this process and to all openers. Must hold qp->lock. */
void vrb_opener_event(struct vrb_qp *qp, enum ibv_event_type type);

/*
 * The last handle of this process was closed.  Moves the home to an opener, if there is one; the QP is to be freed in any case.  True if it
 * moved: then the number is not this process's any more.  Must hold no lock.
 */
bool vrb_opener_inherit(struct vrb_qp *qp);

/* The same for all QPs of a context that is closed with objects in it. */
void vrb_opener_inherit_all(struct vrb_context *ctx);

void vrb_opener_drop(struct vrb_qp *qp);

/* Questions; see xrcask.h. Must hold vrb.drive. */
int vrb_opener_on_open(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_opener_on_close(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_opener_on_modify(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_opener_on_query(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_opener_on_add(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);

#endif
