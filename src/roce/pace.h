/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing of requests (ibv_modify_qp_rate_limit): a token bucket kept as a point in time.  Each
 * packet moves it by the time that the packet takes at the QP's rate; a packet may leave when it
 * lies no further ahead than a burst takes.  Answers to the peer are not paced: they are its
 * requests' doing.
 */
#ifndef VRB_ROCE_PACE_H
#define VRB_ROCE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roce/engine.h"

void roce_pace_reset(struct roce_qp *qp);

/* May a request leave now? If not, the engine's deadline says when. */
bool roce_pace_allows(struct roce_qp *qp, uint64_t now);
void roce_pace_sent(struct roce_qp *qp, size_t len, uint64_t now);

uint64_t roce_pace_next(const struct roce_qp *qp);
void roce_pace_expire(struct roce_qp *qp, uint64_t now);

#endif
