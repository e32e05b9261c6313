/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ACK extended transport header: syndromes, end-to-end credits, and the one acknowledgement
 * that waits for the end of a burst (IBTA vol 1, 9.7.5 and 9.7.7).
 */
#ifndef VRB_ROCE_ACKNAK_H
#define VRB_ROCE_ACKNAK_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/const.h"
#include "roce/engine.h"
#include "roce/psn.h"

/* The syndrome of a positive acknowledgement now: credits, if the QP has receives of its own. */
uint8_t roce_ack_syndrome(const struct roce_qp *qp);

/* Takes the credits of an AETH that arrived into the requester's limit. */
void roce_credits_update(struct roce_qp *qp, const struct roce_pkt *pkt);

/* Has the responder promised no receive for the message with this sequence number? */
static inline bool roce_credits_short(const struct roce_qp *qp, uint32_t ssn)
{
	return qp->comp.lsn_known && psn_before(qp->comp.lsn, ssn);
}

/* May a request that consumes a receive go out? Without credit one packet at a time may, to ask. */
static inline bool roce_credits_allow(const struct roce_qp *qp, uint32_t ssn)
{
	return !roce_credits_short(qp, ssn) || qp->req.psn == qp->comp.una;
}

/* An ACK of everything up to psn wants to leave; replaces an older one, never a NAK as new. */
void roce_ack_pend(struct roce_qp *qp, uint32_t psn);

/* A NAK for the request with this psn wants to leave; it acknowledges everything before psn. */
void roce_nak_pend(struct roce_qp *qp, uint8_t syndrome, uint32_t psn);

/*
 * The packet at epsn is missing, as far as one behind it tells, and wants to be asked for.  If that
 * one is forged, the peer ignores the NAK, because it has not sent that PSN, so the NAK
 * acknowledges nothing: a pending ACK stays.  It leaves behind the NAK, where a peer that has sent
 * more discards it; in front it would say that nothing behind the gap is kept (selective_retx.c).
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

/*
 * Instead: may it leave beside a request, if one leaves? What READs and atomics are owed goes
 * first, and the NAK of a gap.
 */
static inline bool roce_ack_may_piggyback(const struct roce_qp *qp)
{
	return qp->resp.ack.pending && roce_syndrome_class(qp->resp.ack.syndrome) == ROCE_AETH_ACK &&
	       !qp->resp.rd_owed && !qp->resp.gap_owed;
}

/* And then it does. */
void roce_ack_piggyback(struct roce_qp *qp, struct roce_piggyback_ack *ack);

#endif
