/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder's READ and atomic resources: they store the requests so that they can be answered
 * packet by packet, and again if the requester repeats them (IBTA vol 1, 9.4.4 and 9.7.5).
 *
 * A ring of max_dest_rd_atomic slots. A new request takes the oldest slot: a correct requester has
 * no more requests open than there are slots, so the oldest one is answered and will not be
 * repeated.
 */
#ifndef VRB_ROCE_RD_ATOMIC_H
#define VRB_ROCE_RD_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "util/compiler.h"

/* The kind of the pending answer. */
enum roce_rd_kind {
	ROCE_RD_FREE,
	ROCE_RD_READ,   /* READ RESPONSE packets with data */
	ROCE_RD_ATOMIC, /* ATOMIC ACKNOWLEDGE with the original value */
	ROCE_RD_EMPTY,  /* FLUSH, ATOMIC WRITE: an empty READ RESPONSE (Annex A19) */
};

/* Returns the number of slots that this QP uses; 0: READs and atomics are refused. */
uint32_t roce_rd_slots(const struct roce_qp *qp);

/* The number of slots to look at: none before the first request. */
static inline uint32_t roce_rd_used(const struct roce_qp *qp)
{
	return qp->rd_atomic ? roce_rd_slots(qp) : 0;
}

/* Call before a slot is taken. False: there is no memory for them now. */
static inline bool roce_rd_made(struct roce_qp *qp)
{
	if (unlikely(!qp->rd_atomic))
		qp->rd_atomic = qp->wq->ops->rd_make(qp->wq);
	return qp->rd_atomic;
}

void roce_rd_reset(struct roce_qp *qp);

/*
 * Makes room for more requests, or for fewer: moves the slots, at least the newest, to another
 * array of empty ones. The next requests take those, while the requester waits for the answers of
 * the others. Call before max_dest_rd_atomic changes.
 */
void roce_rd_move(struct roce_qp *qp, struct roce_rd_atomic *to, uint32_t slots);

/*
 * Is there a slot for a new request? Not if the first answer of the oldest is incomplete: then the
 * requester has exceeded the limit.
 */
bool roce_rd_available(const struct roce_qp *qp);

/*
 * Takes a slot for a request with `packets` answers that begins at psn; the caller fills in kind
 * and contents. A slot must be available.
 */
struct roce_rd_atomic *roce_rd_take(struct roce_qp *qp, uint32_t psn, uint32_t packets);

/*
 * Returns the slot whose PSNs include psn, or NULL. A PSN that is earlier by more than half of all
 * PSNs counts as a future one (psn.h) and has no slot.
 */
struct roce_rd_atomic *roce_rd_find(struct roce_qp *qp, uint32_t psn);

/* Has the first answer with this PSN not been sent yet? */
bool roce_rd_to_come(const struct roce_rd_atomic *rd, uint32_t psn);

/*
 * Sends answers psn .. psn + packets - 1 of the slot again, up to byte `end` of a READ; an
 * incomplete first answer continues to its own end.
 */
void roce_rd_replay(struct roce_qp *qp, struct roce_rd_atomic *rd, uint32_t psn, uint32_t packets,
		    uint32_t end);

/* Returns the oldest slot with answers to send, or NULL. */
struct roce_rd_atomic *roce_rd_oldest(struct roce_qp *qp);

static inline struct roce_rd_atomic *roce_rd_due(struct roce_qp *qp)
{
	return unlikely(qp->resp.rd_pending) ? roce_rd_oldest(qp) : NULL;
}

/* Call after building the packet at next_psn. */
void roce_rd_advance(struct roce_qp *qp, struct roce_rd_atomic *rd);

#endif
