/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hooks of special QPs: XRC receive QPs, remote responders, and QPs that implement a work queue.
 * Ordinary QPs have no table (qp->config.hooks is NULL), and any entry may be NULL. Every hook is
 * called under qp->lock; `redirect`, `expired` and `release` also under vrb.poll_lock.
 */
#ifndef VRB_CORE_QP_QP_HOOKS_H
#define VRB_CORE_QP_QP_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_qp;
struct rx_decoded;
struct vrb_rx_queue;

struct vrb_qp_hooks {
	/* Takes a request that another process must execute; false: execute it here. */
	bool (*redirect)(struct vrb_qp *qp, const struct rx_decoded *raw, struct vrb_rx_queue *r,
			 uint64_t now);
	/* Called when the QP's timer expires, before it transmits. */
	void (*expired)(struct vrb_qp *qp, uint64_t now);
	/* Replaces transmission: sends the engine's output to another process. */
	void (*transmit)(struct vrb_qp *qp, uint64_t now);
	/* Replaces all handling of an engine event. */
	void (*event)(struct vrb_qp *qp, enum ibv_event_type type);
	/* Replaces only the delivery of an event to the program. */
	void (*raise)(struct vrb_qp *qp, enum ibv_event_type type);
	/* Called after ibv_modify_qp() has changed the configuration or state. */
	void (*modified)(struct vrb_qp *qp);
	/* Called before the QP is destroyed: releases what the owner of the hooks keeps for it. */
	void (*release)(struct vrb_qp *qp);
};

#endif
