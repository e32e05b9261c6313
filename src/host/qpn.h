/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP numbers of this process: blocks it holds, and its free numbers in a queue, so that a freed
 * number is reused last, and not within QPN_REST seconds while the shard has less than QPN_SPARE
 * numbers: a late packet must not reach another QP, and a peer that has not read of the end of a
 * connection must not take the next one for the same. A block without used numbers is returned to
 * the table, which does not reuse it for QPN_REST seconds unless no other is left. Each block
 * belongs to a shard, and each shard has its own queue.
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
	QPN_SPARE = 16 * QPN_BLOCK,	/* free numbers to keep before a block is returned */
	QPN_REST = 10,			/* seconds */
};

struct qpn_block {
	uint16_t number;
	uint16_t used;
	uint8_t shard;
	uint64_t bits[QPN_BLOCK / 64];	/* numbers in use */
};

struct free_qpn {
	uint32_t number;
	uint32_t freed_at;	/* table_now(); 0: not used since the block was taken */
};

/* Free numbers of one shard: a ring. */
struct qpn_queue {
	struct free_qpn *free;
	size_t size;		/* QPN_BLOCK for each block of the shard */
	size_t head, n_free;
};

struct qpns {
	struct table *table;	/* NULL in private mode: any block is free */
	int slot;
	uint32_t first, last;	/* blocks that it may take */
	unsigned int taken;	/* total blocks ever taken; atomic, read without the lock */
	struct qpn_block *block;
	size_t n_blocks;
	uint32_t *alone;	/* numbers that have their own block */
	size_t n_alone;
	struct qpn_queue queue[HOST_SHARDS];
};

/* It takes blocks of the lower half: the others have relay numbers (util/net.h). */
void qpns_init(struct qpns *q, struct table *table, int slot);

/*
 * From now on it takes blocks of a relay number, of which it owns the first from now on, so that
 * the table tells whose the number is. Returns 0, EEXIST if that block is not free, or as
 * qpns_alloc().
 */
int qpns_use_number(struct qpns *q, unsigned int number);

/* Frees the memory; in the table the blocks stay with the slot. */
void qpns_clear(struct qpns *q);

/* Takes a block of a shard that has none. */
void qpns_prepare(struct qpns *q, unsigned int shard);

int qpns_alloc(struct qpns *q, unsigned int shard, uint32_t *qpn);

/* Returns false if the number is not in use. */
bool qpns_free(struct qpns *q, uint32_t qpn);

/*
 * Allocates a block of shard 0 for a single number. qpns_take() transfers such a block from another
 * slot to this one. Both return 0, ENOMEM, EINVAL, or another errno value if the table cannot be
 * changed.
 */
int qpns_alloc_alone(struct qpns *q, uint32_t *qpn);
int qpns_take(struct qpns *q, uint32_t qpn, int giver);

bool qpns_has_block(const struct qpns *q, uint32_t block);

/* The shard of an own block; 0 for others, and for blocks of one number. */
unsigned int qpns_shard(const struct qpns *q, uint32_t block);

#endif
