/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long the progress thread polls the wire for the next one-sided request of a peer. While the
 * program does not poll, each request would have to wake the thread, which may take longer than all
 * the rest of a READ. A peer that sends its next request once it has the reply does so soon.
 *
 * The thread polls for TUNE_REQUEST_WAIT after a request if the last ones came that soon; if one
 * does not, a number of requests are awaited asleep, as in core/cq/busy_poll.h. A gap slept through
 * includes the wake-up, so there more counts as soon. All times grow with run/slowdown.h.
 *
 * Belongs to the progress thread. Pure code.
 */
#ifndef VRB_CORE_PROGRESS_REQUEST_WAIT_H
#define VRB_CORE_PROGRESS_REQUEST_WAIT_H

#include <stdint.h>

#include "core/cq/busy_poll.h"
#include "util/time.h"
#include "util/tuning.h"

struct request_wait {
	struct busy_poll poll;
	uint64_t at;		/* when the last request arrived */
	uint64_t until;		/* 0: the thread did not poll for the next */
	unsigned int slowdown;	/* 1: a machine of usual speed */
};

static inline void request_wait_init(struct request_wait *w, unsigned int slowdown)
{
	*w = (struct request_wait){ .slowdown = slowdown };
	busy_poll_init(&w->poll);
}

/* A request has arrived. Returns until when to poll for the next one; 0: do not. */
static inline uint64_t request_wait_arrived(struct request_wait *w, uint64_t now)
{
	if (w->until)
		busy_poll_polled(&w->poll, now < w->until);
	else
		busy_poll_slept(&w->poll,
				time_since(w->at, now) < w->slowdown * LIMIT_REQUEST_SOON);
	w->at = now;
	w->until = busy_poll_enabled(&w->poll) ? now + w->slowdown * TUNE_REQUEST_WAIT : 0;
	return w->until;
}

#endif
