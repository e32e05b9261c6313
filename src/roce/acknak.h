/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ACK extended transport header: syndromes, end-to-end credits, and the single acknowledgement
 * that stays pending until the end of a burst (IBTA vol 1, 9.7.5 and 9.7.7).
 *
 * Owns qp->resp.ack, resp.gap_nak_pending and the credits in qp->comp. The responder makes an ACK
 * or NAK pending, response.c takes it, and request.c may piggyback it on a request.
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

/* Updates the requester's limit from a received AETH. */
void roce_credits_update(struct roce_qp *qp, uint8_t syndrome, uint32_t msn);

/* Has the responder advertised no receive for the message with this sequence number? */
static inline bool roce_credits_short(const struct roce_qp *qp, uint32_t ssn)
{
	return qp->comp.lsn_known && psn_before(qp->comp.lsn, ssn);
}

/*
 * May a request that consumes a receive be sent? Without credits, one packet at a time may be sent,
 * as a probe.
 */
static inline bool roce_credits_allow(const struct roce_qp *qp, uint32_t ssn)
{
	return !roce_credits_short(qp, ssn) || qp->req.psn == qp->comp.una;
}

/* Makes an ACK up to psn pending, unless an ACK or NAK of a later PSN is pending. */
void roce_ack_pend(struct roce_qp *qp, uint32_t psn);

/* Makes a NAK for the request with this PSN pending. It acknowledges every earlier request. */
void roce_nak_pend(struct roce_qp *qp, uint8_t syndrome, uint32_t psn);

/*
 * Makes a NAK for the packet at epsn pending, because a later one has arrived. If the later packet
 * is forged, the peer has not sent epsn yet and ignores the NAK, which then acknowledges nothing.
 * So a pending ACK is kept and sent after the NAK; a peer that has sent more discards it. Sent
 * before the NAK, it would mean that no packet after the gap is kept (selective_retx.c).
 */
void roce_gap_pend(struct roce_qp *qp);

/* Is an ACK or NAK pending? */
static inline bool roce_ack_due(const struct roce_qp *qp)
{
	return qp->resp.ack.pending || qp->resp.gap_nak_pending;
}

/* A response with this PSN is about to be sent: drops a pending ACK that it includes. */
void roce_ack_implied(struct roce_qp *qp, uint32_t psn);

/* Takes the next pending ACK or NAK. One must be pending. */
void roce_ack_take(struct roce_qp *qp, struct roce_pkt *pkt);

/*
 * Can the pending ACK be piggybacked on a request? Not while responses to READs and atomics or the
 * NAK of a gap are pending, which are sent first.
 */
static inline bool roce_ack_may_piggyback(const struct roce_qp *qp)
{
	return qp->resp.ack.pending &&
	       roce_syndrome_class(qp->resp.ack.syndrome) == ROCE_AETH_ACK &&
	       !qp->resp.rd_pending && !qp->resp.gap_nak_pending;
}

/* Takes the pending ACK for a request to carry. */
void roce_ack_piggyback(struct roce_qp *qp, struct roce_piggyback_ack *ack);

/*
 * The request at ack_psn was executed: takes its ACK if ack->allowed, or makes it pending if it
 * must be sent as a packet, after others.
 */
void roce_ack_publish(struct roce_qp *qp, struct roce_piggyback_ack *ack);

/* As roce_ack_piggyback(), for a message, which repeats an ACK that was published. */
void roce_ack_beside_message(struct roce_qp *qp, struct roce_piggyback_ack *ack);

#endif
