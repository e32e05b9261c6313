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
 *	L9  claim	both: compare and swap (acq_rel).  The sender's also publishes its hazard,
 *			so that an owner that stops waiting still sees it.
 *	    done	sender: pieces copied, then done (release); receiver: done (acquire), then
 *			the completion.
 *
 * The sender holds its QP's lock, and the lane's, while it copies. So a receiver that times out may
 * refuse the message: the sender cannot send it again, nor anything else, before its last byte has
 * arrived. Only the QP's own receive queue allows that; a shared one would give the buffer to
 * another QP.
 */
#ifndef VRB_LOCAL_SPLIT_COPY_H
#define VRB_LOCAL_SPLIT_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "local/layout.h"

struct local;
struct local_peer;

/* The receiver's offer to the sender; the payload of a LANE_OFFER. */
struct split_copy_offer {
	uint32_t id;
	uint32_t qpn;		/* of the sender's QP */
	uint32_t psn;		/* of its request */
	uint32_t key;		/* index of the key of the receive's memory */
	uint64_t addr;		/* of the receive buffer, in the receiver's address space */
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
	uint32_t back;		/* pieces that the sender had taken at the last look */
	bool alone;		/* the sender's claim was invalid: the receiver copies everything */
};

enum split_copy_outcome {
	SPLIT_COPY_DONE,	/* the sender has copied its pieces */
	SPLIT_COPY_FAILED,	/* it could not copy a piece: the receiver must copy all of them */
	/* it died or stopped while copying: the message must not be delivered now */
	SPLIT_COPY_LOST,
};

void split_copy_open(struct split_copy *h, struct lane *lane, uint32_t length);

/* The next piece for the receiver; false if there is none left. */
bool split_copy_take(struct split_copy *h, uint64_t *at, uint64_t *len);

/* Takes all remaining pieces, when the receiver stops copying: the sender can claim no more. */
void split_copy_close(struct split_copy *h);

/* Offset of the sender's part, once no piece is left; the length if the sender has none. */
uint64_t split_copy_sender_part(const struct split_copy *h);

/* Waits until the sender has copied the pieces that it has claimed. */
enum split_copy_outcome split_copy_await(const struct split_copy *h, struct local *l,
					 uint64_t incarnation);

/*
 * Claims the sender's next piece; it has `mine` already. Returns false if there is none, or if the
 * offer has ended.
 */
bool split_copy_claim(struct lane_split_copy *shared, const struct split_copy_offer *offer,
		      uint32_t mine, uint64_t *at, uint64_t *len);

/* The sender has copied `mine` pieces, or has failed to. */
void split_copy_report(struct lane_split_copy *shared, const struct split_copy_offer *offer,
		       uint32_t mine, bool failed);

/*
 * Offers the rest to the process of that incarnation. Returns false if it would not see the offer
 * soon. Must hold vrb.poll_lock.
 */
bool local_offer(struct local *l, struct local_peer *peer, uint64_t incarnation,
		 const struct split_copy_offer *offer);

/*
 * Copies the sender's part from `src`, which is offer->length long and pinned. Must hold the QP's
 * lock.
 */
void local_split_copy(struct local_peer *peer, const struct split_copy_offer *offer, uint64_t src);

#endif
