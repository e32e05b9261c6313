/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing contexts; contexts inherited by fork. */
#ifndef VRB_CORE_PROCESS_CONTEXT_OPEN_H
#define VRB_CORE_PROCESS_CONTEXT_OPEN_H

#include "core/base/context.h"

struct vrb_device;

/* In a forked child. */
void vrb_context_after_fork(void);

/*
 * Replaces an inherited context by its successor, which is opened on first use. Returns 0, ENODEV,
 * or the error of opening.
 */
int vrb_context_successor(struct ibv_context **c);

/* Both return 0 or an errno value. Import takes ownership of cmd_fd on success. */
int vrb_context_open(struct vrb_device *dev, vrb_fill_ops_fn fill, struct vrb_context **ctx);
int vrb_context_import(int cmd_fd, vrb_fill_ops_fn fill, struct vrb_context **ctx);

/*
 * Stops everything of the context and frees it. Objects left open are orphaned, as the manual says,
 * and their memory is not freed. Returns 0, EINVAL for NULL, or ENODEV if the context was closed
 * before.
 */
int vrb_context_close(struct ibv_context *c);

#endif
