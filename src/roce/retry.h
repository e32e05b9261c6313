/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retransmission: local ACK timeout, RNR wait, retry counters and the limit of packets in flight.
 * Only retry.c sets the deadlines of qp->retry (IBTA vol 1, 9.7.6 and 9.9.2); the window is cc.c's,
 * pacing is pace.c's.
 *
 * Owns qp->retry and qp->burst. The requester reports what it sends, the completer what arrives;
 * engine.c asks for the next deadline and calls roce_retry_expire() after it. Times are in ns.
 */
#ifndef VRB_ROCE_RETRY_H
#define VRB_ROCE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "util/time.h"
#include "util/tuning.h"

/* Causes of a retransmission. */
enum roce_retry_cause {
	ROCE_RETRY_TIMEOUT, /* no answer within the local ack timeout */
	ROCE_RETRY_NAK,     /* NAK PSN sequence error */
	ROCE_RETRY_GAP,     /* an answer after a missing one: an implied NAK */
	ROCE_RETRY_CAUSES
};

/* Returns the largest window for the QP's MTU. */
uint32_t roce_window_limit(const struct roce_qp *qp);

void roce_retry_start(struct roce_qp *qp); /* resets the counters, stops the timers */
void roce_retry_stop(struct roce_qp *qp);  /* stops the timers */

/* A request was sent: starts the timer if it is not running. */
void roce_retry_sent(struct roce_qp *qp, uint64_t now);

/* `psns` more PSNs are acknowledged: resets the counters, and the deadline for the rest. */
void roce_retry_progress(struct roce_qp *qp, uint32_t psns, uint64_t now);

/* Messages were acknowledged: resets the counters, and stops the timers until roce_watch(). */
void roce_retry_passed(struct roce_qp *qp);

/* Goes back to the oldest unacknowledged PSN, or fails the QP when the retries are exhausted. */
void roce_retry(struct roce_qp *qp, enum roce_retry_cause cause);

/*
 * As roce_retry(), for an RNR NAK: sending resumes after the peer's timer, encoded as in the
 * syndrome.
 */
void roce_retry_rnr(struct roce_qp *qp, uint8_t timer, uint64_t now);

/* May another packet leave now? If not, the burst continues 1 ns later, in the next round. */
static inline bool roce_burst_allows(struct roce_qp *qp, uint64_t now)
{
	struct roce_burst *b = &qp->burst;

	if (b->time != now)
		*b = (struct roce_burst){ .time = now, .resume = VRB_NEVER };
	if (b->packets < LIMIT_BURST_MAX) {
		b->packets++;
		return true;
	}
	b->resume = time_after(now, 1);
	return false;
}
void roce_burst_reset(struct roce_qp *qp);

/* Returns the next deadline; VRB_NEVER: none. */
static inline uint64_t roce_retry_next(const struct roce_qp *qp)
{
	uint64_t waiting = time_earlier(qp->retry.ack_deadline, qp->retry.rnr_deadline);
	uint64_t sending = time_earlier(qp->burst.resume, roce_cc_resume(&qp->cc));

	return time_earlier(time_earlier(waiting, qp->retry.probe_at), sending);
}

/* Handles the deadlines that have passed. */
void roce_retry_expire(struct roce_qp *qp, uint64_t now);

#endif
