/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pairs of a protection domain that may have requests outstanding. A deregistration
 * checks only these. A QP enters the list at its first post, and leaves it when a deregistration
 * finds it idle or the QP is destroyed. So a QP that posts nothing between two deregistrations
 * costs the second one nothing, and a post only tests a flag of the QP.
 *
 * A domain and the parent domains made from it share one list. The lock is a leaf.
 */
#ifndef VRB_CORE_MEM_PD_SENDERS_H
#define VRB_CORE_MEM_PD_SENDERS_H

#include <stdint.h>

#include "util/list.h"
#include "util/lock.h"

struct pd_senders {
	struct lock lock;
	struct list list;	/* nodes are in the QPs */
	uint32_t n;		/* atomic */
};

/* Initialises an empty list; also in a forked child, where the list contains the parent's QPs. */
void pd_senders_init(struct pd_senders *s);

/* The node must be on no list. */
void pd_senders_add(struct pd_senders *s, struct list *node);

/* Removes and returns the first node; NULL: none. */
struct list *pd_senders_take(struct pd_senders *s);

/*
 * The number of nodes. A QP that enters the list afterwards sees everything that happened before
 * the call.
 */
uint32_t pd_senders_number(struct pd_senders *s);

/* Removes a node; no effect if it is on no list. */
void pd_senders_remove(struct pd_senders *s, struct list *node);

#endif
