/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a poller looks for words, by which peers acknowledge messages (peer_word.h). A look takes
 * cache lines away from peers that write them for each message. Where the ACK mostly comes beside
 * the peer's reply, looks are in vain, and a poller looks only after TUNE_WORD_LOOK polls without a
 * reply or a look, if these follow each other at once. A reply does not postpone the words of other
 * QPs: they are read before it is executed (demux.c).
 *
 * The caller serialises. Pure code.
 */
#ifndef VRB_CORE_LOCAL_WORD_LOOKS_H
#define VRB_CORE_LOCAL_WORD_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct word_looks {
	/* two for each reply with an ACK, less one for each look that found words; bounded */
	uint8_t replies;
	uint8_t polls;		/* since the last look or reply */
	uint64_t polled_at;	/* when last */
};

static inline void word_looks_replied(struct word_looks *w)
{
	if (w->replies < 2 * TUNE_WORD_REPLIES)
		w->replies += 2;
	w->polls = 0;
}

static inline void word_looks_found(struct word_looks *w)
{
	w->replies -= w->replies > 0;
}

/* At each poll: look now? */
static inline bool word_looks_due(struct word_looks *w, uint64_t now)
{
	bool steady = time_since(w->polled_at, now) < LIMIT_WORD_STEADY;

	w->polled_at = now;
	if (w->replies >= TUNE_WORD_REPLIES && steady && ++w->polls < TUNE_WORD_LOOK)
		return false;
	w->polls = 0;
	return true;
}

#endif
