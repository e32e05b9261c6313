/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/qpn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/config.h"
#include "util/atomic.h"

/* The first block of a relay number. */
static uint32_t first_of(unsigned int number)
{
	return number << (NET_RELAY_QPN_BITS - HOST_BLOCK_BITS);
}

void qpns_init(struct qpns *q, struct table *table, int slot)
{
	memset(q, 0, sizeof(*q));
	q->table = table;
	q->slot = slot;
	q->last = first_of(NET_RELAY_FIRST) - 1;
}

void qpns_clear(struct qpns *q)
{
	free(q->block);
	for (unsigned int i = 0; i < HOST_SHARDS; i++)
		free(q->queue[i].free);
	free(q->alone);
	memset(q, 0, sizeof(*q));
}

static struct qpn_block *find_block(const struct qpns *q, uint32_t number)
{
	size_t i;

	for (i = 0; i < q->n_blocks; i++)
		if (q->block[i].number == number)
			return &q->block[i];
	return NULL;
}

static uint32_t *find_alone(const struct qpns *q, uint32_t block)
{
	for (size_t i = 0; i < q->n_alone; i++)
		if (q->alone[i] >> HOST_BLOCK_BITS == block)
			return &q->alone[i];
	return NULL;
}

/* A block that another process has taken over belongs to it, although it is still listed here. */
bool qpns_has_block(const struct qpns *q, uint32_t block)
{
	if (find_block(q, block))
		return true;
	return find_alone(q, block) && table_owner_of(q->table, block) == q->slot;
}

unsigned int qpns_shard(const struct qpns *q, uint32_t block)
{
	const struct qpn_block *b = find_block(q, block);

	return b ? b->shard : 0;
}

static void push(struct qpn_queue *q, struct free_qpn qpn)
{
	q->free[(q->head + q->n_free++) % q->size] = qpn;
}

static struct free_qpn pop(struct qpn_queue *q)
{
	struct free_qpn qpn = q->free[q->head];

	q->head = (q->head + 1) % q->size;
	q->n_free--;
	return qpn;
}

/* The first and the last block contain the reserved numbers: 0 and 1, and the multicast QP. */
static bool reserved(uint32_t block)
{
	return block == 0 || block == HOST_BLOCKS - 1;
}

static bool usable(const struct qpns *q, uint32_t block)
{
	return !reserved(block) && block >= q->first && block <= q->last;
}

/* A block of the range, the same for one that is there. */
static uint32_t within(const struct qpns *q, uint32_t block)
{
	uint32_t n = q->last - q->first + 1;

	return q->first + (block + HOST_BLOCKS - q->first) % n;
}

/* A time in the future is from before a reboot: the block may be reused. */
static bool rested(uint32_t freed_at, uint32_t now)
{
	uint32_t age = now - freed_at;

	return !freed_at || age >= QPN_REST;
}

/* The first free block from `start` on, with wrap-around; HOST_BLOCKS if there is none. */
static uint32_t search_table(const struct qpns *q, uint32_t start, bool any)
{
	const uint32_t chunks = HOST_BLOCKS / TABLE_CHUNK;
	struct table_owner owner[TABLE_CHUNK];
	uint32_t now = table_now();
	uint32_t c, i;

	/* The chunk of `start` is searched twice: first from start on, last up to it. */
	for (c = 0; c <= chunks; c++) {
		uint32_t first = (start / TABLE_CHUNK + c) % chunks * TABLE_CHUNK;

		table_read_owners(q->table, first, TABLE_CHUNK, owner);
		for (i = c ? 0 : start % TABLE_CHUNK; i < TABLE_CHUNK; i++)
			if (!owner[i].slot_plus_1 && usable(q, first + i) &&
			    (any || rested(owner[i].freed_at, now)) && !find_block(q, first + i))
				return first + i;
	}
	return HOST_BLOCKS;
}

/*
 * Where to look for a block: next to the process's blocks, of other shards if there are any,
 * because the steering program has one range for adjacent blocks of one socket.
 */
static uint32_t start_of(const struct qpns *q, unsigned int shard)
{
	for (size_t i = q->n_blocks; i--;)
		if (q->block[i].shard != shard)
			return within(q, (uint32_t)q->block[i].number + shard - q->block[i].shard);
	if (q->n_blocks)
		return within(q, q->block[q->n_blocks - 1].number + 1u);
	return within(q, (uint32_t)(config_random() % HOST_BLOCKS));
}

