/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledgements as seen from both sides: the responder's pending ACK or NAK, and the requester's
 * credit limit.
 *
 * Coalescing (IBTA vol 1, 9.7.5): an ACK covers every request before it, so only the newest
 * is kept while a burst of packets comes in, and a response that leaves with the same or a newer
 * PSN makes it superfluous.  Only the NAK of a gap waits beside it.
 */
#include "roce/acknak.h"

#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "util/compiler.h"

/* The receive held for the message in progress counts: MSN does not include that message yet. */
uint8_t roce_ack_syndrome(const struct roce_qp *qp)
{
	const struct wq_qp *wq = qp->wq;

	if (wq->has_srq || wq->type != IBV_QPT_RC)
		return roce_syndrome(ROCE_AETH_ACK, ROCE_CREDITS_INVALID);
	return roce_syndrome(ROCE_AETH_ACK,
			     roce_credit_code(wq->rq.head - wq->rq.next + (qp->resp.wqe != NULL)));
}

void roce_credits_update(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	struct roce_comp *comp = &qp->comp;
	uint8_t code = roce_syndrome_value(pkt->aeth.syndrome);

	if (roce_syndrome_class(pkt->aeth.syndrome) != ROCE_AETH_ACK ||
	    psn_before(pkt->aeth.msn, comp->msn))
		return;
	comp->msn = pkt->aeth.msn;
	comp->lsn_known = code != ROCE_CREDITS_INVALID;
	if (comp->lsn_known)
		comp->lsn = psn_add(comp->msn, roce_credits(code));
}

static bool is_positive(const struct roce_ack *ack)
{
	return roce_syndrome_class(ack->syndrome) == ROCE_AETH_ACK;
}

void roce_ack_pend(struct roce_qp *qp, uint32_t psn)
{
	struct roce_ack *ack = &qp->resp.ack;

	if (ack->pending) {
		if (psn_before(psn, ack->psn))
			return;
		qp->counters.ack_deferred++;
	}
	*ack = (struct roce_ack){ .pending = true, .psn = psn };
}

void roce_nak_pend(struct roce_qp *qp, uint8_t syndrome, uint32_t psn)
{
	qp->resp.ack = (struct roce_ack){ .pending = true, .syndrome = syndrome, .psn = psn };
}

void roce_gap_pend(struct roce_qp *qp)
{
	qp->resp.gap_owed = true;
}

void roce_ack_implied(struct roce_qp *qp, uint32_t psn)
{
	struct roce_ack *ack = &qp->resp.ack;

	if (ack->pending && is_positive(ack) &&
	    !psn_before(psn, ack->psn))
		ack->pending = false;
}

static struct roce_ack take(struct roce_resp *resp)
{
	if (resp->gap_owed) {
		resp->gap_owed = false;
		return (struct roce_ack){ .syndrome = roce_syndrome(ROCE_AETH_NAK,
								    ROCE_NAK_PSN_SEQUENCE_ERROR),
					  .psn = resp->epsn };
	}
	resp->ack.pending = false;
	return resp->ack;
}

void roce_ack_take(struct roce_qp *qp, struct roce_pkt *pkt)
{
	struct roce_ack ack = take(&qp->resp);

	roce_prepare(qp, pkt, roce_response_opcode(qp->wq->type, ROCE_RC_ACKNOWLEDGE), ack.psn);
	pkt->aeth.syndrome = is_positive(&ack) ? roce_ack_syndrome(qp) : ack.syndrome;
	pkt->aeth.msn = qp->resp.msn;
}

void roce_ack_piggyback(struct roce_qp *qp, struct roce_piggyback_ack *ack)
{
	ack->any = true;
	ack->syndrome = roce_ack_syndrome(qp);
	ack->psn = qp->resp.ack.psn;
	ack->msn = qp->resp.msn;
	qp->resp.ack.pending = false;
	qp->counters.sent_pkts++;
}
