/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledgements on both sides: the responder's pending ACK or NAK, and the requester's credit
 * limit.
 *
 * Coalescing (IBTA vol 1, 9.7.5): an ACK covers every request before it, so only the newest is kept
 * while a burst of packets arrives. A response with the same or a newer PSN makes it superfluous.
 * Only the NAK of a gap is kept separately.
 */
#include "roce/acknak.h"

#include <stddef.h>
#include <string.h>

#include "roce/const.h"
#include "roce/message.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "util/compiler.h"

/* Count the receive held for the message in progress: MSN does not include that message yet. */
uint8_t roce_ack_syndrome(const struct roce_qp *qp)
{
	const struct wq_qp *wq = qp->wq;

	if (wq->has_srq || wq->type != IBV_QPT_RC)
		return roce_syndrome(ROCE_AETH_ACK, ROCE_CREDITS_INVALID);
	return roce_syndrome(ROCE_AETH_ACK,
			     roce_credit_code(wq->rq.head - wq->rq.next + (qp->resp.wqe != NULL)));
}

void roce_credits_update(struct roce_qp *qp, uint8_t syndrome, uint32_t msn)
{
	struct roce_comp *comp = &qp->comp;
	uint8_t code = roce_syndrome_value(syndrome);

	if (roce_syndrome_class(syndrome) != ROCE_AETH_ACK || psn_before(msn, comp->msn))
		return;
	comp->msn = msn;
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
	qp->resp.gap_nak_pending = true;
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
	if (resp->gap_nak_pending) {
		resp->gap_nak_pending = false;
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

static void fill(const struct roce_qp *qp, struct roce_piggyback_ack *ack, uint32_t psn)
{
	ack->any = true;
	ack->syndrome = roce_ack_syndrome(qp);
	ack->psn = psn;
	ack->msn = qp->resp.msn;
}

void roce_ack_piggyback(struct roce_qp *qp, struct roce_piggyback_ack *ack)
{
	fill(qp, ack, qp->resp.ack.psn);
	qp->resp.ack.pending = false;
	qp->counters.sent_pkts++;
}

void roce_ack_beside_message(struct roce_qp *qp, struct roce_piggyback_ack *ack)
{
	if (qp->resp.ack.pending)
		roce_ack_piggyback(qp, ack);
	else if (qp->resp.ack_published)
		fill(qp, ack, qp->resp.ack_psn);
	qp->resp.ack_published = false;
}

void roce_ack_publish(struct roce_qp *qp, struct roce_piggyback_ack *ack)
{
	roce_ack_pend(qp, qp->resp.ack_psn);
	if (!ack->allowed || !roce_ack_may_piggyback(qp))
		return;
	roce_ack_piggyback(qp, ack);
	qp->resp.ack_published = true;
}

void roce_ack_show(const struct roce_qp *qp, struct roce_piggyback_ack *ack)
{
	fill(qp, ack, qp->resp.ack.psn);
}

void roce_ack_packet(const struct roce_qp *qp, const struct roce_piggyback_ack *ack,
		     struct roce_pkt *pkt)
{
	memset(pkt, 0, offsetof(struct roce_pkt, path));
	pkt->bth = (struct roce_bth){
		.opcode = ROCE_RC_ACKNOWLEDGE,
		.mig_req = true,
		.pkey = ROCE_PKEY_DEFAULT,
		.dest_qpn = qp->wq->qpn,
		.psn = ack->psn,
	};
	pkt->aeth.syndrome = ack->syndrome;
	pkt->aeth.msn = ack->msn;
}

size_t roce_ack_newest(struct roce_qp *qp, uint8_t *buf)
{
	struct roce_pkt pkt;

	roce_prepare(qp, &pkt, ROCE_RC_ACKNOWLEDGE, qp->resp.ack_psn);
	pkt.aeth.syndrome = roce_ack_syndrome(qp);
	pkt.aeth.msn = qp->resp.msn;
	return roce_put_pad(qp, buf, roce_put_headers(&pkt, buf, 0), 0);
}

size_t roce_ack_last(struct roce_qp *qp, uint8_t *buf)
{
	struct roce_pkt pkt;

	if (!qp->resp.ack.pending)
		return 0;
	qp->resp.gap_nak_pending = false;
	roce_ack_take(qp, &pkt);
	return roce_put_pad(qp, buf, roce_put_headers(&pkt, buf, 0), 0);
}