static int own(struct qpns *q, uint32_t block, const struct table_owner *mine)
{
	int err = table_write_owner(q->table, block, mine);

	if (!err)
		fetch_add_relaxed(&q->taken, 1);
	return err;
}

static int take_from_table(struct qpns *q, unsigned int shard, uint32_t start, uint64_t timeout,
			   uint32_t *block)
{
	struct table_owner mine = { .slot_plus_1 = (uint16_t)(q->slot + 1),
				    .shard = (uint16_t)shard };
	int err = table_lock_within(q->table, timeout);

	if (err)
		return err;
	*block = search_table(q, start, false);
	if (*block == HOST_BLOCKS)
		*block = search_table(q, start, true);
	err = *block == HOST_BLOCKS ? ENOMEM : own(q, *block, &mine);
	table_unlock(q->table);
	return err;
}

static int take_private(const struct qpns *q, uint32_t start, uint32_t *block)
{
	uint32_t i;

	for (i = 0; i < HOST_BLOCKS; i++) {
		*block = (start + i) % HOST_BLOCKS;
		if (usable(q, *block) && !find_block(q, *block))
			return 0;
	}
	return ENOMEM;
}

static void give_to_table(const struct qpns *q, uint32_t block)
{
	struct table_owner freed = { .freed_at = table_now() };

	if (!q->table || table_lock_within(q->table, TABLE_CLEANUP_TIMEOUT))
		return;
	table_write_owner(q->table, block, &freed);
	table_unlock(q->table);
}

static void reverse(struct free_qpn *from, struct free_qpn *to)
{
	while (from < to) {
		struct free_qpn v = *from;

		*from++ = *--to;
		*to = v;
	}
}

/* Rotates the ring so that it starts at 0, because its size will change: three reversals. */
static void straighten(struct qpn_queue *q)
{
	struct free_qpn *end = q->free + q->size;

	reverse(q->free, q->free + q->head);
	reverse(q->free + q->head, end);
	reverse(q->free, end);
	q->head = 0;
}

/* Makes room for one more block of a shard, in front of the numbers that are resting. */
static int grow(struct qpns *q, struct qpn_queue *queue)
{
	struct qpn_block *block = realloc(q->block, (q->n_blocks + 1) * sizeof(*block));
	struct free_qpn *more;

	if (!block)
		return ENOMEM;
	q->block = block;
	more = realloc(queue->free, (queue->size + QPN_BLOCK) * sizeof(*more));
	if (!more)
		return ENOMEM;
	queue->free = more;
	straighten(queue);
	return 0;
}

/* Waits less for the table if there are numbers, though they should rest. */
static int take_block(struct qpns *q, unsigned int shard)
{
	struct qpn_queue *queue = &q->queue[shard];
	uint64_t timeout = queue->n_free ? TABLE_CLEANUP_TIMEOUT : TABLE_LOCK_TIMEOUT;
	uint32_t number, start = start_of(q, shard), i;
	int err = grow(q, queue);

	if (!err)
		err = q->table ? take_from_table(q, shard, start, timeout, &number)
			       : take_private(q, start, &number);
	if (err)
		return err;
	q->block[q->n_blocks++] =
		(struct qpn_block){ .number = (uint16_t)number, .shard = (uint8_t)shard };
	memmove(queue->free + QPN_BLOCK, queue->free, queue->n_free * sizeof(*queue->free));
	start = (uint32_t)(config_random() % QPN_BLOCK);
	for (i = 0; i < QPN_BLOCK; i++)
		queue->free[i] = (struct free_qpn){
			.number = number << HOST_BLOCK_BITS | (start + i) % QPN_BLOCK };
	queue->size += QPN_BLOCK;
	queue->n_free += QPN_BLOCK;
	return 0;
}

int qpns_use_number(struct qpns *q, unsigned int number)
{
	const uint32_t first = q->first, last = q->last;
	int err;

	q->first = q->last = first_of(number);
	err = take_block(q, 0);
	if (err) {
		q->first = first;
		q->last = last;
		return err == ENOMEM ? EEXIST : err;
	}
	q->last = first_of(number + 1) - 1;
	return 0;
}

