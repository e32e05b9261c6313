/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides when small requests wait for others, to leave together. Pure decisions without a clock:
 * core/tx/tx_sched.c executes them.
 *
 * Requests of RC wait (roce_coalescing) while packets are in flight: the answers to these send
 * them. The packets of UC and UD have no answers: those of a stream (roce_stream) wait for the
 * program's next poll.
 */
#ifndef VRB_ROCE_COALESCE_H
#define VRB_ROCE_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

/*
 * Are the posted requests that wait few and small enough to wait for more? The last one has `len`
 * bytes.
 */
static inline bool roce_coalesces(uint32_t waiting, uint32_t in_flight, uint64_t len)
{
	return waiting && in_flight >= TUNE_COALESCE_IN_FLIGHT &&
	       waiting < min(in_flight * TUNE_COALESCE_TIMES, (uint32_t)TUNE_COALESCE_MAX) &&
	       (waiting + 1) * len <= TUNE_COALESCE_BYTES;
}

struct roce_coalescing {
	uint64_t since;		/* when the first of the requests that wait was posted */
	uint16_t rest;		/* posts that do not wait */
};

/* The requests that waited are sent: has the program not polled meanwhile? */
static inline void roce_coalescing_ends(struct roce_coalescing *c, uint64_t now)
{
	if (time_since(c->since, now) >= TUNE_ACK_DELAY_MAX)
		c->rest = LIMIT_COALESCE_REST;
}

/* May a post wait, or did earlier ones wait in vain? */
static inline bool roce_coalescing_pays(struct roce_coalescing *c)
{
	if (likely(!c->rest))
		return true;
	c->rest--;
	return false;
}

/* A stream of requests that nobody acknowledges (UC, UD). */
struct roce_stream {
	uint64_t posted_at;	/* end of the last post, or of what its packets waited for */
	uint8_t posts;		/* in close succession, at most TUNE_STREAM_POSTS */
};

/*
 * Another post: is it one of a stream? Posts that follow one another within `gap` are, because that
 * is less than a reply takes: none of them answers anything, and nobody waits for a single one. One
 * longer pause does not end the stream, since other threads may have had the CPU.
 */
static inline bool roce_stream_continues(struct roce_stream *s, uint64_t gap, uint64_t now)
{
	if (time_since(s->posted_at, now) <= gap)
		s->posts += s->posts < TUNE_STREAM_POSTS;
	else
		s->posts = s->posts == TUNE_STREAM_POSTS ? TUNE_STREAM_POSTS - 1 : 0;
	return s->posts == TUNE_STREAM_POSTS;
}

static inline void roce_stream_posted(struct roce_stream *s, uint64_t now)
{
	s->posted_at = max(s->posted_at, now);
}

#endif
