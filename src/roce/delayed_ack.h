/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides when to delay an ACK. Pure decisions without a clock: core/tx/tx_sched.c executes them,
 * tests/sim/world.c simulates them.
 *
 * If the program usually replies at once on the receiving QP, the ACK may wait and be sent with the
 * reply, even if no thread polls. Otherwise, if the target watches its memory, the ACK would leave
 * before the target sees the data. A program that never replies has no late ACKs: delaying starts
 * only after some replies, and ends with the first ACK that was delayed without a reply.
 *
 * A reply may be several posts, such as data and a flag. The ACK leaves with the last of them: a
 * peer whose requests are complete no longer polls, but watches its memory, and the rest of the
 * reply would wait for its progress thread.
 */
#ifndef VRB_ROCE_DELAYED_ACK_H
#define VRB_ROCE_DELAYED_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/ack_order.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct roce_delayed_ack {
	uint64_t requested;	/* when an ACK was requested; 0: not since the last post */
	uint8_t replies;	/* consecutive replies in time, at most TUNE_PINGPONG_REPLIES */
	uint8_t posts;		/* since the last request for an ACK */
	uint8_t usual;		/* posts of the last reply */
	bool steady;		/* the one before it had as many */
};

/* A packet requests an ACK. */
static inline void roce_delayed_ack_requested(struct roce_delayed_ack *d, uint64_t now)
{
	if (d->posts) {
		d->steady = d->posts == d->usual;
		d->usual = d->posts;
		d->posts = 0;
	}
	d->requested = now;
}

static inline bool roce_delayed_ack_expects_reply(const struct roce_delayed_ack *d)
{
	return d->replies == TUNE_PINGPONG_REPLIES;
}

/*
 * Where does the ACK leave? in_turn: it is for a whole message and nothing else was under way. Then
 * also behind a reply that the peer must acknowledge in part before the rest may leave: the peer,
 * which polls for its completion, does so at once. Two ends that both waited so would wait for each
 * other.
 */
static inline enum roce_ack_order roce_delayed_ack_order(const struct roce_delayed_ack *d,
							 bool in_turn)
{
	if (!roce_delayed_ack_expects_reply(d))
		return ROCE_ACK_FIRST;
	return in_turn ? ROCE_ACK_BEHIND_REPLY : ROCE_ACK_BEHIND_WRITES;
}

/*
 * The program posts: a reply, or more of it, if an ACK is requested. write: a WRITE that completes
 * nothing at the peer. Returns true if the ACK is to leave with a later post.
 */
static inline bool roce_delayed_ack_posted(struct roce_delayed_ack *d, bool write, uint64_t now)
{
	bool first = !d->posts;

	d->posts += d->posts < UINT8_MAX;
	if (!d->requested)
		return false;
	if (time_since(d->requested, now) > TUNE_PINGPONG_REPLY_TIME)
		d->replies = 0;
	else if (first && !roce_delayed_ack_expects_reply(d))
		d->replies++;
	if (write && d->steady && d->posts < d->usual && roce_delayed_ack_expects_reply(d))
		return true;
	d->requested = 0;
	return false;
}

/* The ACK is sent without a reply. */
static inline void roce_delayed_ack_alone(struct roce_delayed_ack *d, uint64_t now)
{
	if (d->requested && time_since(d->requested, now) >= TUNE_PINGPONG_REPLY_TIME)
		d->replies = 0;
}

/*
 * May a QP's ACK be delayed after a round of `packets`? Until the next poll if a poller received
 * them, else until the reply. Many packets are a stream, whose sender waits for the ACKs, unless
 * the two ends take turns: then they are a long message. urgent: the QP has more to send than an
 * ACK.
 */
static inline bool roce_delayed_ack_may_wait(uint32_t packets, bool urgent, bool poller,
					     bool expects_reply, bool take_turns)
{
	return (packets <= TUNE_ACK_DELAY_PACKETS || take_turns) && !urgent &&
	       (poller || expects_reply);
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

#endif
