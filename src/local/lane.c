/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of a lane; see lane.h for who may call what, and for the barrier labels. */
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

/* L7.  A tail that passes head or goes back is the receiver's fault and is ignored. */
static void look_at_tail(struct lane_tx *tx)
{
	uint32_t tail = load_acquire(&tx->lane->tail);

	if (tail - tx->tail <= tx->head - tx->tail)
		tx->tail = tail;
}

/* Bytes lie contiguous, so what would wrap starts over at the beginning and wastes the rest. */
static uint32_t ring_gap(uint32_t head, uint32_t bytes)
{
	uint32_t at = head % LANE_BYTES;

	return at + bytes > LANE_BYTES ? LANE_BYTES - at : 0;
}

static uint32_t ring_round(uint32_t bytes)
{
	return (bytes + CACHE_LINE - 1) & ~(CACHE_LINE - 1u);
}

bool lane_tx_room(struct lane_tx *tx, uint32_t bytes)
{
	uint32_t used;

	if (tx->head - tx->tail >= LANE_SLOTS) {
		look_at_tail(tx);
		if (tx->head - tx->tail >= LANE_SLOTS)
			return false;
	}
	if (bytes <= LANE_INLINE_MAX)
		bytes = 0;
	if (bytes > LANE_BYTES / 2)
		return false;
	if (bytes == 0)
		return true;
	look_at_tail(tx);
	used = tx->ring_head - load_relaxed(&tx->lane->ring_tail);	/* ordered by the load of tail */
	bytes = ring_round(bytes);
	return used <= LANE_BYTES && ring_gap(tx->ring_head, bytes) + bytes <= LANE_BYTES - used;
}

static uint8_t *take_ring(struct lane_tx *tx, struct lane_slot *slot)
{
	uint32_t bytes = ring_round(slot->len);
	uint32_t gap = ring_gap(tx->ring_head, bytes);

	slot->ring_off = tx->ring_head + gap;
	slot->ring_len = gap + bytes;
	tx->ring_head += gap + bytes;
	return tx->lane->bytes + slot->ring_off % LANE_BYTES;
}

void lane_tx_put(struct lane_tx *tx, struct lane_slot *slot, const struct lane_part *parts,
		 unsigned int n)
{
	struct lane_slot *dst = &tx->lane->slot[tx->head % LANE_SLOTS];
	uint8_t *p = dst->data;

	slot->len = 0;
	for (unsigned int i = 0; i < n; i++)
		slot->len += parts[i].len;
	slot->ring_len = 0;
	if (slot->len > LANE_INLINE_MAX || slot->where == LANE_PULL) {
		if (slot->where == LANE_INLINE)
			slot->where = LANE_RING;
		p = take_ring(tx, slot);
	}
	for (unsigned int i = 0; i < n; i++) {
		memcpy(p, parts[i].data, parts[i].len);
		p += parts[i].len;
	}
	memcpy((uint8_t *)dst + sizeof(dst->seq), (const uint8_t *)slot + sizeof(slot->seq),
	       LANE_SLOT_HEADER - sizeof(slot->seq));
	store_release(&dst->seq, ++tx->head);	/* L5 */
}

bool lane_rx_get(struct lane_rx *rx, struct lane_slot *copy, const uint8_t **data)
{
	const struct lane_slot *slot = &rx->lane->slot[rx->next % LANE_SLOTS];
	uint32_t at;

	if (load_acquire(&slot->seq) != rx->next + 1)	/* L5 */
		return false;
	memcpy(copy, slot, LANE_SLOT_HEADER);
	if (copy->where == LANE_INLINE) {
		copy->ring_len = 0;
		*data = copy->len <= LANE_INLINE_MAX ?
				memcpy(copy->data, slot->data, copy->len) : NULL;
		return true;
	}
	at = copy->ring_off % LANE_BYTES;
	*data = copy->len <= LANE_BYTES && at + copy->len <= LANE_BYTES ? rx->lane->bytes + at :
									   NULL;
	return true;
}

void lane_rx_done(struct lane_rx *rx, const struct lane_slot *copy)
{
	if (copy->ring_len > 0) {
		rx->ring_next += min(copy->ring_len, (uint32_t)LANE_BYTES);
		store_relaxed(&rx->lane->ring_tail, rx->ring_next);	/* published by tail */
	}
	rx->next++;
	store_release(&rx->lane->tail, rx->next);	/* L7 */
}
