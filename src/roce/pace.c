/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing; pace.h documents the interface. */
#include "roce/pace.h"

#include "roce/parts.h"
#include "util/compiler.h"
#include "util/tuning.h"

enum {
	HEADERS = 20,		/* approximate length per packet */
};

/* Returns the nanoseconds that `bytes` take; 2^32 bytes at 1 kbit/s do not overflow. */
static uint64_t duration(uint32_t kbps, uint64_t bytes)
{
	return bytes * 8 * 1000000 / kbps;
}

/* The smaller of the program's limit and the congestion limit; 0: none. */
static uint32_t rate(const struct roce_qp *qp)
{
	uint32_t own = qp->wq->rate_kbps, cnp = qp->pace.dcqcn.kbps;

	return own && cnp ? min(own, cnp) : own + cnp;
}

void roce_pace_reset(struct roce_qp *qp)
{
	qp->pace = (struct roce_pace){ .resume = VRB_NEVER };
	qp->pace.answers.resume = VRB_NEVER;
}

bool roce_pace_wait_over(struct roce_qp *qp, uint64_t now)
{
	struct roce_pace *p = &qp->pace;
	uint64_t ahead = TUNE_PACE_SLACK;

	if (unlikely(p->dcqcn.kbps)) {
		roce_dcqcn_recover(&p->dcqcn, now);
		if (!p->dcqcn.kbps)
			roce_note(qp, NOTE_RATE, 0, 0, REASON_NONE);
	}
	if (!rate(qp))
		return true;
	if (qp->wq->rate_kbps)
		ahead = max(duration(qp->wq->rate_kbps, qp->wq->rate_burst), ahead);
	if (p->free <= time_after(now, ahead))
		return true;
	p->resume = p->free - ahead;
	return false;
}

void roce_pace_count(struct roce_qp *qp, size_t len, uint64_t now)
{
	uint32_t kbps = rate(qp);

	if (kbps)
		qp->pace.free = time_after(max(qp->pace.free, now), duration(kbps, len));
}

void roce_pace_notified(struct roce_qp *qp, uint64_t now)
{
	const struct roce_counters *c = &qp->counters;

	roce_dcqcn_notified(&qp->pace.dcqcn, c->sent_bytes + c->sent_pkts * HEADERS, now);
	roce_note(qp, NOTE_RATE, 0, qp->pace.dcqcn.kbps, REASON_NONE);
}

/*
 * Measures how long the requester takes for a packet, from the interval between its requests; its
 * pauses do not count.
 */
void roce_pace_read(struct roce_qp *qp, uint32_t packets, uint64_t now)
{
	struct roce_answer_pace *a = &qp->pace.answers;
	uint64_t took = now > a->asked_at && a->asked ? (now - a->asked_at) / a->asked : 0;
	uint64_t slowest = max(TUNE_PACE_STALL * a->gap, TUNE_PACE_SLACK);

	if (a->asked && took <= LIMIT_PACE_GAP_MAX)
		a->gap = a->gap - a->gap / 4 + min(took, slowest) / 4;
	if (a->spread)
		a->spread--;
	a->asked = packets;
	a->asked_at = now;
}

void roce_pace_spread_answers(struct roce_qp *qp, bool lost)
{
	struct roce_answer_pace *a = &qp->pace.answers;

	a->spread = TUNE_PACE_SPREAD;
	if (lost)
		a->asked = 0;	/* the time of a retransmission must not be measured */
}

bool roce_pace_answer_allows(struct roce_qp *qp, uint64_t now)
{
	struct roce_answer_pace *a = &qp->pace.answers;
	uint64_t ahead = max(TUNE_PACE_AHEAD * a->gap, TUNE_PACE_SLACK);

	if (!a->spread || a->free <= time_after(now, ahead))
		return true;
	a->resume = a->free - ahead;
	return false;
}

/* Send a little faster than the requester takes them, because the path may have become free. */
void roce_pace_answered(struct roce_qp *qp, uint64_t now)
{
	struct roce_answer_pace *a = &qp->pace.answers;

	if (a->spread)
		a->free = time_after(max(a->free, now), a->gap * 4 / 5);
}

void roce_pace_expire(struct roce_qp *qp, uint64_t now)
{
	if (time_reached(qp->pace.resume, now))
		qp->pace.resume = VRB_NEVER;
	if (time_reached(qp->pace.answers.resume, now))
		qp->pace.answers.resume = VRB_NEVER;
}
