/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides when to delay an ACK and when to coalesce small requests. Pure decisions without a clock:
 * core/tx/tx_sched.c executes them, tests/sim/world.c simulates them.
 *
 * If the program usually replies at once on the receiving QP, the ACK may wait and be sent with the
 * reply, even if no thread polls. Otherwise, if the target watches its memory, the ACK would leave
 * before the target sees the data. A program that never replies has no late ACKs: delaying starts
 * only after some replies, and ends with the first ACK that was delayed without a reply.
 */
#ifndef VRB_ROCE_DELAYED_ACK_H
#define VRB_ROCE_DELAYED_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct roce_delayed_ack {
	uint64_t requested;	/* when an ACK was requested; 0: not since the last post */
	uint8_t replies;	/* consecutive replies in time, at most TUNE_PINGPONG_REPLIES */
};

/* A packet requests an ACK. */
static inline void roce_delayed_ack_requested(struct roce_delayed_ack *d, uint64_t now)
{
	d->requested = now;
}

static inline bool roce_delayed_ack_expects_reply(const struct roce_delayed_ack *d)
{
	return d->replies == TUNE_PINGPONG_REPLIES;
}

/* The program posts: a reply, if an ACK is requested. */
static inline void roce_delayed_ack_posted(struct roce_delayed_ack *d, uint64_t now)
{
	if (!d->requested)
		return;
	if (time_since(d->requested, now) > TUNE_PINGPONG_REPLY_TIME)
		d->replies = 0;
	else if (!roce_delayed_ack_expects_reply(d))
		d->replies++;
	d->requested = 0;
}

/* The ACK is sent without a reply. */
static inline void roce_delayed_ack_alone(struct roce_delayed_ack *d, uint64_t now)
{
	if (d->requested && time_since(d->requested, now) >= TUNE_PINGPONG_REPLY_TIME)
		d->replies = 0;
}

/*
 * May ACKs be delayed after a round of `packets`? Many packets are a stream, whose sender waits for
 * the ACKs.
 */
static inline bool roce_delayed_ack_round(uint32_t packets)
{
	return packets <= TUNE_ACK_DELAY_PACKETS;
}

/*
 * May a QP's ACK be delayed? Until the next poll if a poller received the packets, else until the
 * reply. urgent: the QP has more to send than an ACK.
 */
static inline bool roce_delayed_ack_may_wait(bool urgent, bool poller, bool expects_reply)
{
	return !urgent && (poller || expects_reply);
}

/* Have ACKs been delayed for the maximum number of polls? */
static inline bool roce_delayed_ack_polls_over(uint32_t polls)
{
	return polls >= TUNE_ACK_DELAY_POLLS;
}

/* Maximum delay of an ACK. */
static inline uint64_t roce_delayed_ack_time(bool poller)
{
	return poller ? TUNE_ACK_DELAY_MAX : TUNE_PINGPONG_REPLY_TIME;
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

#endif
