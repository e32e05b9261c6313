/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timeouts, go-back-N, RNR waits and limits of the requester.
 *
 *	         sent           progress, something in flight
 *	 off ------------> ack_deadline <---.          RNR NAK
 *	  ^                 |   |     '----'     any ------------> rnr_deadline, ack timer off
 *	  '-----------------'   | passed                                | passed
 *	  all acknowledged      v                                       v
 *	                    retry: psn := una, off                  sending resumes
 *
 * Both counters are reset after progress (IBTA vol 1, 9.9.2): they count consecutive failures.
 * A retry_cnt of 7 means seven, an rnr_retry of 7 unlimited.
 */
#include "roce/retry.h"

#include "roce/message.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum {
	PROBES_MAX = 20
}; /* doubling a millisecond more often would exceed any timeout */

/* Why the QP fails when a cause has exhausted its retries. */
static const enum reason exhausted[ROCE_RETRY_CAUSES] = {
	[ROCE_RETRY_TIMEOUT] = REASON_RETRY_TIMEOUT,
	[ROCE_RETRY_NAK] = REASON_RETRY_SEQUENCE,
	[ROCE_RETRY_GAP] = REASON_RETRY_SEQUENCE,
};

uint32_t roce_window_limit(const struct roce_qp *qp)
{
	return min(TUNE_WINDOW_BYTES / max(qp->wq->mtu, 256u), (uint32_t)TUNE_WINDOW_MAX);
}

static void stop_ack_timer(struct roce_qp *qp)
{
	qp->retry.ack_deadline = VRB_NEVER;
	qp->retry.probe_at = VRB_NEVER;
}

void roce_retry_stop(struct roce_qp *qp)
{
	stop_ack_timer(qp);
	qp->retry.rnr_deadline = VRB_NEVER;
}

void roce_retry_start(struct roce_qp *qp)
{
	qp->retry = (struct roce_retry){
		.left = qp->wq->retry_cnt,
		.rnr_left = qp->wq->rnr_retry,
	};
	roce_cc_start(&qp->cc, roce_window_limit(qp), TUNE_WINDOW_MAX, qp->comp.una);
	roce_retry_stop(qp);
}

/*
 * A payload that the receiver fetches is acknowledged once the fetch is done: allow a nanosecond
 * for each byte.
 */
static uint64_t pull_time(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;
	const struct send_wqe *w = sq_wqe(sq, sq->done);

	return sq->done != sq->next && w->flags & WQE_WHOLE ? w->length : 0;
}

static uint64_t ack_timeout(const struct roce_qp *qp)
{
	uint8_t timeout = qp->wq->timeout;

	if (timeout)
		timeout = max(timeout, (uint8_t)TUNE_TIMEOUT_FLOOR);
	return roce_ack_timeout_ns(timeout);
}

static void restart_ack_timer(struct roce_qp *qp, uint64_t now)
{
	qp->retry.ack_deadline = time_after(now, ack_timeout(qp));
	qp->retry.ack_deadline = time_after(qp->retry.ack_deadline, pull_time(qp));
}

/*
 * Probe long before the ack timeout, which is set for the worst network: after a few round trips
 * without an answer, a few packets are worth sending. But never probe earlier, whatever the
 * timeout: needless probes fill the queue that makes round trips long. A QP without an ack timeout
 * probes as well, PROBES_MAX times: it waits for ever, but not for what is lost.
 */
static void restart_probe_timer(struct roce_qp *qp, uint64_t now)
{
	uint64_t least = TUNE_PROBE_RTTS * qp->cc.rtt;
	uint64_t wait = max(least, TUNE_PROBE_MIN) << qp->retry.probes;
	uint64_t at;

	wait = max(min(wait, ack_timeout(qp) / TUNE_PROBE_PART), least);
	at = time_after(time_after(now, wait), pull_time(qp));
	if (at < qp->retry.ack_deadline && (qp->wq->timeout || qp->retry.probes < PROBES_MAX))
		qp->retry.probe_at = at;
	else
		qp->retry.probe_at = VRB_NEVER;
}

static void start_timers(struct roce_qp *qp, uint64_t now)
{
	restart_ack_timer(qp, now);
	restart_probe_timer(qp, now);
}

/* A packet that requests an answer has left. */
void roce_retry_sent(struct roce_qp *qp, uint64_t now)
{
	if (qp->retry.ack_deadline == VRB_NEVER)
		start_timers(qp, now);
}

/* una advanced by psns. */
void roce_retry_progress(struct roce_qp *qp, uint32_t psns, uint64_t now)
{
	qp->retry.left = qp->wq->retry_cnt;
	qp->retry.rnr_left = qp->wq->rnr_retry;
	qp->retry.probes = 0;
	roce_cc_acked(&qp->cc, qp->comp.una, psns * max(qp->wq->active_qps, 1u), now);
	roce_note_window(qp);
	if (qp->req.psn == qp->comp.una)
		stop_ack_timer(qp);
	else
		start_timers(qp, now);
}

void roce_retry_passed(struct roce_qp *qp)
{
	stop_ack_timer(qp);
	qp->retry.left = qp->wq->retry_cnt;
	qp->retry.rnr_left = qp->wq->rnr_retry;
	qp->retry.probes = 0;
	roce_cc_passed(&qp->cc, qp->comp.una);
}

