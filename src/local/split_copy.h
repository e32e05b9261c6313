/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A long payload copied by both ends. The receiver pulls pieces from the front and offers the rest
 * to the sender. A sender that polls at that time writes pieces from the back into the receive
 * buffer; otherwise the receiver copies everything.
 *
 *	receiver			sender
 *	split_copy_open, local_offer ------>	local_split_copy: key's hazard, claim, copy, report,
 *						..., hazard = 0
 *	split_copy_take, copy, ... until nothing is left
 *	split_copy_await  <-----------------	last report
 *
 *	L9  claim	both: compare and swap (acq_rel).  The sender's also publishes its hazard, so
 *			that an owner that stops waiting still sees it.
 *	    done	sender: pieces copied, then done (release); receiver: done (acquire), then the
 *			completion.
 *
 * The sender holds its QP's lock, and the lane's, while it copies. So a receiver that
 * times out may refuse the message: the sender cannot send it again, nor anything else, before its
 * last byte has arrived. Only the QP's own receive queue allows that; a shared one would give the
 * buffer to another QP.
 */
#ifndef VRB_LOCAL_SPLIT_COPY_H
#define VRB_LOCAL_SPLIT_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "local/layout.h"

struct local;
struct local_peer;

/* What the receiver tells the sender; the payload of a LANE_OFFER. */
struct split_copy_offer {
	uint32_t id;
	uint32_t qpn;		/* the sender's QP, */
	uint32_t psn;		/* and its request */
	uint32_t key;		/* index of the key of the receive's memory */
	uint64_t addr;		/* the receive, in the receiver's memory */
	uint32_t length;
	uint32_t piece;
};

/* The receiver's side; private memory. */
struct split_copy {
	struct lane_split_copy *shared;
	uint32_t id;
	uint32_t length;
	uint32_t piece;
	uint32_t front;		/* pieces that this side has taken */
	uint32_t back;		/* and the other, as far as is known */
	bool alone;		/* what the other side says makes no sense: it has no part in this */
};

enum split_copy_outcome {
	SPLIT_COPY_DONE,	/* the sender's pieces are in their place */
	SPLIT_COPY_FAILED,	/* it could not copy one: they are still to be copied */
	SPLIT_COPY_LOST,	/* it is dead, or stopped in the middle: the message must not be delivered now */
};

void split_copy_open(struct split_copy *h, struct lane *lane, uint32_t length);

/* The next piece for the receiver; false if there is none left. */
bool split_copy_take(struct split_copy *h, uint64_t *at, uint64_t *len);

/* Leaves nothing to claim, when the receiver goes on no further. */
void split_copy_close(struct split_copy *h);

/* Where the sender's part begins, once nothing is left; the length if it has none. */
uint64_t split_copy_sender_part(const struct split_copy *h);

/* Then: waits for what the sender has claimed. */
enum split_copy_outcome split_copy_await(const struct split_copy *h, struct local *l,
					 uint64_t incarnation);

/*
 * The sender's next piece, of which it has `mine` already; false if there is none, or the offer is
 * past.
 */
bool split_copy_claim(struct lane_split_copy *shared, const struct split_copy_offer *offer,
		      uint32_t mine, uint64_t *at,
		uint64_t *len);

/* The sender has copied `mine` pieces, or has failed to. */
void split_copy_report(struct lane_split_copy *shared, const struct split_copy_offer *offer,
		       uint32_t mine, bool failed);

/*
 * Offers the rest to the process of that incarnation; false if it would not see that soon. Must
 * hold vrb.poll_lock.
 */
bool local_offer(struct local *l, struct local_peer *peer, uint64_t incarnation,
		 const struct split_copy_offer *offer);

/*
 * Copies what the offer leaves us from `src`, which is offer->length long and pinned. Must hold the
 * lock of the QP.
 */
void local_split_copy(struct local_peer *peer, const struct split_copy_offer *offer, uint64_t src);

#endif
