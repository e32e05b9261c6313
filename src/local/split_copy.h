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
 * The sender holds its QP's lock and the lane's while it copies. So a receiver that times out may
 * refuse the message: the sender can neither resend it nor send anything else before its last byte
 * has arrived. That works only with the QP's own receive queue; a shared one would give the buffer
 * to another QP.
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
	uint32_t psn;		/* PSN of its request */
	uint32_t key;		/* index of the key of the receive buffer */
	uint64_t addr;		/* address of the receive buffer in the receiver */
	uint32_t length;
	uint32_t piece;
};

/* The receiver's state; private memory. */
struct split_copy {
	struct lane_split_copy *shared;
	uint32_t id;
	uint32_t length;
	uint32_t piece;
	uint32_t front;		/* pieces that this side has claimed */
	uint32_t back;		/* pieces that the sender had claimed at the last look */
	bool alone;		/* the sender's claim was invalid: the receiver copies everything */
};

enum split_copy_outcome {
	SPLIT_COPY_DONE,	/* the sender has copied its pieces */
	/* the sender could not copy a piece: the receiver must copy all of them */
	SPLIT_COPY_FAILED,
	/* the sender died or stopped while copying: the message must not be delivered now */
	SPLIT_COPY_LOST,
};

void split_copy_open(struct split_copy *h, struct lane *lane, uint32_t length);

/* Claims the receiver's next piece; false if none is left. */
bool split_copy_take(struct split_copy *h, uint64_t *at, uint64_t *len);

/*
 * Claims all remaining pieces when the receiver stops copying, so that the sender can claim no
 * more.
 */
void split_copy_close(struct split_copy *h);

/*
 * Returns the offset of the sender's part, once no piece is left; the full length if it has none.
 */
uint64_t split_copy_sender_part(const struct split_copy *h);

/* Waits until the sender has copied the pieces that it has claimed. */
enum split_copy_outcome split_copy_await(const struct split_copy *h, struct local *l,
					 uint64_t incarnation);

/*
 * Claims the sender's next piece after `mine` earlier ones. Returns false if none is left, or if
 * the offer has ended.
 */
bool split_copy_claim(struct lane_split_copy *shared, const struct split_copy_offer *offer,
		      uint32_t mine, uint64_t *at, uint64_t *len);

/* Reports that the sender has copied `mine` pieces, or has failed to copy one. */
void split_copy_report(struct lane_split_copy *shared, const struct split_copy_offer *offer,
		       uint32_t mine, bool failed);

/*
 * Offers the rest to the process of that incarnation. Returns false if that process would not see
 * the offer soon. Must hold vrb.poll_lock.
 */
bool local_offer(struct local *l, struct local_peer *peer, uint64_t incarnation,
		 const struct split_copy_offer *offer);

/*
 * Copies the sender's part from `src`, which is pinned and offer->length bytes long. Must hold the
 * QP's lock.
 */
void local_split_copy(struct local_peer *peer, const struct split_copy_offer *offer, uint64_t src);

#endif
