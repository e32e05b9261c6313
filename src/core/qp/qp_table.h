/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two-level table of this process's QPs, indexed by QP number. Lookups hold the lock of any RX
 * queue (rx_queues.h), removals hold all of them, everything else holds vrb.poll_lock.
 */
#ifndef VRB_CORE_QP_QP_TABLE_H
#define VRB_CORE_QP_QP_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"

struct roce_counters;
struct vrb_device;
struct vrb_qp;

enum {
	VRB_QP_TABLE_BITS = 12, /* per level; QP numbers have 24 bits */
	VRB_QP_TABLE_SIZE = 1 << VRB_QP_TABLE_BITS,
	VRB_QP_TABLE_MASK = VRB_QP_TABLE_SIZE - 1,
};

extern struct vrb_qp **vrb_qp_table[VRB_QP_TABLE_SIZE];

/* Returns NULL if this process has no QP with that number. */
static inline struct vrb_qp *vrb_qp_table_find(uint32_t qpn)
{
	struct vrb_qp **leaf =
		load_acquire(&vrb_qp_table[qpn >> VRB_QP_TABLE_BITS & VRB_QP_TABLE_MASK]);

	return leaf ? load_acquire(&leaf[qpn & VRB_QP_TABLE_MASK]) : NULL;
}

/* Returns 0 or ENOMEM. */
int vrb_qp_table_add(struct vrb_qp *qp);
void vrb_qp_table_remove(const struct vrb_qp *qp);

/* Calls fn for each QP. fn may remove that QP. */
void vrb_qp_table_for_each(void (*fn)(struct vrb_qp *qp, void *arg), void *arg);

void vrb_counters_add(struct roce_counters *sum, const struct roce_counters *c);

/* Frees the memory of the empty table. */
void vrb_qp_table_free(void);

/* In a forked child: drops the parent's QPs without freeing them. */
void vrb_qp_table_forget(void);

#endif
