/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A round: a thread takes packets, then lets the QPs answer.  The receives that packets complete are shown to the program when the answers have
 * left, as an adapter acknowledges a message before the program hears of it: whoever sees the program's reaction, on whatever way, finds its own
 * request acknowledged.  An ACK that was put off (answer.h) leaves before anything that the program posts.
 *
 * Each thread has one round at a time, under its receiver's lock; so a CQ in it lives until its end (receiver.h).
 */
#ifndef VRB_CORE_ROUND_H
#define VRB_CORE_ROUND_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cq.h"

enum { ROUND_CQS = 64 };	/* beyond so many completions are shown at once */

struct vrb_round {
	uint64_t now;
	unsigned int n;
	struct vrb_cq *cqs[ROUND_CQS];	/* that are held; one may be there twice */
};

extern __thread struct vrb_round *vrb_round __attribute__((tls_model("initial-exec")));	/* the calling thread's, or NULL */

static inline void vrb_round_begin(struct vrb_round *round, uint64_t now)
{
	assert(!vrb_round);
	round->now = now;
	round->n = 0;
	vrb_round = round;
}

/* After the answers. */
static inline void vrb_round_end(struct vrb_round *round)
{
	vrb_round = NULL;
	for (unsigned int i = 0; i < round->n; i++)
		vrb_cq_show(round->cqs[i], round);
}

#endif
