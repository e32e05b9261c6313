/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of a lane; see lane.h for the locking rules and the barrier labels. */
#include "local/lane.h"

#include <string.h>

#include "util/atomic.h"

/* From this offset on, the ring is emptied, and begins anew at 0. */
#define RING_TURN (1u << 31)

void lane_tx_init(struct lane_tx *tx, struct lane *lane)
{
	*tx = (struct lane_tx){ .lane = lane };
}

void lane_rx_init(struct lane_rx *rx, struct lane *lane)
{
	*rx = (struct lane_rx){ .lane = lane };
}

/*
 * L7, for both tails. A tail that passes head or moves backwards is the receiver's error and is
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

/*
 * A packet's bytes are contiguous: one that would wrap starts at offset 0, and the bytes up to the
 * end of the ring stay unused.
 */
static uint32_t ring_gap(uint32_t head, uint32_t bytes)
{
	uint32_t at = head % LANE_BYTES;

	return at + bytes > LANE_BYTES ? LANE_BYTES - at : 0;
}

static uint32_t ring_round(uint32_t bytes)
{
	return (bytes + CACHE_LINE - 1) & ~(CACHE_LINE - 1u);
}

/*
 * An empty ring is used from its start, so that the longest packet fits. Offsets only grow, or a
 * tail that the receiver is about to store would be taken for a newer one. As LANE_BYTES does not
 * divide 2^32, they do not wrap, but begin anew, far below every tail that can still come.
 */
static void restart_ring(struct lane_tx *tx)
{
	uint32_t next = (tx->ring_head + LANE_BYTES - 1) / LANE_BYTES * LANE_BYTES;

	tx->ring_head = tx->ring_tail = next < RING_TURN ? next : 0;
}

static bool fits(struct lane_tx *tx, uint32_t bytes)
{
	if (tx->head - tx->tail >= LANE_SLOTS)
		return false;
	if (bytes == 0)
		return true;
	if (tx->ring_head == tx->ring_tail)
		restart_ring(tx);
	return tx->ring_head < RING_TURN &&
	       ring_gap(tx->ring_head, bytes) + bytes <=
		       LANE_BYTES - (tx->ring_head - tx->ring_tail);
}

bool lane_tx_room(struct lane_tx *tx, uint32_t bytes)
{
	if (bytes > LANE_BYTES)
		return false;
	bytes = bytes <= LANE_INLINE_MAX ? 0 : ring_round(bytes);
	if (likely(fits(tx, bytes)))
		return true;
	/* Reads the receiver's cache line only if the last known values do not suffice. */
	look_at_tail(tx);
	return fits(tx, bytes);
}

uint32_t lane_tx_tail(struct lane_tx *tx)
{
	look_at_tail(tx);
	return tx->tail;
}

static uint32_t ring_start(const struct lane_tx *tx, uint32_t bytes)
{
	return tx->ring_head + ring_gap(tx->ring_head, bytes);
}

uint8_t *lane_tx_ring(const struct lane_tx *tx, uint32_t bytes)
{
	return tx->lane->bytes + ring_start(tx, ring_round(bytes)) % LANE_BYTES;
}

static uint8_t *take_ring(struct lane_tx *tx, struct lane_head *head)
{
	uint32_t bytes = ring_round(head->len);

	head->ring_off = ring_start(tx, bytes);
	tx->ring_head = head->ring_off + bytes;
	return tx->lane->bytes + head->ring_off % LANE_BYTES;
}

void lane_tx_put(struct lane_tx *tx, struct lane_head *head, const struct lane_part *parts,
		 unsigned int n)
{
	struct lane_slot *slot = lane_tx_slot(tx);
	uint8_t *p = slot->data;

	head->len = 0;
	for (unsigned int i = 0; i < n; i++)
		head->len += parts[i].len;
	if (head->len > LANE_INLINE_MAX || head->where == LANE_PULL) {
		if (head->where == LANE_INLINE)
			head->where = LANE_RING;
		p = take_ring(tx, head);
	}
	for (unsigned int i = 0; i < n; i++) {
		if (parts[i].data != p)
			memcpy(p, parts[i].data, parts[i].len);
		p += parts[i].len;
	}
	lane_tx_done(tx, slot, head);
}

/*
 * L5. A slot that holds neither the expected packet nor one of the previous round means that
 * packets were lost.
 */
static bool find_slot(struct lane_rx *rx, uint32_t seq)
{
	if (seq == rx->next + 1 - LANE_SLOTS || seq == 0 ||
	    (seq - 1) % LANE_SLOTS != rx->next % LANE_SLOTS)
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
	uint32_t seq, at;

	/* Data in both lines of a slot: the second one is not left for later. */
	prefetch_line((const uint8_t *)slot + rx->inline_end);
	seq = load_acquire(&slot->head.seq);	/* L5 */
	if (seq != rx->next + 1 && likely(!find_slot(rx, seq))) {
		rx->run = 0;
		return false;
	}
	/*
	 * Fetch a later slot while this one is processed, if the sender seems to be that far ahead:
	 * a slot that it has not written yet would be taken away from it.
	 */
	if (rx->run >= TUNE_LANE_READ_AHEAD)
		prefetch_line(&rx->lane->slot[(rx->next + TUNE_LANE_READ_AHEAD) % LANE_SLOTS]);
	rx->run++;
	copy->head = slot->head;
	if (copy->head.where == LANE_INLINE) {
		if (copy->head.len > LANE_INLINE_MAX) {
			*data = NULL;
			return true;
		}
		rx->inline_end = LANE_SLOT_HEADER - 1 + copy->head.len;
		*data = likely(copy->head.flags & LANE_MESSAGE) ?
				slot->data :
				memcpy(copy->data, slot->data, copy->head.len);
		return true;
	}
	at = copy->head.ring_off % LANE_BYTES;
	*data = copy->head.len <= LANE_BYTES && at + copy->head.len <= LANE_BYTES ?
			rx->lane->bytes + at : NULL;
	return true;
}
