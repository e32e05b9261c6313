/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ACK extended transport header: syndromes, end-to-end credits, and the one acknowledgement
 * that waits for the end of a burst (IBTA vol 1, 9.7.5 and 9.7.7).
 */
#ifndef VRB_ROCE_ACKNAK_H
#define VRB_ROCE_ACKNAK_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"

/* The syndrome of a positive acknowledgement now: credits, if the QP has receives of its own. */
uint8_t roce_ack_syndrome(const struct roce_qp *qp);

/* Takes the credits of an AETH that arrived into the requester's limit. */
void roce_credits_update(struct roce_qp *qp, const struct roce_pkt *pkt);

/* Has the responder promised no receive for the message with this sequence number? */
bool roce_credits_short(const struct roce_qp *qp, uint32_t ssn);

/* May a request that consumes a receive go out? Without credit one packet at a time may, to ask. */
bool roce_credits_allow(const struct roce_qp *qp, uint32_t ssn);

/* An ACK of everything up to psn wants to leave; replaces an older one, never a NAK as new. */
void roce_ack_pend(struct roce_qp *qp, uint32_t psn);

/* A NAK for the request with this psn wants to leave; it acknowledges everything before psn. */
void roce_nak_pend(struct roce_qp *qp, uint8_t syndrome, uint32_t psn);

/*
 * The packet at epsn is missing, as far as one behind it tells, and wants to be asked for.  If that one is forged, the peer ignores the NAK, for
 * it has not sent what it names, and so hears no ACK by it: a pending one stays.  It leaves behind the NAK, where a peer that has sent
 * more discards it; in front it would say that nothing behind the gap is kept (repair.c).
 */
void roce_gap_pend(struct roce_qp *qp);

/* Is there an ACK or NAK that wants to leave? */
static inline bool roce_ack_due(const struct roce_qp *qp)
{
	return qp->resp.ack.pending || qp->resp.gap_owed;
}

/* A response with this psn is about to leave: does away with a pending ACK that it implies. */
void roce_ack_implied(struct roce_qp *qp, uint32_t psn);

/* Fills *pkt with the next of them and forgets it. One must be due. */
void roce_ack_take(struct roce_qp *qp, struct roce_pkt *pkt);

/* Instead: may it leave beside a request, if one leaves?  And then it does. */
bool roce_ack_may_ride(const struct roce_qp *qp);
void roce_ack_ride(struct roce_qp *qp, struct roce_rider *ack);

#endif