static void unqueue_block(struct qpn_queue *q, uint32_t number)
{
	size_t i, n = q->n_free;

	for (i = 0; i < n; i++) {
		struct free_qpn qpn = pop(q);

		if (qpn.number >> HOST_BLOCK_BITS != number)
			push(q, qpn);
	}
}

static void drop_block(struct qpns *q, struct qpn_block *b)
{
	struct qpn_queue *queue = &q->queue[b->shard];
	uint32_t number = b->number;

	unqueue_block(queue, number);
	straighten(queue);
	queue->size -= QPN_BLOCK;
	*b = q->block[--q->n_blocks];
	give_to_table(q, number);
}

static bool list_alone(struct qpns *q, uint32_t qpn)
{
	uint32_t *alone = realloc(q->alone, (q->n_alone + 1) * sizeof(*alone));

	if (!alone)
		return false;
	q->alone = alone;
	q->alone[q->n_alone++] = qpn;
	return true;
}

int qpns_alloc_alone(struct qpns *q, uint32_t *qpn)
{
	uint32_t number;
	int err = take_from_table(q, 0, within(q, (uint32_t)(config_random() % HOST_BLOCKS)),
				  TABLE_LOCK_TIMEOUT, &number);

	if (err)
		return err;
	*qpn = number << HOST_BLOCK_BITS | (uint32_t)(config_random() % QPN_BLOCK);
	if (list_alone(q, *qpn))
		return 0;
	give_to_table(q, number);
	return ENOMEM;
}

int qpns_take(struct qpns *q, uint32_t qpn, int giver)
{
	struct table_owner mine = { .slot_plus_1 = (uint16_t)(q->slot + 1) };
	uint32_t block = qpn >> HOST_BLOCK_BITS;
	int err;

	if (reserved(block) || giver < 0 || giver == q->slot)
		return EINVAL;
	err = table_lock(q->table);
	if (err)
		return err;
	if (table_owner_of(q->table, block) != giver)
		err = EINVAL;
	else if (!find_alone(q, block) && !list_alone(q, qpn))
		err = ENOMEM;
	else
		err = own(q, block, &mine);
	table_unlock(q->table);
	return err;
}

/* A block that was taken over is removed from the list only. */
static bool free_alone(struct qpns *q, uint32_t qpn)
{
	uint32_t block = qpn >> HOST_BLOCK_BITS, *found = find_alone(q, block);

	if (!found || *found != qpn)
		return false;
	*found = q->alone[--q->n_alone];
	if (table_owner_of(q->table, block) == q->slot)
		give_to_table(q, block);
	return true;
}

/* Must the number that has been free longest rest, and may there be others? */
static bool rests(const struct qpn_queue *q)
{
	return q->size < QPN_SPARE && !rested(q->free[q->head].freed_at, table_now());
}

void qpns_prepare(struct qpns *q, unsigned int shard)
{
	if (!q->queue[shard].size)
		(void)take_block(q, shard);
}

int qpns_alloc(struct qpns *q, unsigned int shard, uint32_t *qpn)
{
	struct qpn_queue *queue = &q->queue[shard];
	struct qpn_block *b;
	int err = 0;

	if (!queue->n_free || rests(queue))
		err = take_block(q, shard);
	if (err && !queue->n_free)
		return err;
	*qpn = pop(queue).number;
	b = find_block(q, *qpn >> HOST_BLOCK_BITS);
	b->used++;
	b->bits[*qpn % QPN_BLOCK / 64] |= 1ull << *qpn % 64;
	return 0;
}

bool qpns_free(struct qpns *q, uint32_t qpn)
{
	struct qpn_block *b = find_block(q, qpn >> HOST_BLOCK_BITS);
	uint64_t bit = 1ull << qpn % 64;

	if (!b)
		return free_alone(q, qpn);
	if (!(b->bits[qpn % QPN_BLOCK / 64] & bit))
		return false;
	b->bits[qpn % QPN_BLOCK / 64] &= ~bit;
	b->used--;
	push(&q->queue[b->shard], (struct free_qpn){ qpn, table_now() });
	/* The first block of a relay number stays. */
	if (!b->used && b->number != q->first &&
	    q->queue[b->shard].n_free >= QPN_SPARE + QPN_BLOCK)
		drop_block(q, b);
	return true;
}
