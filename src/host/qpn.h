/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP numbers of this process: blocks it holds, and its free numbers in a queue, so that a
 * number that was freed is the last to be handed out again.  A block that is wholly unused goes
 * back to the table, where it rests for QPN_REST seconds before reuse, unless nothing else is left.
 * Each block is of a shard, and each shard has a queue of its own.
 *
 * No lock: the caller holds host->lock.
 */
#ifndef VRB_HOST_QPN_H
#define VRB_HOST_QPN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/table.h"

enum {
	QPN_BLOCK = 1 << HOST_BLOCK_BITS,
	QPN_SPARE = 4 * QPN_BLOCK,	/* free numbers to keep before a block is given back */
	QPN_REST = 10,			/* seconds */
};

struct qpn_block {
	uint16_t number;
	uint16_t used;
	uint8_t shard;
	uint64_t bits[QPN_BLOCK / 64];	/* handed out */
};

/* Free numbers of one shard: a ring. */
struct qpn_queue {
	uint32_t *number;
	size_t size;		/* QPN_BLOCK for each block of the shard */
	size_t head, n_free;
};

struct qpns {
	struct table *table;	/* NULL in private mode: any block is free */
	int slot;
	unsigned int taken;	/* total blocks ever taken; atomic, read without the lock */
	struct qpn_block *block;
	size_t n_blocks;
	uint32_t *alone;	/* numbers with a block to themselves */
	size_t n_alone;
	struct qpn_queue queue[HOST_SHARDS];
};

void qpns_init(struct qpns *q, struct table *table, int slot);

/* Forgets the memory; blocks stay with the slot in the table. */
void qpns_clear(struct qpns *q);

int qpns_alloc(struct qpns *q, unsigned int shard, uint32_t *qpn);

/* False if the number was not handed out. */
bool qpns_free(struct qpns *q, uint32_t qpn);

/*
 * A block of shard 0 for one number.  qpns_take() makes another slot's block that is used so this
 * one's. Both return 0, ENOMEM, EINVAL, or why the table cannot be changed.
 */
int qpns_alloc_alone(struct qpns *q, uint32_t *qpn);
int qpns_take(struct qpns *q, uint32_t qpn, int giver);

bool qpns_has_block(const struct qpns *q, uint32_t block);

#endif
