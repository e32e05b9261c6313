/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/qptab.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/device.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/raw_port.h"
#include "util/atomic.h"
#include "util/lock.h"

enum {
	TABLE_BITS = 12,	/* two levels of a 24-bit number */
	TABLE_SIZE = 1 << TABLE_BITS,
	TABLE_MASK = TABLE_SIZE - 1,
};

static struct vrb_qp **table[TABLE_SIZE];

struct vrb_qp *vrb_qptab_find(uint32_t qpn)
{
	struct vrb_qp **leaf = load_acquire(&table[qpn >> TABLE_BITS & TABLE_MASK]);

	return leaf ? load_acquire(&leaf[qpn & TABLE_MASK]) : NULL;
}

int vrb_qptab_add(struct vrb_qp *qp)
{
	struct vrb_qp ***at = &table[qp->wq.qpn >> TABLE_BITS & TABLE_MASK], **leaf = *at;

	if (!leaf)
		leaf = calloc(TABLE_SIZE, sizeof(*leaf));
	if (!leaf)
		return ENOMEM;
	/* Pair with vrb_qptab_find(), of a receiver that knows nothing of vrb.drive. */
	store_release(&leaf[qp->wq.qpn & TABLE_MASK], qp);
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

void vrb_qptab_remove(const struct vrb_qp *qp)
{
	table[qp->wq.qpn >> TABLE_BITS & TABLE_MASK][qp->wq.qpn & TABLE_MASK] = NULL;
}

void vrb_qptab_for_each(void (*fn)(struct vrb_qp *qp, void *arg), void *arg)
{
	for (unsigned int i = 0; i < TABLE_SIZE; i++) {
		if (!table[i])
			continue;
		for (unsigned int j = 0; j < TABLE_SIZE; j++)
			if (table[i][j])
				fn(table[i][j], arg);
	}
}

struct counting {
	const struct vrb_device *dev;
	struct roce_counters *sum;
};

static void count_qp(struct vrb_qp *qp, void *arg)
{
	struct counting *c = arg;

	if (qp->ctx->dev != c->dev)
		return;
	lock_acquire(&qp->lock);
	vrb_counters_add(c->sum, roce_qp_counters(&qp->roce));
	lock_release(&qp->lock);
}

void vrb_qptab_counters(const struct vrb_device *dev, struct roce_counters *sum)
{
	struct counting c = { .dev = dev, .sum = sum };

	lock_acquire(&vrb.drive);
	*sum = dev->retired;
	sum->dropped_pkts += vrb_raw_lost(dev);
	vrb_qptab_for_each(count_qp, &c);
	lock_release(&vrb.drive);
}

void vrb_qptab_free(void)
{
	for (unsigned int i = 0; i < TABLE_SIZE; i++) {
		free(table[i]);
		table[i] = NULL;
	}
}

void vrb_qptab_forget(void)
{
	memset(table, 0, sizeof(table));
}
