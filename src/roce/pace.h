/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing of requests (ibv_modify_qp_rate_limit, and dcqcn.h): a token bucket represented by a point
 * in time. Each packet advances it by the time that the packet takes at the QP's rate. A packet may
 * leave if the point is at most one burst ahead of now.
 *
 * READ responses are the requester's responsibility: its window limits what it requests. But it
 * requests many at a time, and on a congested path they must be spread. So after a sign of
 * congestion (a CNP, or a repeated request), the responses to the next READs leave about as fast as
 * the requester took earlier ones.
 */
#ifndef VRB_ROCE_PACE_H
#define VRB_ROCE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/engine.h"
#include "util/compiler.h"
#include "util/time.h"

void roce_pace_reset(struct roce_qp *qp);

/* Does a rate limit apply? */
static inline bool roce_is_paced(const struct roce_qp *qp)
{
	return unlikely(qp->wq->rate_kbps || qp->pace.dcqcn.kbps);
}

bool roce_pace_wait_over(struct roce_qp *qp, uint64_t now);

/* May a request leave now? If not, the engine's next deadline says when. */
static inline bool roce_pace_allows(struct roce_qp *qp, uint64_t now)
{
	return !roce_is_paced(qp) || roce_pace_wait_over(qp, now);
}

void roce_pace_count(struct roce_qp *qp, size_t len, uint64_t now);

static inline void roce_pace_sent(struct roce_qp *qp, size_t len, uint64_t now)
{
	if (roce_is_paced(qp))
		roce_pace_count(qp, len, now);
}

/* UC and UD: a CNP arrived. */
void roce_pace_notified(struct roce_qp *qp, uint64_t now);

/*
 * Responses to READs: a new READ of `packets` arrived; a sign of congestion; may the next response
 * leave now; it has left.
 */
void roce_pace_read(struct roce_qp *qp, uint32_t packets, uint64_t now);
void roce_pace_spread_answers(struct roce_qp *qp, bool lost);
bool roce_pace_answer_allows(struct roce_qp *qp, uint64_t now);
void roce_pace_answered(struct roce_qp *qp, uint64_t now);

static inline uint64_t roce_pace_next(const struct roce_qp *qp)
{
	return time_earlier(qp->pace.resume, qp->pace.answers.resume);
}

void roce_pace_expire(struct roce_qp *qp, uint64_t now);

#endif
