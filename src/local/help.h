/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Help: a long payload copied by both ends.  The receiver that pulls it takes pieces from the front and offers the rest to the sender, which,
 * if it polls just then, writes pieces from the back into the receive.  A sender that does something else leaves all to the receiver.
 *
 *	receiver			sender
 *	help_open, local_offer ------>	local_help: key's hazard, claim, copy, report ... hazard = 0
 *	help_take, copy, ... until nothing is left
 *	help_await  <-----------------	last report
 *
 *	L9  claim	both: compare and swap (acq_rel).  The sender's publishes its hazard, so that an owner who gives up finds it standing.
 *	    done	sender: pieces are in their place, then done (release); receiver: done (acquire), then the completion.
 *
 * The sender holds its QP's lock, and the lane's, while it copies.  So a receiver that loses patience may refuse the message: the sender cannot
 * send it again, nor anything else, before its last byte has arrived.  Only the QP's own receive queue allows that; a shared one
 * would give the buffer to another QP.
 */
#ifndef VRB_LOCAL_HELP_H
#define VRB_LOCAL_HELP_H

#include <stdbool.h>
#include <stdint.h>

#include "local/layout.h"

struct local;
struct local_peer;

enum {
	HELP_MIN = 256 * 1024,		/* shorter payloads are copied before help has come */
	HELP_PIECE_MIN = 64 * 1024,	/* what a call costs besides the copy hardly counts */
	HELP_PIECE_MAX = 256 * 1024,
};

/* What the receiver tells the sender; the payload of a LANE_OFFER. */
struct help_offer {
	uint32_t id;
	uint32_t qpn;		/* the sender's QP, */
	uint32_t psn;		/* and its request */
	uint32_t key;		/* index of the key of the receive's memory */
	uint64_t addr;		/* the receive, in the receiver's memory */
	uint32_t length;
	uint32_t piece;
};

/* The receiver's side; private memory. */
struct help {
	struct lane_help *shared;
	uint32_t id;
	uint32_t length;
	uint32_t piece;
	uint32_t front;		/* pieces that this side has taken */
	uint32_t back;		/* and the other, as far as is known */
	bool alone;		/* what the other side says makes no sense: it has no part in this */
};

enum help_outcome {
	HELP_DONE,	/* the sender's pieces are in their place */
	HELP_FAILED,	/* it could not copy one: they are still to be copied */
	HELP_LOST,	/* it is dead, or stopped in the middle: the message must not be delivered now */
};

void help_open(struct help *h, struct lane *lane, uint32_t length);

/* The next piece for the receiver; false if there is none left. */
bool help_take(struct help *h, uint64_t *at, uint64_t *len);

/* Leaves nothing to claim, when the receiver goes on no further. */
void help_close(struct help *h);

/* Where the sender's part begins, once nothing is left; the length if it has none. */
uint64_t help_theirs(const struct help *h);

/* Then: waits for what the sender has claimed. */
enum help_outcome help_await(const struct help *h, struct local *l, uint64_t incarnation);

/* The sender's next piece, of which it has `mine` already; false if there is none, or the offer is past. */
bool help_claim(struct lane_help *shared, const struct help_offer *offer, uint32_t mine, uint64_t *at,
		uint64_t *len);

/* The sender has copied `mine` pieces, or has failed to. */
void help_report(struct lane_help *shared, const struct help_offer *offer, uint32_t mine, bool failed);

/* Offers the rest to the process of that incarnation; false if it would not see that soon. Must hold vrb.drive. */
bool local_offer(struct local *l, struct local_peer *peer, uint64_t incarnation,
		 const struct help_offer *offer);

/* Copies what the offer leaves us from `src`, which is offer->length long and pinned. Must hold the lock of the QP. */
void local_help(struct local_peer *peer, const struct help_offer *offer, uint64_t src);

#endif
