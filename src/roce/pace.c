/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing; pace.h has the contract. */
#include "roce/pace.h"

#include "util/compiler.h"

/* Wakes later than this for less are not worth a timer. */
#define PACE_SLACK (50 * VRB_USEC)

/* Nanoseconds that bytes take; 2^32 bytes at 1 kbit/s still fit. */
static uint64_t duration(const struct roce_qp *qp, uint64_t bytes)
{
	return bytes * 8 * 1000000 / qp->wq->rate_kbps;
}

void roce_pace_reset(struct roce_qp *qp)
{
	qp->pace = (struct roce_pace){ .resume = VRB_NEVER };
}

bool roce_pace_allows(struct roce_qp *qp, uint64_t now)
{
	struct roce_pace *p = &qp->pace;
	uint64_t ahead;

	if (!qp->wq->rate_kbps)
		return true;
	ahead = max(duration(qp, qp->wq->rate_burst), (uint64_t)PACE_SLACK);
	if (p->free <= time_after(now, ahead))
		return true;
	p->resume = p->free - ahead;
	return false;
}

void roce_pace_sent(struct roce_qp *qp, size_t len, uint64_t now)
{
	if (qp->wq->rate_kbps)
		qp->pace.free = time_after(max(qp->pace.free, now), duration(qp, len));
}

uint64_t roce_pace_next(const struct roce_qp *qp)
{
	return qp->pace.resume;
}

void roce_pace_expire(struct roce_qp *qp, uint64_t now)
{
	if (time_reached(qp->pace.resume, now))
		qp->pace.resume = VRB_NEVER;
}
