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

static uint16_t used[VRB_QP_TABLE_SIZE]; /* entries of each leaf */
static struct vrb_qp **spare;		 /* the leaf that became empty last, or NULL */

static unsigned int leaf_of(const struct vrb_qp *qp)
{
	return qp->wq.qpn >> VRB_QP_TABLE_BITS & VRB_QP_TABLE_MASK;
}

static struct vrb_qp **new_leaf(void)
{
	struct vrb_qp **leaf = spare;

	spare = NULL;
	return leaf ? leaf : calloc(VRB_QP_TABLE_SIZE, sizeof(*leaf));
}

int vrb_qp_table_add(struct vrb_qp *qp)
{
	struct vrb_qp ***at = &vrb_qp_table[leaf_of(qp)], **leaf = *at ? *at : new_leaf();

	if (!leaf)
		return ENOMEM;
	assert(!leaf[qp->wq.qpn & VRB_QP_TABLE_MASK]);
	used[leaf_of(qp)]++;
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
	unsigned int i = leaf_of(qp);

	vrb_qp_table[i][qp->wq.qpn & VRB_QP_TABLE_MASK] = NULL;
	if (--used[i])
		return;
	/* In a long life a process has QP numbers of every leaf. */
	free(spare);
	spare = vrb_qp_table[i];
	vrb_qp_table[i] = NULL;
}

void vrb_qp_table_for_each(void (*fn)(struct vrb_qp *qp, void *arg), void *arg)
{
	for (unsigned int i = 0; i < VRB_QP_TABLE_SIZE; i++)
		for (unsigned int j = 0; vrb_qp_table[i] && j < VRB_QP_TABLE_SIZE; j++)
			if (vrb_qp_table[i][j])
				fn(vrb_qp_table[i][j], arg);
}

void vrb_qp_table_free(void)
{
	free(spare);
	spare = NULL;
}

void vrb_qp_table_forget(void)
{
	memset(vrb_qp_table, 0, sizeof(vrb_qp_table));
	memset(used, 0, sizeof(used));
	spare = NULL;
}
