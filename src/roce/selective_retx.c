/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retransmits only the packets that a sequence NAK requests: a run, [from, end).
 *
 *	NAK of p			run p, of one packet
 *	NAK of the run's end		the gap is longer: the next run is four times as long
 *	NAK of another packet		another gap: one packet again
 *	NAK of what is in the run	sent before the run arrived: ignored
 *	NAK of p again, or an
 *	impossible run			go-back-N
 *	ACK of the run only		the peer keeps nothing after a gap: go-back-N, after a
 *					run of one packet from now on; or the NAK before this ACK
 *					was lost: if the peer has kept packets before, or after a
 *					longer run, left to a probe, if the QP has a timeout
 *	ACK of more			repaired, and the peer keeps packets after a gap
 *	either, if no packet behind
 *	the run had left before it	repaired; tells nothing of the peer
 *
 * A probe (retry.c) finds lost packets of a run, since a gap gets one NAK.
 */
#include "roce/parts.h"
#include "roce/psn.h"
#include "roce/request.h"
#include "roce/retry.h"
#include "util/compiler.h"
#include "util/tuning.h"

static const struct roce_selective_retx none;

static uint32_t length(const struct roce_selective_retx *r)
{
	return psn_distance(r->from, r->end);
}

/*
 * Returns how many of the n packets from req.psn on are not completed by a response: answers have
 * PSNs of their own.
 */
static uint32_t without_response(const struct roce_qp *qp, uint32_t n)
{
	const struct send_queue *sq = &qp->wq->sq;

	for (uint32_t i = qp->req.index; i != sq->next; i++) {
		const struct send_wqe *w = sq_wqe(sq, i);

		if (roce_is_local_op(w) || !roce_wants_response(w))
			continue;
		if (psn_before(w->first_psn, qp->req.psn))
			return 0;
		return min(n, psn_distance(qp->req.psn, w->first_psn));
	}
	return n;
}

void roce_selective_retx_begin(struct roce_qp *qp)
{
	uint32_t una = qp->comp.una, n = 1;
	struct roce_req at = qp->req;
	bool again = length(&at.retx) && una == at.retx.from;

	if (length(&at.retx) && una == at.retx.end)
		n = min(TUNE_RETX_GROWTH * length(&at.retx), (uint32_t)TUNE_RETX_RUN_MAX);
	roce_requester_rewind(qp);
	if (at.goes_back || again || at.psn != at.high || at.halted)
		return;
	n = without_response(qp, min(n, psn_distance(una, at.high)));
	if (!n)
		return;
	at.retx = (struct roce_selective_retx){
		.from = una, .next = una, .end = psn_add(una, n), .high = at.high
	};
	qp->req = at;
}

bool roce_selective_retx_covers(const struct roce_qp *qp, uint32_t psn)
{
	const struct roce_selective_retx *r = &qp->req.retx;

	return !psn_before(psn, r->from) && psn_before(psn, r->end) &&
	       (psn != r->from || r->next == r->from);
}

/* An ACK may have arrived after the NAK. */
bool roce_selective_retx_left(struct roce_qp *qp)
{
	struct roce_selective_retx *r = &qp->req.retx;

	if (!psn_before(qp->comp.una, r->end))
		*r = none;
	else if (psn_before(r->next, qp->comp.una))
		r->next = qp->comp.una;
	return r->next != r->end;
}

/*
 * Requests an ACK and leaves req.psn unchanged. If the payload cannot be read, the request is
 * halted as if all had been rewound up to it.
 */
size_t roce_selective_retx_output(struct roce_qp *qp, uint8_t *buf, uint64_t now)
{
	struct roce_req at = qp->req;
	struct send_wqe *w;
	size_t len;

	roce_requester_rewind(qp);
	roce_requester_seek(qp, at.retx.next);
	qp->req.since_ack_req = TUNE_WINDOW_MAX;
	w = sq_wqe(&qp->wq->sq, qp->req.index);
	len = roce_request_build(qp, w, psn_distance(w->first_psn, qp->req.psn), buf);
	if (!len)
		return 0;
	roce_note(qp, NOTE_RETRANSMIT, at.retx.next, 0, REASON_NONE);
	at.retx.next = psn_add(at.retx.next, 1);
	qp->req = at;
	qp->counters.retransmitted_pkts++;
	roce_cc_sent(&qp->cc);
	roce_retry_sent(qp, now);
	return len;
}

void roce_selective_retx_judge(struct roce_qp *qp)
{
	struct roce_req *req = &qp->req;
	struct roce_selective_retx r = req->retx;

	if (r.next != r.end || psn_before(qp->comp.una, r.end))
		return;
	req->retx = none;
	if (r.end == r.high)
		return;
	req->keeps |= qp->comp.una != r.end;
	/* Without a timeout a local peer is not probed: only rules on faults lose packets. */
	if (req->keeps || (length(&r) != 1 && qp->wq->timeout))
		return;
	req->goes_back |= length(&r) == 1;
	roce_requester_rewind(qp);
}
