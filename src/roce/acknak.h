/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ACK extended transport header: syndromes, end-to-end credits, and the one acknowledgement
 * that is pending until the end of a burst (IBTA vol 1, 9.7.5 and 9.7.7).
 *
 * Owns qp->resp.ack, resp.gap_owed and the credits in qp->comp. The responder makes an ACK or NAK
 * pending, response.c takes it, and request.c may piggyback it on a request.
 */
#ifndef VRB_ROCE_ACKNAK_H
#define VRB_ROCE_ACKNAK_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/const.h"
#include "roce/engine.h"
#include "roce/psn.h"

/* The syndrome of an ACK sent now: credits, unless the QP uses an SRQ. */
uint8_t roce_ack_syndrome(const struct roce_qp *qp);

/* Updates the requester's limit from the AETH of a received packet. */
void roce_credits_update(struct roce_qp *qp, const struct roce_pkt *pkt);

/* Has the responder promised no receive for the message with this sequence number? */
static inline bool roce_credits_short(const struct roce_qp *qp, uint32_t ssn)
{
	return qp->comp.lsn_known && psn_before(qp->comp.lsn, ssn);
}

/*
 * May a request that consumes a receive be sent? Without credits, one packet at a time may, as a
 * probe.
 */
static inline bool roce_credits_allow(const struct roce_qp *qp, uint32_t ssn)
{
	return !roce_credits_short(qp, ssn) || qp->req.psn == qp->comp.una;
}

/* Makes an ACK up to psn pending, unless an ACK or NAK of a later PSN is pending. */
void roce_ack_pend(struct roce_qp *qp, uint32_t psn);

/* Makes a NAK for the request with this PSN pending. It acknowledges everything before. */
void roce_nak_pend(struct roce_qp *qp, uint8_t syndrome, uint32_t psn);

/*
 * Makes a NAK for the packet at epsn pending, because a later one has arrived. If that one is
 * forged, the peer has not sent epsn yet and ignores the NAK, which then acknowledges nothing: so a
 * pending ACK stays. It is sent after the NAK, and a peer that has sent more discards it; before
 * the NAK it would say that nothing behind the gap is kept (selective_retx.c).
 */
void roce_gap_pend(struct roce_qp *qp);

/* Is an ACK or NAK pending? */
static inline bool roce_ack_due(const struct roce_qp *qp)
{
	return qp->resp.ack.pending || qp->resp.gap_owed;
}

/* A response with this PSN is about to be sent: drops a pending ACK that it implies. */
void roce_ack_implied(struct roce_qp *qp, uint32_t psn);

/* Takes the next pending ACK or NAK. One must be pending. */
void roce_ack_take(struct roce_qp *qp, struct roce_pkt *pkt);

/*
 * Can the pending ACK be piggybacked on a request? Not while responses to READs and atomics or the
 * NAK of a gap are due, which go first.
 */
static inline bool roce_ack_may_piggyback(const struct roce_qp *qp)
{
	return qp->resp.ack.pending &&
	       roce_syndrome_class(qp->resp.ack.syndrome) == ROCE_AETH_ACK && !qp->resp.rd_owed &&
	       !qp->resp.gap_owed;
}

/* Takes the pending ACK for that. */
void roce_ack_piggyback(struct roce_qp *qp, struct roce_piggyback_ack *ack);

#endif
