/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/cc.h"

#include "roce/psn.h"
#include "util/compiler.h"
#include "util/time.h"

enum {
	ONE = 1024,	/* of alpha */
	GAIN = 16,	/* 1/g of DCQCN */
	STEPS = 32,	/* of growth between nothing and the limit */
	QUARTERS = 4,
	DELAY_GRADES = 4,
	SHORTEST = 1024,	/* bytes that a packet takes of the window at least */
	PATIENCE_FIRST = 16,
	PATIENCE_MORE = 4,	/* times, each time that it did not pay */
	PATIENCE_MAX = 1 << 16,
};

#define CNP_INTERVAL (50 * VRB_USEC)

/* Shorter round trips say more of the peer's scheduler than of the network. */
#define DELAY_STEP (250 * VRB_USEC)
#define PACED_RTT  (200 * VRB_USEC)

void roce_cc_start(struct roce_cc *cc, uint32_t limit, uint32_t most, uint32_t psn)
{
	uint32_t first = min(max(limit / ROCE_CC_FIRST, (uint32_t)ROCE_CC_MIN), limit);

	*cc = (struct roce_cc){ .limit = limit, .most = max(limit, min(most, limit * ROCE_CC_BEYOND)),
				.window = first, .fast_to = limit, .alpha = ONE, .recover = psn,
				.patience = PATIENCE_FIRST };
	roce_yield_start(&cc->yield, first);
}

static void set_window(struct roce_cc *cc, uint32_t window)
{
	cc->window = min(max(window, (uint32_t)ROCE_CC_MIN), cc->most);
	cc->acked = 0;
}

/* Loss or a CNP: if the window was beyond the limit, that was perhaps why. */
static void disturb(struct roce_cc *cc)
{
	roce_yield_disturbed(&cc->yield);
	if (cc->window > cc->limit && cc->calm)
		cc->patience = min(cc->patience * PATIENCE_MORE, (uint32_t)PATIENCE_MAX);
	cc->calm = 0;
}

static bool paced(const struct roce_cc *cc)
{
	return cc->window < cc->limit && cc->rtt >= PACED_RTT;
}

bool roce_cc_allows(struct roce_cc *cc, uint64_t now)
{
	if (!paced(cc))
		return true;
	if (now >= cc->slot_end) {
		cc->left = max(cc->window / QUARTERS, 1u);
		cc->slot_end = time_after(now, cc->rtt * cc->left / cc->window * 4 / 5);
		cc->held = false;
	}
	cc->held = !cc->left;
	return cc->left;
}

/* A window that was cut counts packets of any length: what is congested may be short of places in a queue. */
uint32_t roce_cc_share(const struct roce_cc *cc, uint32_t sharers, uint32_t mtu, uint64_t len)
{
	uint64_t packet = min(max(len, (uint64_t)SHORTEST), (uint64_t)mtu);
	uint64_t packets = (uint64_t)cc->window * mtu / packet, most = packets;

	if (cc->window < cc->limit)
		most = cc->window;
	if (unlikely(sharers > 1))
		packets /= sharers;
	return min(max(packets, (uint64_t)ROCE_CC_MIN), most);
}

uint64_t roce_cc_resume(const struct roce_cc *cc)
{
	return cc->held ? cc->slot_end : VRB_NEVER;
}

void roce_cc_sent(struct roce_cc *cc)
{
	if (cc->left)
		cc->left--;
}

void roce_cc_time(struct roce_cc *cc, uint32_t psn, uint64_t now)
{
	if (cc->timing)
		return;
	cc->timing = true;
	cc->timed_psn = psn;
	cc->timed_at = now;
}

static uint32_t reduced(const struct roce_cc *cc)
{
	return cc->window - cc->window * 3 / 10;
}

/* A second one before what was in flight is answered learns nothing new of the window that was too large. */
void roce_cc_probe(struct roce_cc *cc, uint32_t una, uint32_t until)
{
	bool again = cc->before && psn_before(una, cc->recover);

	cc->recover = until;
	roce_yield_disturbed(&cc->yield);
	if (again) {
		cc->fast_to /= 2;
	} else {
		cc->before = cc->window;
		cc->fast_to = min(reduced(cc), cc->limit);
	}
	set_window(cc, ROCE_CC_MIN);
}

void roce_cc_undo(struct roce_cc *cc)
{
	if (!cc->before)
		return;
	set_window(cc, max(cc->window, cc->before));
	cc->before = 0;
}

static void take_sample(struct roce_cc *cc, uint32_t una, uint64_t now)
{
	uint64_t sample;

	if (!cc->timing || !psn_before(cc->timed_psn, una))
		return;
	cc->timing = false;
	/* Threads read the clock before they get the QP's lock, so an answer may bear an earlier time than its request. */
	sample = now > cc->timed_at ? min(now - cc->timed_at, VRB_SECOND) : 1;
	roce_yield_sample(&cc->yield, sample);
	cc->rtt = cc->rtt ? cc->rtt - cc->rtt / 8 + sample / 8 : sample;
}

/*
 * How much slower the window grows while round trips take long.  Absolute, and not relative to the
 * shortest seen: who comes late to a queue that stands already would never know how short it can be.
 */
static uint32_t delay_grade(const struct roce_cc *cc)
{
	return min(1 + cc->rtt / DELAY_STEP, (uint64_t)DELAY_GRADES);
}

static uint32_t ceiling(const struct roce_cc *cc)
{
	bool fast = cc->rtt && cc->rtt < DELAY_STEP;

	return fast && cc->calm >= cc->patience ? cc->most : cc->limit;
}

static void give_way(struct roce_cc *cc)
{
	uint32_t window = roce_yield_adapt(&cc->yield, cc->window);

	if (window < cc->window) {
		cc->timing = false;	/* that packet saw the queue as it was */
		cc->fast_to = 0;
	}
	set_window(cc, window);
}

/* A window's worth was acknowledged. */
static void adapt(struct roce_cc *cc)
{
	if (!cc->cnp_seen)
		cc->alpha -= cc->alpha / GAIN;
	cc->cnp_seen = false;
	cc->calm++;
	cc->growth += max(cc->limit / delay_grade(cc), (uint32_t)STEPS);
	set_window(cc, min(cc->window + cc->growth / STEPS, ceiling(cc)));
	cc->growth %= STEPS;
	give_way(cc);
}

void roce_cc_acked(struct roce_cc *cc, uint32_t una, uint32_t psns, uint64_t now)
{
	take_sample(cc, una, now);
	if (psn_before(cc->recover, una))
		cc->recover = una;
	if (cc->window < cc->fast_to)
		set_window(cc, min(cc->window + psns, cc->fast_to));
	else if ((cc->acked += psns) >= cc->window)
		adapt(cc);
}

void roce_cc_lost(struct roce_cc *cc, uint32_t psn, uint32_t until)
{
	cc->timing = false;
	cc->before = 0;
	if (psn_before(psn, cc->recover))
		return;
	cc->recover = until;
	disturb(cc);
	cc->fast_to = 0;
	set_window(cc, reduced(cc));
}

/* What was sent before a cut still brings notifications for a round trip. */
void roce_cc_notified(struct roce_cc *cc, uint64_t now)
{
	if (now < cc->cnp_until)
		return;
	cc->cnp_until = time_after(now, max(cc->rtt, (uint64_t)CNP_INTERVAL));
	cc->cnp_seen = true;
	cc->fast_to = 0;
	disturb(cc);
	set_window(cc, cc->window - cc->window * cc->alpha / (2 * ONE));
	cc->alpha += (ONE - cc->alpha) / GAIN;
}
