/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs. Core sends and receives their frames, which are not packets of the engine. The
 * engine keeps only what all QPs have in common: the order of the queue, its pace, its errors and
 * its end.
 */
#include "roce/faults.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "util/compiler.h"

/* Returns how many requests core may take; a drain ends with the request that has begun. */
static uint32_t allowed(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;

	if (qp->wq->state == IBV_QPS_SQD)
		return sq->next - sq->done;
	return qp->wq->rate_kbps ? min(sq->head - sq->done, 1u) : sq->head - sq->done;
}

static void advance(struct roce_qp *qp, uint32_t n, uint64_t now)
{
	struct send_queue *sq = &qp->wq->sq;

	for (; n; n--) {
		uint32_t len = sq_wqe(sq, sq->done)->length;

		roce_pace_sent(qp, len, now);
		qp->counters.sent_pkts++;
		qp->counters.sent_bytes += len;
		if (sq->next == sq->done)
			sq->next++;
		qp->req.index = sq->next;
		roce_complete_send(qp);
	}
}

void roce_raw_output(struct roce_qp *qp, uint64_t now)
{
	struct wq_qp *wq = qp->wq;
	enum reason why = REASON_NONE;
	bool more = true;
	uint32_t most;

	while (more && !why && (most = allowed(qp)) && roce_pace_allows(qp, now)) {
		bool begun = false;
		uint32_t n = wq->ops->send_frames(wq, most, &begun, &why);

		advance(qp, n, now);
		if (begun && wq->sq.next == wq->sq.done)
			qp->req.index = ++wq->sq.next;
		more = n == most;
	}
	if (why)
		roce_send_error(qp, why);
	else
		roce_check_drained(qp);
}

void roce_raw_failed(struct roce_qp *qp, struct wq_cqe *cqe, enum reason why)
{
	cqe->status = roce_fault(why)->status;
	cqe->reason = why;
	cqe->byte_len = 0;
	qp->wq->ops->complete(qp->wq, cqe);
	roce_enter_error(qp, IBV_WC_WR_FLUSH_ERR, REASON_WR_FLUSHED);
	roce_check(qp);
}