void roce_watch(struct roce_qp *qp, uint64_t now)
{
	if (roce_runs_requester(qp) && qp->req.psn != qp->comp.una &&
	    qp->retry.rnr_deadline == VRB_NEVER)
		roce_retry_sent(qp, now);
}

static enum reason why_exhausted(const struct roce_qp *qp, enum roce_retry_cause cause)
{
	if (cause == ROCE_RETRY_TIMEOUT && qp->comp.strayed &&
	    qp->comp.una == psn_add(qp->wq->sq_psn, 0))
		return REASON_RETRY_PSN;
	if (cause == ROCE_RETRY_TIMEOUT && qp->wq->unreached)
		return (enum reason)qp->wq->unreached;
	return exhausted[cause];
}

static void send_again(struct roce_qp *qp, enum roce_retry_cause cause)
{
	if (cause == ROCE_RETRY_TIMEOUT)
		roce_cc_probe(&qp->cc, qp->comp.una, qp->req.high);
	else
		roce_cc_lost(&qp->cc, qp->comp.una, qp->req.high);
	roce_note_window(qp);
	if (cause == ROCE_RETRY_NAK)
		roce_selective_retx_begin(qp);
	else
		roce_requester_rewind(qp);
}

/*
 * The QP has failed already if the packet completed all before a halted request; the same below.
 */
void roce_retry(struct roce_qp *qp, enum roce_retry_cause cause)
{
	if (qp->flushed)
		return;
	if (!qp->retry.left && !roce_migrate(qp)) {
		qp->counters.retry_exceeded_err++;
		roce_enter_error(qp, IBV_WC_RETRY_EXC_ERR, why_exhausted(qp, cause));
		return;
	}
	if (qp->retry.left)
		qp->retry.left--;
	if (cause == ROCE_RETRY_TIMEOUT)
		roce_note(qp, NOTE_TIMEOUT, qp->comp.una, qp->retry.left, why_exhausted(qp, cause));
	qp->counters.completer_retry_err++;
	stop_ack_timer(qp);
	send_again(qp, cause);
}

void roce_retry_rnr(struct roce_qp *qp, uint8_t timer, uint64_t now)
{
	if (qp->flushed)
		return;
	if (!qp->retry.rnr_left) {
		qp->counters.retry_rnr_exceeded_err++;
		roce_enter_error(qp, IBV_WC_RNR_RETRY_EXC_ERR, REASON_RNR_EXCEEDED);
		return;
	}
	if (qp->wq->rnr_retry != ROCE_RNR_RETRY_INFINITE)
		qp->retry.rnr_left--;
	stop_ack_timer(qp);
	roce_cc_untime(&qp->cc);
	qp->retry.rnr_deadline = time_after(now, roce_rnr_timer_ns(timer));
	roce_note(qp, NOTE_RNR_RCVD, qp->comp.una, roce_rnr_timer_ns(timer), REASON_NONE);
	roce_requester_rewind(qp);
}

void roce_burst_reset(struct roce_qp *qp)
{
	qp->burst = (struct roce_burst){ .resume = VRB_NEVER };
}

/*
 * The last packets may be lost with no later one to show the gap; or their ACK or NAK is lost, or a
 * retransmission after the single NAK of a gap. Resending the oldest packet makes the peer report
 * its PSN. The ack timeout continues, and no retry is used up.
 */
void roce_probe(struct roce_qp *qp, uint64_t now)
{
	if (qp->retry.probes < PROBES_MAX)
		qp->retry.probes++;
	restart_probe_timer(qp, now);
	if (qp->req.psn == qp->comp.una || qp->req.halted)
		return;
	roce_note(qp, NOTE_PROBE, qp->comp.una, 0, REASON_NONE);
	roce_cc_probe(&qp->cc, qp->comp.una, qp->req.high);
	roce_note_window(qp);
	roce_requester_rewind(qp);
}

bool roce_ack_overdue(const struct roce_qp *qp, uint64_t now)
{
	return time_reached(qp->retry.ack_deadline, now);
}

uint64_t roce_reply_due(const struct roce_qp *qp)
{
	return time_earlier(qp->retry.ack_deadline, qp->retry.probe_at);
}

void roce_defer_timeout(struct roce_qp *qp, uint64_t now)
{
	if (qp->retry.probes < PROBES_MAX)
		qp->retry.probes++;
	if (qp->req.high != qp->comp.una)
		roce_cc_peer_waits(&qp->cc, qp->req.high);
	if (roce_ack_overdue(qp, now))
		restart_ack_timer(qp, now);
	restart_probe_timer(qp, now);
}

void roce_retry_expire(struct roce_qp *qp, uint64_t now)
{
	if (time_reached(qp->burst.resume, now))
		qp->burst.resume = VRB_NEVER;
	if (time_reached(qp->retry.rnr_deadline, now))
		qp->retry.rnr_deadline = VRB_NEVER;
	if (time_reached(qp->retry.ack_deadline, now))
		roce_retry(qp, ROCE_RETRY_TIMEOUT);
	else if (time_reached(qp->retry.probe_at, now))
		roce_probe(qp, now);
	if (time_reached(qp->cc.slot_end, now))
		qp->cc.held = false;
}
