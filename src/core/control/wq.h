/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A work queue is a raw packet QP that only receives: the QP posts, scatters and completes. This
 * file keeps the states and the users of a work queue.
 */
#ifndef VRB_CORE_CONTROL_WQ_H
#define VRB_CORE_CONTROL_WQ_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/raw/rss.h"

struct vrb_context;

/* Updates attr to the granted sizes. Returns 0, EINVAL, EOPNOTSUPP, ENOMEM or EPERM. */
int vrb_wq_create(struct vrb_context *ctx, struct ibv_wq_init_attr *attr, struct vrb_wq **out);

/* Returns 0, EINVAL or EOPNOTSUPP. One thread at a time, as for all modifications. */
int vrb_wq_modify(struct vrb_wq *wq, const struct ibv_wq_attr *attr);
int vrb_wq_destroy(struct vrb_wq *wq); /* EBUSY while it is in a table */

#endif
