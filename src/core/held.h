/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of a reliable connection that arrived before one that is missing.  The engine knows no
 * order but the right one, and has asked for the missing one; when that comes, the others need not
 * be sent again.  What is not held is only sent again, so there are limits, and memory may be out.
 *
 * Nothing proves that an early packet is the peer's: the PSN is all that a stranger must guess, and here a whole window of
 * them is right.  So one is believed only for as long as a repair of the gap in front of it explains:
 *
 *	old		HELD_TIME is over.  A repair takes a round trip.  It is forgotten
 *	passed		more than HELD_BELIEVED packets in front of it came later.  Nearly all repairs are shorter;
 *			this is traffic without a gap, on its way to the PSN that the early packet bears
 *	disputed	another packet with this PSN came, and is not the same.  One of them is forged
 *
 * The last two are doubted: when the turn of such a packet comes, the peer is asked for it.  That there is a gap in front of it is
 * believed for longer, until HELD_ASKED packets have come: to ask for what was not lost costs a packet, and to wait for a probe much time.
 *
 * What comes in its turn is never compared with what is held, and always runs.  So a forged packet must have at most
 * HELD_BELIEVED missing ones in front of it; without all this it would have to be the very next.
 *
 * One per QP, made at its first gap; under the QP's lock.
 */
#ifndef VRB_CORE_HELD_H
#define VRB_CORE_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "util/time.h"

enum {
	HELD_PACKETS = 256,		/* of a QP: the largest window; a power of two */
	HELD_BYTES = 16 << 20,		/* of all QPs of the process */
	HELD_BELIEVED = 21,		/* the first three runs of a repair (roce/repair.c): 1 + 4 + 16 */
	HELD_ASKED = 85,		/* and the fourth, of 64 */
};

#define HELD_TIME VRB_SECOND	/* longer than the round trip of any path */

struct held;

/* Gives a packet to the engine. */
typedef void held_run(void *arg, const struct roce_pkt *pkt);

/* Keeps a copy of a packet that roce_early() names. */
void held_keep(struct held **h, const struct roce_pkt *pkt, uint64_t now);

/*
 * A packet came in its turn, from the wire: what waited for it runs now.  Each asks for an ACK, for its sender has to learn that
 * it need not be sent again.  Where another one is missing, the engine is to say so.
 */
void held_follow(struct held *h, struct roce_qp *qp, held_run *run, void *arg, uint64_t now);

/* Forgets all, and itself. */
void held_free(struct held **h);

#endif
