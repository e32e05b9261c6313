/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The openers of an XRC receive QP: a list, kept by its home, of the other processes that have the
 * QP open (ibv_open_qp). They receive its events and can modify and query it; when the last handle
 * at the home is closed, one of them becomes the new home. docs/XRC.md.
 *
 * qp->lock protects the list.
 */
#ifndef VRB_CORE_XRC_OPEN_TABLE_H
#define VRB_CORE_XRC_OPEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;
struct vrb_qp;
struct xrc_msg;

/* Raises an event at all handles of this process and at all openers. Must hold qp->lock. */
void vrb_open_table_event(struct vrb_qp *qp, enum ibv_event_type type);

/*
 * Called after the last handle of this process was closed. Moves the home to an opener if there is
 * one; the caller destroys the QP in any case. Returns true if it moved; the QP number then belongs
 * to the new home. The list is empty afterwards. Must hold no lock.
 */
bool vrb_open_table_migrate(struct vrb_qp *qp);

/* Migrates all QPs of a context that is closed with objects left in it. */
void vrb_open_table_migrate_all(struct vrb_context *ctx);

/* Frees the list. Must hold qp->lock. */
void vrb_open_table_drop(struct vrb_qp *qp);

/* Handlers of remote calls (rpc.h). Must hold vrb.poll_lock. */
int vrb_open_table_on_open(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_open_table_on_close(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_open_table_on_modify(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_open_table_on_query(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
int vrb_open_table_on_add(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);

#endif
