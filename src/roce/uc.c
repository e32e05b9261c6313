/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where UC differs from RC (IBTA vol 1, 9.8.2): nothing is acknowledged or repeated.
 *
 *	requester	a WQE is complete after its last packet
 *	responder	a gap ends the message in progress; its receive serves the next one.
 *			The next FIRST or ONLY is accepted; every packet before it is dropped. Data
 *			that an RDMA WRITE has written stays.
 *
 * The specification assumes a fabric without duplicates, but UDP has them. A packet whose PSN is
 * slightly earlier than the expected one counts as a duplicate, unless it came by a way that has
 * none: then the peer has been reset.
 */
#include "roce/parts.h"
#include "roce/psn.h"

enum {
	UC_DUPLICATE_RANGE = 1024,
};

static bool is_duplicate(const struct roce_resp *resp, const struct roce_pkt *pkt)
{
	uint32_t behind = psn_distance(pkt->bth.psn, resp->epsn);

	return resp->synced && !pkt->in_order && behind && behind <= UC_DUPLICATE_RANGE;
}

/*
 * The very first packet may have any PSN. A router that drops has a full queue, as one that marks
 * has a long one: only a CNP can tell the sender.
 */
static void note_gap(struct roce_qp *qp, const struct roce_pkt *pkt)
{
	qp->counters.out_of_seq_request++;
	if (!qp->resp.synced || pkt->in_order)
		return;
	qp->counters.lost_pkts += psn_distance(qp->resp.epsn, pkt->bth.psn);
	qp->resp.cnp_pending = true;
}

/* The message in progress can no longer be completed. Returns false if there is none. */
static bool end_message(struct roce_qp *qp)
{
	if (qp->resp.msg == ROCE_MSG_NONE)
		return false;
	roce_responder_drop_message(qp);
	roce_message_dropped(qp, REASON_DROP_BROKEN);
	return true;
}

enum roce_uc_verdict roce_uc_check_psn(struct roce_qp *qp, const struct roce_pkt *pkt, bool begins)
{
	struct roce_resp *resp = &qp->resp;
	uint32_t psn = pkt->bth.psn;
	bool gap, ended;

	if (is_duplicate(resp, pkt)) {
		qp->counters.duplicate_request++;
		return ROCE_UC_DROP;
	}
	gap = psn != resp->epsn;
	if (gap)
		note_gap(qp, pkt);
	ended = (begins || gap) && end_message(qp);
	resp->synced = true;
	resp->epsn = psn;
	if (begins || resp->msg != ROCE_MSG_NONE)
		return ROCE_UC_ACCEPT;
	/* The missing packets belong to another message, or to one dropped and counted before. */
	if (gap && !ended)
		roce_message_dropped(qp, REASON_DROP_BROKEN);
	resp->epsn = psn_add(psn, 1);
	return ROCE_UC_DROP;
}

void roce_uc_sent(struct roce_qp *qp)
{
	qp->comp.una = qp->req.psn;
	if (qp->wq->sq.done != qp->req.index)
		roce_complete_send(qp);
	roce_completer_settle(qp);
}
