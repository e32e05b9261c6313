/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of one QP's path: how much may be in flight, and when a packet may leave.
 *
 *	start		a quarter of the limit, doubled by each window's worth that is acknowledged
 *	acknowledged	window grows by 1/32 of its limit for each window's worth
 *	beyond		where round trips take less than 250 us with a full window it grows on, as
 *			far as
 *			twice the limit, after some windows without loss or CNP; longer round trips
 *			take it back to the limit, and so does either of those, which also makes it
 *			wait four times as long
 *	delay		that slowly while the round trip takes less than 250 us; from 750 us on a
 *			quarter of that, but a packet at least, which is how fast TCP grows
 *	loss		window * 0.7, once for all that was in flight
 *	long delay	once in some windows that much less on trial, so that new flows find room
 *			(cc_probe.h)
 *	CNP		window * (1 - alpha / 2), where alpha says how steadily they come, as DCQCN
 *			does;
 *			once in a round trip
 *	pacing		a window below the limit leaves in quarters, spread over the round trip
 *
 * The limit is what a socket buffer of usual size holds (retry.h), even if its process does not
 * run.  What lies beyond is for a receiver that is seen to empty it at 512 MiB/s and more; one that
 * falls behind says so before its buffer is full (wire/udp_recv.c), by CNPs.  Windows count PSNs.
 * Pure; nothing outside the struct is touched.
 */
#ifndef VRB_ROCE_CC_H
#define VRB_ROCE_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/cc_probe.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct roce_cc {
	uint32_t limit;
	uint32_t most;
	uint32_t window;
	uint32_t calm;		/* windows' worths acknowledged since the last loss or CNP */
	uint32_t patience;	/* so many it takes to grow beyond the limit */
	uint32_t acked;		/* since the window last changed */
	uint32_t growth;	/* less than a packet, in parts of one */
	uint32_t fast_to;	/* below this the window grows by what is acknowledged */
	uint32_t recover;	/* losses before that PSN have been paid for */
	uint32_t before;	/* window before the last probe; 0: nothing to undo */
	uint32_t alpha;		/* of 1024 */
	bool cnp_seen;		/* since the window was last acknowledged */
	uint64_t cnp_until;	/* CNPs before that are about what was cut already */
	bool timing;
	uint32_t timed_psn;	/* round trip in progress */
	uint64_t timed_at;
	uint64_t rtt;		/* smoothed; 0: not known */
	uint32_t left;		/* packets of the current slot */
	uint64_t slot_end;
	bool held;		/* a packet waits for slot_end */
	struct roce_cc_probe probe;
};

/* `most`, or what TUNE_CC_BEYOND allows if that is less, bounds what lies beyond the limit. */
void roce_cc_start(struct roce_cc *cc, uint32_t limit, uint32_t most, uint32_t psn);

/* Has a paced window room in its slot? */
bool roce_cc_slot_allows(struct roce_cc *cc, uint64_t now);

/* May a packet leave now? If not, roce_cc_resume() says when. */
static inline bool roce_cc_allows(struct roce_cc *cc, uint64_t now)
{
	bool paced = cc->window < cc->limit && cc->rtt >= TUNE_CC_PACED_RTT;

	return !paced || roce_cc_slot_allows(cc, now);
}

static inline uint64_t roce_cc_resume(const struct roce_cc *cc)
{
	return cc->held ? cc->slot_end : VRB_NEVER;
}

/*
 * The part of the window that is for one of so many QPs that share the path.  The window is of
 * packets of `mtu` bytes; short ones, of messages of `len`, take less, but each a place in a queue:
 * never more than would fit with an MTU of 1024, and none more in a window below its limit: what is
 * congested may be short of places in a queue.
 */
static inline uint32_t roce_cc_share(const struct roce_cc *cc, uint32_t active_qps, uint32_t mtu,
				     uint64_t len)
{
	uint64_t packet = min(max(len, (uint64_t)TUNE_CC_SHORTEST), (uint64_t)mtu);
	uint64_t packets = (uint64_t)cc->window * mtu / packet, most = packets;

	if (cc->window < cc->limit)
		most = cc->window;
	if (unlikely(active_qps > 1))
		packets /= active_qps;
	return min(max(packets, (uint64_t)TUNE_CC_WINDOW_MIN), most);
}

/* A packet left. */
static inline void roce_cc_sent(struct roce_cc *cc)
{
	if (cc->left)
		cc->left--;
}

/* It asks for an answer, and so times the round trip if none is being timed. */
static inline void roce_cc_time(struct roce_cc *cc, uint32_t psn, uint64_t now)
{
	if (cc->timing)
		return;
	cc->timing = true;
	cc->timed_psn = psn;
	cc->timed_at = now;
}

/*
 * Nothing has come for a while: few packets may be in flight, until an answer shows that more were
 * lost, and the window grows fast to 0.7 of what it was; or that none were, and all is undone.  The
 * round trip in progress goes on: if that is what takes so long, it has to be learnt.  `una` is the
 * oldest packet in flight, `until` lies behind the newest.
 */
void roce_cc_probe(struct roce_cc *cc, uint32_t una, uint32_t until);
void roce_cc_undo(struct roce_cc *cc);

/*
 * Everything before una is acknowledged, psns more than before; for one of several active QPs, so
 * many times as many, for its window is theirs together.
 */
void roce_cc_acked(struct roce_cc *cc, uint32_t una, uint32_t psns, uint64_t now);

/*
 * This packet is lost.  What is before `until` had left before that was known: more of it may be
 * lost, of the same congestion.
 */
void roce_cc_lost(struct roce_cc *cc, uint32_t psn, uint32_t until);

void roce_cc_notified(struct roce_cc *cc, uint64_t now);

#endif
