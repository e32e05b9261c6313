/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qp/qp_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/qp/qp.h"
#include "util/atomic.h"
#include "util/lock.h"

struct vrb_qp **vrb_qp_table[VRB_QP_TABLE_SIZE];

int vrb_qp_table_add(struct vrb_qp *qp)
{
	struct vrb_qp ***at = &vrb_qp_table[qp->wq.qpn >> VRB_QP_TABLE_BITS & VRB_QP_TABLE_MASK],
		**leaf = *at;

	if (!leaf)
		leaf = calloc(VRB_QP_TABLE_SIZE, sizeof(*leaf));
	if (!leaf)
		return ENOMEM;
	/* Pair with vrb_qp_table_find(), which may run under an RX queue's lock only. */
	store_release(&leaf[qp->wq.qpn & VRB_QP_TABLE_MASK], qp);
	store_release(at, leaf);
	return 0;
}

void vrb_counters_add(struct roce_counters *sum, const struct roce_counters *c)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)c;

	static_assert(sizeof(*sum) % sizeof(uint64_t) == 0, "counters are all 64 bits wide");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void vrb_qp_table_remove(const struct vrb_qp *qp)
{
	struct vrb_qp **leaf = vrb_qp_table[qp->wq.qpn >> VRB_QP_TABLE_BITS & VRB_QP_TABLE_MASK];

	leaf[qp->wq.qpn & VRB_QP_TABLE_MASK] = NULL;
}

void vrb_qp_table_for_each(void (*fn)(struct vrb_qp *qp, void *arg), void *arg)
{
	for (unsigned int i = 0; i < VRB_QP_TABLE_SIZE; i++) {
		if (!vrb_qp_table[i])
			continue;
		for (unsigned int j = 0; j < VRB_QP_TABLE_SIZE; j++)
			if (vrb_qp_table[i][j])
				fn(vrb_qp_table[i][j], arg);
	}
}

void vrb_qp_table_free(void)
{
	for (unsigned int i = 0; i < VRB_QP_TABLE_SIZE; i++) {
		free(vrb_qp_table[i]);
		vrb_qp_table[i] = NULL;
	}
}

void vrb_qp_table_forget(void)
{
	memset(vrb_qp_table, 0, sizeof(vrb_qp_table));
}
