/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane: the ring by which one process sends packets to another, in the receiver's segment. It
 * carries packets of the RoCE engine without ICRC; a large payload stays in the sender's memory and
 * the receiver pulls it.
 *
 * One sender process, one receiver process. Within each, the caller serialises: lane_tx under the
 * peer's lock, lane_rx under vrb.poll_lock.
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
 *
 * A sender that dies leaves only complete slots: a slot counts once its seq is stored. The slots of
 * a receiver that dies are never consumed: the engine's timers detect that, as on a network.
 */
#ifndef VRB_LOCAL_LANE_H
#define VRB_LOCAL_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "local/layout.h"
#include "util/atomic.h"

/* The sender's side; private memory. */
struct lane_tx {
	struct lane *lane;
	uint32_t head;		/* next slot to fill */
	uint32_t ring_head;	/* next byte of the byte ring */
	uint32_t tail;		/* last valid value of lane->tail */
	uint32_t ring_tail;	/* and of lane->ring_tail */
};

/* The receiver's side; private memory. */
struct lane_rx {
	struct lane *lane;
	uint32_t next;		/* next slot to look at */
};

/* Both ends start from an unused lane: all zero. */
void lane_tx_init(struct lane_tx *tx, struct lane *lane);
void lane_rx_init(struct lane_rx *rx, struct lane *lane);

/* True if a slot, and in the ring room for `bytes` (0 = none), are free now. */
bool lane_tx_room(struct lane_tx *tx, uint32_t bytes);

/* Slots before this one were taken by the receiver (L7). */
uint32_t lane_tx_tail(struct lane_tx *tx);

/* Has the receiver taken all that was sent? */
bool lane_tx_drained(const struct lane_tx *tx);

/*
 * Sends the parts' bytes, one after the other; lane_tx_room() must have returned true for their
 * sum.  *head contains where, flags, nseg, payload and ack_*; the rest is filled in.  A packet that
 * fits goes into the slot itself unless where is LANE_PULL.
 */
struct lane_part {
	const void *data;
	uint32_t len;
};
void lane_tx_put(struct lane_tx *tx, struct lane_head *head, const struct lane_part *parts,
		 unsigned int n);

/*
 * A receiver that finds a slot of another round than expected continues with that one: corruption,
 * by a peer or by itself, costs packets, as on a network, but not the lane.
 *
 * The next packet: its slot copied to *copy (data included when inline) and *data pointing to its
 * copy->head.len bytes, either in *copy or in the ring, where the sender can still change them.
 * False if there is none.  An invalid slot is returned with *data = NULL.
 */
bool lane_rx_get(struct lane_rx *rx, struct lane_slot *copy, const uint8_t **data);

/* Frees what lane_rx_get() returned last. */
static inline void lane_rx_done(struct lane_rx *rx, const struct lane_head *head)
{
	if (load_relaxed(&rx->lane->ring_tail) != head->ring_end)
		store_release(&rx->lane->ring_tail, head->ring_end);	/* L7 */
	rx->next++;
	store_release(&rx->lane->tail, rx->next);	/* L7 */
}

/* Is there a next packet? */
bool lane_rx_ready(const struct lane_rx *rx);

#endif
