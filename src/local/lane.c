/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of a lane; see lane.h for the locking rules and the barrier labels. */
#include "local/lane.h"

#include <string.h>

#include "util/atomic.h"

void lane_tx_init(struct lane_tx *tx, struct lane *lane)
{
	*tx = (struct lane_tx){ .lane = lane };
}

void lane_rx_init(struct lane_rx *rx, struct lane *lane)
{
	*rx = (struct lane_rx){ .lane = lane };
}

/*
 * L7, for each of the two.  A tail that passes head or goes back is an error of the receiver and is
 * ignored.
 */
static void look_at_tail(struct lane_tx *tx)
{
	uint32_t tail = load_acquire(&tx->lane->tail);
	uint32_t ring_tail = load_acquire(&tx->lane->ring_tail);	/* may be newer than tail */

	if (tail - tx->tail <= tx->head - tx->tail)
		tx->tail = tail;
	if (ring_tail - tx->ring_tail <= tx->ring_head - tx->ring_tail)
		tx->ring_tail = ring_tail;
}

/* A packet's bytes are contiguous: one that would wrap starts at offset 0 and wastes the rest. */
static uint32_t ring_gap(uint32_t head, uint32_t bytes)
{
	uint32_t at = head % LANE_BYTES;

	return at + bytes > LANE_BYTES ? LANE_BYTES - at : 0;
}

static uint32_t ring_round(uint32_t bytes)
{
	return (bytes + CACHE_LINE - 1) & ~(CACHE_LINE - 1u);
}

static bool fits(const struct lane_tx *tx, uint32_t bytes)
{
	if (tx->head - tx->tail >= LANE_SLOTS)
		return false;
	return ring_gap(tx->ring_head, bytes) + bytes <=
	       LANE_BYTES - (tx->ring_head - tx->ring_tail);
}

bool lane_tx_room(struct lane_tx *tx, uint32_t bytes)
{
	if (bytes > LANE_BYTES / 2)
		return false;
	bytes = bytes <= LANE_INLINE_MAX ? 0 : ring_round(bytes);
	if (likely(fits(tx, bytes)))
		return true;
	/* the receiver's cache line: read only if the last known values do not suffice */
	look_at_tail(tx);
	return fits(tx, bytes);
}

uint32_t lane_tx_tail(struct lane_tx *tx)
{
	look_at_tail(tx);
	return tx->tail;
}

bool lane_tx_drained(const struct lane_tx *tx)
{
	return load_relaxed(&tx->lane->tail) == tx->head;
}

static uint8_t *take_ring(struct lane_tx *tx, struct lane_head *head)
{
	uint32_t bytes = ring_round(head->len);
	uint32_t gap = ring_gap(tx->ring_head, bytes);

	head->ring_off = tx->ring_head + gap;
	tx->ring_head += gap + bytes;
	return tx->lane->bytes + head->ring_off % LANE_BYTES;
}

void lane_tx_put(struct lane_tx *tx, struct lane_head *head, const struct lane_part *parts,
		 unsigned int n)
{
	struct lane_slot *dst = &tx->lane->slot[tx->head % LANE_SLOTS];
	uint8_t *p = dst->data;

	head->len = 0;
	for (unsigned int i = 0; i < n; i++)
		head->len += parts[i].len;
	if (head->len > LANE_INLINE_MAX || head->where == LANE_PULL) {
		if (head->where == LANE_INLINE)
			head->where = LANE_RING;
		p = take_ring(tx, head);
	}
	head->ring_end = tx->ring_head;
	for (unsigned int i = 0; i < n; i++) {
		memcpy(p, parts[i].data, parts[i].len);
		p += parts[i].len;
	}
	memcpy((uint8_t *)dst + sizeof(head->seq), (const uint8_t *)head + sizeof(head->seq),
	       sizeof(*head) - sizeof(head->seq));
	store_release(&dst->head.seq, ++tx->head);	/* L5 */
}

/*
 * L5. A slot with neither the expected packet nor one of the round before: packets were lost.
 */
static bool find_slot(struct lane_rx *rx, uint32_t seq)
{
	if ((seq - 1) % LANE_SLOTS != rx->next % LANE_SLOTS || seq == 0 ||
	    seq == rx->next + 1 - LANE_SLOTS)
		return false;
	rx->next = seq - 1;
	return true;
}

bool lane_rx_ready(const struct lane_rx *rx)
{
	uint32_t seq = load_acquire(&rx->lane->slot[rx->next % LANE_SLOTS].head.seq);	/* L5 */

	return seq == rx->next + 1;
}

bool lane_rx_get(struct lane_rx *rx, struct lane_slot *copy, const uint8_t **data)
{
	const struct lane_slot *slot = &rx->lane->slot[rx->next % LANE_SLOTS];
	uint32_t seq = load_acquire(&slot->head.seq);	/* L5 */
	uint32_t at;

	if (seq != rx->next + 1 && likely(!find_slot(rx, seq)))
		return false;
	/* arrives while this one is processed */
	prefetch_line(&rx->lane->slot[(rx->next + 1) % LANE_SLOTS]);
	copy->head = slot->head;
	if (copy->head.where == LANE_INLINE) {
		*data = copy->head.len <= LANE_INLINE_MAX ?
				memcpy(copy->data, slot->data, copy->head.len) : NULL;
		return true;
	}
	at = copy->head.ring_off % LANE_BYTES;
	*data = copy->head.len <= LANE_BYTES && at + copy->head.len <= LANE_BYTES ?
			rx->lane->bytes + at : NULL;
	return true;
}
