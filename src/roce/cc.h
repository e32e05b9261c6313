/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of one QP's path: limits the packets in flight and times each departure.
 *
 *	start		a quarter of the limit, doubled for each window's worth acknowledged
 *	acknowledged	window grows by the same amount per unit of time, whatever the round trip,
 *			so that near and far flows share a queue: by 11/32 packet per ms, but for
 *			each window's worth at least by 9/32 of a packet and at most by one, as TCP
 *			grows. By one while round trips are too short for a queue, and after 64
 *			windows without loss or CNP; then by 1/32 of the limit if round trips also
 *			take less than 250 us
 *	above the limit	after some windows without loss or CNP, and while round trips with a full
 *			window take less than 250 us, the window grows up to twice the limit.
 *			Longer round trips, loss and CNPs end that; after loss or a CNP the next
 *			attempt waits four times as long
 *	loss		window * 0.7, once for everything that was in flight
 *	long delay	a fairness probe reduces the window as much from time to time, so that
 *			new flows can start (cc_probe.h)
 *	CNP		a share of an eighth of the window: that of the time between two CNPs in
 *			the round trip. So the reduction is proportional to the time for which the
 *			queue marks, and the same for near and far flows
 *	pacing		a window below the limit leaves in quarters, spread over the round trip,
 *			which is over once nothing is in flight
 *
 * The limit is what a socket buffer of usual size holds (retry.h), even while its process is not
 * scheduled. A larger window needs a receiver that empties its buffer at 512 MiB/s or more; one
 * that falls behind sends CNPs before its buffer is full (wire/udp_recv.c).
 *
 * Owns struct roce_cc, one per QP, and modifies nothing else. Called by the requester, the
 * completer and retry.c. Windows count PSNs, times are in ns. Pure code.
 */
#ifndef VRB_ROCE_CC_H
#define VRB_ROCE_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/cc_probe.h"
#include "roce/psn.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

struct roce_cc {
	uint32_t limit;
	uint32_t ceiling;	/* the largest window of a calm, fast path; at least limit */
	uint32_t window;
	uint32_t noted_window;	/* the last NOTE_WINDOW */
	uint32_t calm;		/* windows acknowledged since the last loss or CNP */
	uint32_t calm_needed;	/* calm windows needed to grow above the limit */
	uint32_t acked;		/* PSNs acknowledged since the window last changed */
	uint32_t part;		/* of a packet beyond the window, in 1 / TUNE_CC_STEPS */
	uint32_t fast_to;	/* below this, grow by every PSN acknowledged */
	uint32_t recover;	/* losses before this PSN have already reduced the window */
	uint32_t before;	/* window before the last probe; 0: nothing to restore */
	uint64_t cnp_until;	/* CNPs before this time have been counted by the last one */
	bool timing;		/* a round trip is being measured, */
	uint32_t timed_psn;	/* by the answer to this PSN, */
	uint64_t timed_at;	/* sent at this time; VRB_NEVER: the measurement does not count */
	uint32_t probes;	/* sent since */
	uint64_t rtt;		/* smoothed; 0: unknown */
	uint64_t sure_rtt;	/* the same without answers after a long silence; 0: none yet */
	uint64_t least_rtt;	/* shortest measured; 0: unknown */
	uint32_t left;		/* packets that may leave in the current slot */
	uint64_t slot_end;
	bool held;		/* a packet waits for slot_end */
	struct roce_cc_probe probe;
};

/*
 * The window grows to `limit`; on a calm, fast path to `most`, which counts up to TUNE_CC_BEYOND
 * times the limit.
 */
void roce_cc_start(struct roce_cc *cc, uint32_t limit, uint32_t most, uint32_t psn);

/* Returns true if the time slot of a paced window has room. Slow path of roce_cc_allows(). */
bool roce_cc_slot_allows(struct roce_cc *cc, bool idle, uint64_t now);

/* The path is slow and congested: packets leave spread over the round trip. */
static inline bool roce_cc_is_paced(const struct roce_cc *cc)
{
	return cc->window < cc->limit && cc->rtt >= TUNE_CC_PACED_RTT;
}

/* May a packet leave now? If not, roce_cc_resume() returns when it may. idle: none is in flight. */
static inline bool roce_cc_allows(struct roce_cc *cc, bool idle, uint64_t now)
{
	return !roce_cc_is_paced(cc) || roce_cc_slot_allows(cc, idle, now);
}

/* When a held packet may leave; VRB_NEVER: none is held. */
static inline uint64_t roce_cc_resume(const struct roce_cc *cc)
{
	return cc->held ? cc->slot_end : VRB_NEVER;
}

/*
 * Returns the share of one of `active_qps` QPs on the path. The window is in packets of `mtu`
 * bytes. Packets of short messages, `len` bytes long, use less of it, but each takes an entry in a
 * queue. So they count as at least TUNE_CC_SHORTEST bytes, and as full packets while the window is
 * below its limit, because the queues of a congested path may be short of entries.
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

/* Records that a packet was sent. */
static inline void roce_cc_sent(struct roce_cc *cc)
{
	if (cc->left)
		cc->left--;
}

/* The packet requests an answer: measures the round trip, unless a measurement is in progress. */
static inline void roce_cc_time(struct roce_cc *cc, uint32_t psn, uint64_t now)
{
	if (cc->timing)
		return;
	cc->timing = true;
	cc->timed_psn = psn;
	cc->timed_at = now;
	cc->probes = 0;
}

/* The answer that is measured was refused, or must be asked for again for another reason. */
static inline void roce_cc_untime(struct roce_cc *cc)
{
	cc->timing = false;
}

/*
 * The peer does not run: how long its answers take says nothing of the path. Measures nothing until
 * everything before `until`, which is in flight, is acknowledged.
 */
static inline void roce_cc_peer_waits(struct roce_cc *cc, uint32_t until)
{
	cc->timing = true;
	cc->timed_psn = psn_prev(until);
	cc->timed_at = VRB_NEVER;
}

/*
 * Nothing has arrived for a while: reduces the window to a few packets until an answer arrives. If
 * the answer shows loss, the window grows fast to 0.7 of its old size; if not, roce_cc_undo()
 * restores it. A round-trip measurement continues, because the round trip may just be long. But the
 * answer to the fifth probe in a row, or a later one, tells more of a host that was stopped or of a
 * path that was broken, than of its delay: what it adds to the round trip holds until the next
 * measurement, unless that confirms it (after Karn's rule). `una` is the oldest packet in flight;
 * `until` follows the newest.
 */
void roce_cc_probe(struct roce_cc *cc, uint32_t una, uint32_t until);
void roce_cc_undo(struct roce_cc *cc);

/*
 * Everything before una is acknowledged, `psns` of it for the first time. If several active QPs
 * share the window, the caller multiplies psns by their number.
 */
void roce_cc_acked(struct roce_cc *cc, uint32_t una, uint32_t psns, uint64_t now);

/* As roce_cc_acked(), for messages within the host, which neither fill a path nor are timed. */
static inline void roce_cc_passed(struct roce_cc *cc, uint32_t una)
{
	if (psn_before(cc->recover, una))
		cc->recover = una;
}

/*
 * A packet was lost. Packets before `until` had been sent by then: their loss belongs to the same
 * congestion event.
 */
void roce_cc_lost(struct roce_cc *cc, uint32_t psn, uint32_t until);

/* A CNP arrived. */
void roce_cc_notified(struct roce_cc *cc, uint64_t now);

#endif
