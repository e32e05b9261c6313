/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of one QP's path: how much may be in flight, and when a packet may leave.
 *
 *	start		a quarter of the limit, doubled for each window's worth acknowledged
 *	acknowledged	window grows by 1/32 of its limit for each window's worth; long round trips
 *			slow that, in four steps of 250 us, to a quarter, but at least by a packet,
 *			as TCP grows
 *	beyond		after some windows without loss or CNP, and while round trips with a full
 *			window take less than 250 us, the window grows to up to twice the limit.
 *			Longer round trips, loss and CNPs end that; after loss or a CNP the next
 *			attempt waits four times as long
 *	loss		window * 0.7, once for everything that was in flight
 *	long delay	now and then the window shrinks as much on trial, so that new flows find
 *			room (cc_probe.h)
 *	CNP		window * (1 - alpha / 2), once per round trip; as in DCQCN, alpha says how
 *			steadily CNPs arrive
 *	pacing		a window below the limit leaves in quarters, spread over the round trip
 *
 * The limit is what a socket buffer of usual size holds (retry.h), even while its process does not
 * run. The part beyond it is for a receiver that empties its buffer at 512 MiB/s or more; one that
 * falls behind sends CNPs before its buffer is full (wire/udp_recv.c).
 *
 * Owns struct roce_cc, one per QP, and touches nothing else. Called by the requester, the completer
 * and retry.c. Windows count PSNs, times are in ns. Pure.
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
	uint32_t most;		/* limit of the part beyond the limit */
	uint32_t window;
	uint32_t calm;		/* windows acknowledged since the last loss or CNP */
	uint32_t calm_needed;	/* calm windows needed to grow beyond the limit */
	uint32_t acked;		/* PSNs acknowledged since the window last changed */
	uint32_t growth;	/* growth of less than a packet, in fractions of one */
	uint32_t fast_to;	/* below this, the window grows by what is acknowledged */
	uint32_t recover;	/* losses before this PSN have reduced the window already */
	uint32_t before;	/* window before the last probe; 0: nothing to undo */
	uint32_t alpha;		/* of 1024 */
	bool cnp_seen;		/* since a window was last acknowledged */
	uint64_t cnp_until;	/* CNPs before this time are for packets of the old window */
	bool timing;		/* a round trip is being timed, */
	uint32_t timed_psn;	/* by the answer to this PSN, */
	uint64_t timed_at;	/* sent at this time */
	uint64_t rtt;		/* smoothed; 0: unknown */
	uint32_t left;		/* packets that may leave in the current slot */
	uint64_t slot_end;
	bool held;		/* a packet waits for slot_end */
	struct roce_cc_probe probe;
};

/* The part beyond the limit is at most `most`, and at most what TUNE_CC_BEYOND allows. */
void roce_cc_start(struct roce_cc *cc, uint32_t limit, uint32_t most, uint32_t psn);

/* True if the slot of a paced window has room. For roce_cc_allows(). */
bool roce_cc_slot_allows(struct roce_cc *cc, uint64_t now);

/* May a packet leave now? If not, roce_cc_resume() says when. */
static inline bool roce_cc_allows(struct roce_cc *cc, uint64_t now)
{
	bool paced = cc->window < cc->limit && cc->rtt >= TUNE_CC_PACED_RTT;

	return !paced || roce_cc_slot_allows(cc, now);
}

/* When a held packet may leave; VRB_NEVER: none is held. */
static inline uint64_t roce_cc_resume(const struct roce_cc *cc)
{
	return cc->held ? cc->slot_end : VRB_NEVER;
}

/*
 * The share of one of `active_qps` QPs on the path. The window is in packets of `mtu` bytes. Short
 * packets, of messages of `len` bytes, take less of it, but each takes a place in a queue: they
 * count as TUNE_CC_SHORTEST bytes at least, and as full packets while the window is below its
 * limit, because the queues of a congested path may be short of places.
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

/* A packet was sent. */
static inline void roce_cc_sent(struct roce_cc *cc)
{
	if (cc->left)
		cc->left--;
}

/* It requests an answer: times the round trip, unless one is being timed. */
static inline void roce_cc_time(struct roce_cc *cc, uint32_t psn, uint64_t now)
{
	if (cc->timing)
		return;
	cc->timing = true;
	cc->timed_psn = psn;
	cc->timed_at = now;
}

/*
 * Nothing has arrived for a while: reduces the window to a few packets until an answer arrives. If
 * it shows loss, the window grows fast to 0.7 of its old size; if not, roce_cc_undo() restores it.
 * A round trip that is being timed continues, because it may just be long. `una` is the oldest
 * packet in flight, `until` follows the newest.
 */
void roce_cc_probe(struct roce_cc *cc, uint32_t una, uint32_t until);
void roce_cc_undo(struct roce_cc *cc);

/*
 * Everything before una is acknowledged, `psns` of it for the first time. If several active QPs
 * share the window, the caller multiplies psns by their number.
 */
void roce_cc_acked(struct roce_cc *cc, uint32_t una, uint32_t psns, uint64_t now);

/*
 * This packet is lost. Packets before `until` had been sent by then: if more of them are lost, it
 * is the same congestion.
 */
void roce_cc_lost(struct roce_cc *cc, uint32_t psn, uint32_t until);

/* A CNP arrived. */
void roce_cc_notified(struct roce_cc *cc, uint64_t now);

#endif
