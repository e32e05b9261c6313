/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deputies: engines that run the requests of an XRC receive QP of another process, its home, as far as they name shared receive queues of this
 * one; docs/XRC.md.
 *
 * A deputy is a vrb_qp without what a program sees of one.  It has the number of the QP that it stands for, and is in no table of QPs.
 */
#ifndef VRB_CORE_XRC_DEPUTY_H
#define VRB_CORE_XRC_DEPUTY_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"

struct vrb_cq;
struct vrb_qp;
struct xrc_domain;
struct vrb_receiver;
struct xrc_msg;

/* What a home says. Must hold vrb.drive. */
void vrb_deputy_receive(const struct xrc_msg *m, struct vrb_receiver *r, uint64_t now);

/* Tells the home what the engine has to say, and its state. Must hold qp->lock. */
void vrb_deputy_collect(struct vrb_qp *qp, uint64_t now);

/* An event of the QP belongs to its home. Must hold qp->lock. */
void vrb_deputy_event(struct vrb_qp *qp, enum ibv_event_type type);

/* A CQ that deputies complete to has overrun: they fail. Must hold vrb.drive. */
void vrb_deputy_fail_users(struct vrb_cq *cq, uint64_t now);

/* The domain has no handle in this process any more. Takes vrb.drive. */
void vrb_deputy_forget_domain(struct xrc_domain *d);

/* Ends deputies whose home is dead, with the receives that they hold. Takes vrb.drive. */
void vrb_deputy_sweep(void);

/* When the process goes down; and in a forked child, where they are the parent's. */
void vrb_deputy_free_all(void);
void vrb_deputy_forget_all(void);

#endif
