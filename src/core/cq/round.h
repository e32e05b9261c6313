/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A round: a thread takes packets, then transmits the QPs' responses. Receives that complete in a
 * round become visible after the responses have left. So when a peer sees the program's reaction,
 * by whatever channel, its own request has been acknowledged; an adapter also acknowledges before
 * it completes. One that is acknowledged already (wq_cqe.acked) need not wait. A delayed ACK
 * (tx_sched.h) leaves before anything that the program posts.
 *
 * A thread has one round at a time, and holds its rx queue's lock during it, so a CQ in the round
 * stays alive until the end (rx_queue.h).
 */
#ifndef VRB_CORE_CQ_ROUND_H
#define VRB_CORE_CQ_ROUND_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cq/cq.h"
#include "util/compiler.h"

enum { ROUND_CQS = 64 };	/* further completions become visible at once */

struct vrb_round {
	uint64_t now;
	unsigned int n;
	struct vrb_cq *cqs[ROUND_CQS];	/* CQs held by this round; one may appear twice */
};

/* the calling thread's, or NULL */
extern __thread struct vrb_round *vrb_round static_tls;

static inline void vrb_round_begin(struct vrb_round *round, uint64_t now)
{
	assert(!vrb_round);
	round->now = now;
	round->n = 0;
	vrb_round = round;
}

/* Call after transmitting the responses. */
static inline void vrb_round_end(struct vrb_round *round)
{
	vrb_round = NULL;
	for (unsigned int i = 0; i < round->n; i++)
		vrb_cq_show(round->cqs[i], round);
}

#endif
