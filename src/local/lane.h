/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane: the ring by which one process sends packets to another, in the receiver's segment. It
 * carries packets of the RoCE engine without ICRC; a large payload stays in the sender's memory and
 * the receiver pulls it.
 *
 * A lane has one sender process and one receiver process. Within each, the caller serialises:
 * lane_tx under the peer's lock, lane_rx under vrb.poll_lock.
 *
 * Barriers, by the labels of layout.h:
 *	L5  slot.seq    sender: fill slot and bytes, then store seq (release)
 *	                receiver: load seq (acquire), then copy slot and bytes
 *	L7  tail        receiver: done with the slot, store tail (release)
 *	                sender: load tail (acquire), then reuse slots
 *	    ring_tail   the same for bytes; a sender may see it before the tail of the same slot
 *	L2  asleep      receiver: store asleep = 1, full fence, look at the lanes once more, sleep
 *	                sender: store seq, full fence, load asleep; if 1, ring the doorbell.
 *	                A weaker order would lose the wake-up: only a full fence orders a store
 *	                before a load of another location.
 *	                While the receiver polls steadily (seg_header.polled), the sender's fence
 *	                is light; the receiver's first sleep after that clears `polled` and has
 *	                the heavy one (util/heavy_fence.h).
 *
 * A sender that dies leaves only complete slots: a slot is valid once its seq is stored. Nothing
 * consumes the slots of a receiver that dies: the engine's timers detect that, as on a network.
 */
#ifndef VRB_LOCAL_LANE_H
#define VRB_LOCAL_LANE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "local/layout.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/copy_few.h"
#include "util/tuning.h"

/* The sender's end; private memory. */
struct lane_tx {
	struct lane *lane;
	uint32_t head;		/* next slot to fill */
	uint32_t ring_head;	/* next byte of the byte ring */
	uint32_t tail;		/* last valid value of lane->tail */
	uint32_t ring_tail;	/* last valid value of lane->ring_tail */
};

/* The receiver's end; private memory. */
struct lane_rx {
	struct lane *lane;
	uint32_t next;		/* next slot to read */
	uint32_t run;		/* slots found since a look found none */
	uint32_t inline_end;	/* offset of the last byte of the last slot with data */
	uint32_t ring_tail;	/* last value of lane->ring_tail: its line is often the sender's */
};

/* Initialise the ends of an unused lane, which is all zero. */
void lane_tx_init(struct lane_tx *tx, struct lane *lane);
void lane_rx_init(struct lane_rx *rx, struct lane *lane);

/* Returns true if a slot is free now, and `bytes` of the byte ring (0: none needed). */
bool lane_tx_room(struct lane_tx *tx, uint32_t bytes);

/* Slots before this index have been consumed by the receiver (L7). */
uint32_t lane_tx_tail(struct lane_tx *tx);

/*
 * Where the next packet of that length lies, if it does not fit a slot. lane_tx_room() must have
 * returned true for it.
 */
uint8_t *lane_tx_ring(const struct lane_tx *tx, uint32_t bytes);

/*
 * Sends the concatenated parts, which may be in their places already. lane_tx_room() must have
 * returned true for their total length.
 * *head contains where, flags, nseg, payload and ack_*; the call fills in the rest. A packet that
 * fits goes into the slot itself unless where is LANE_PULL.
 */
struct lane_part {
	const void *data;
	uint32_t len;
};
void lane_tx_put(struct lane_tx *tx, struct lane_head *head, const struct lane_part *parts,
		 unsigned int n);

/* Is a slot free? As lane_tx_room() without bytes in the ring. */
static inline bool lane_tx_has_slot(struct lane_tx *tx)
{
	return likely(tx->head - tx->tail < LANE_SLOTS) || lane_tx_room(tx, 0);
}

/*
 * The next slot, for a caller that fills its data in place: LANE_INLINE_MAX bytes. lane_tx_done()
 * sends it: head->len, where, flags and ack_* are set, the rest is filled in.
 */
static inline struct lane_slot *lane_tx_slot(const struct lane_tx *tx)
{
	return &tx->lane->slot[tx->head % LANE_SLOTS];
}

static inline void lane_tx_done(struct lane_tx *tx, struct lane_slot *slot,
				const struct lane_head *head)
{
	struct lane_head *dst = &slot->head;

	copy_member(dst, head, len);
	copy_member(dst, head, where);
	copy_member(dst, head, flags);
	if (unlikely(head->where != LANE_INLINE)) {
		copy_member(dst, head, nseg);
		copy_member(dst, head, ring_off);
		copy_member(dst, head, payload);
	}
	store_relaxed(&dst->ring_end, tx->ring_head);
	copy_member(dst, head, ack_psn);
	copy_member(dst, head, ack_aeth);
	store_release(&dst->seq, ++tx->head);	/* L5 */
	if (likely(tx->head + TUNE_LANE_WRITE_AHEAD - tx->tail < LANE_SLOTS))
		prefetch_line_to_write(
			&tx->lane->slot[(tx->head + TUNE_LANE_WRITE_AHEAD) % LANE_SLOTS]);
}

/*
 * If the receiver finds a slot of another round than expected, it resynchronises to that round.
 * Corruption by a peer, or by the receiver itself, thus loses packets, as on a network, but not the
 * lane.
 *
 * Gets the next packet; false if there is none. *copy receives the slot, with its data if inline;
 * *data points to the copy->head.len bytes, either in *copy or, for a message and for data in the
 * ring, in the lane, where the sender can still change them. An invalid slot is returned with
 * *data = NULL.
 */
bool lane_rx_get(struct lane_rx *rx, struct lane_slot *copy, const uint8_t **data);

/*
 * Goes on to the next slot. The one that lane_rx_get() returned last, and those before it, are
 * freed by lane_rx_free(), with the head of that one.
 */
static inline void lane_rx_next(struct lane_rx *rx)
{
	rx->next++;
}

static inline void lane_rx_free(struct lane_rx *rx, const struct lane_head *head)
{
	if (unlikely(rx->ring_tail != head->ring_end)) {
		rx->ring_tail = head->ring_end;
		store_release(&rx->lane->ring_tail, head->ring_end);	/* L7 */
	}
	store_release(&rx->lane->tail, rx->next);	/* L7 */
}

/*
 * The slot behind the one that lane_rx_get() returned last; NULL: it is not filled yet, or this is
 * the first slot since a look found none. Then mostly no other follows at once, and a look would
 * take the line of the next slot away from the sender.
 */
static inline const struct lane_slot *lane_rx_peek(struct lane_rx *rx)
{
	const struct lane_slot *slot = &rx->lane->slot[(rx->next + 1) % LANE_SLOTS];

	if (rx->run < 2)
		return NULL;
	if (load_acquire(&slot->head.seq) == rx->next + 2)	/* L5 */
		return slot;
	rx->run = 0;
	return NULL;
}

/* Is there a next packet? */
bool lane_rx_ready(const struct lane_rx *rx);

#endif
