/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pairs of a protection domain that may have requests outstanding: a deregistration
 * looks at these and no others.  A QP enters the list at its first post, and leaves it when a
 * deregistration finds it idle or the QP is destroyed.  So a QP that posts nothing between two
 * deregistrations costs the second nothing, and a post costs a look at a flag of the QP.
 *
 * A domain and the parent domains made of it share one list.  Its lock is a leaf.
 */
#ifndef VRB_CORE_MEM_PD_SENDERS_H
#define VRB_CORE_MEM_PD_SENDERS_H

#include <stdint.h>

#include "util/list.h"
#include "util/lock.h"

struct pd_senders {
	struct lock lock;
	struct list list;	/* of nodes in the QPs */
	uint32_t n;		/* atomic */
};

/* Empty; also in a forked child, where the list has the parent's. */
void pd_senders_init(struct pd_senders *s);

/* The node must be on no list. */
void pd_senders_add(struct pd_senders *s, struct list *node);

/* The first, unlinked; NULL: none. */
struct list *pd_senders_take(struct pd_senders *s);

/* Also one that is not on the list. */
void pd_senders_remove(struct pd_senders *s, struct list *node);

#endif
