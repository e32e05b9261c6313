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
};

#define CNP_INTERVAL (50 * VRB_USEC)

/*
 * Delays below these are as likely the peer's scheduler's as the network's, and too short for timers
 * to be spread over.
 */
#define DELAY_SLACK (500 * VRB_USEC)
#define PACED_RTT   (200 * VRB_USEC)

void roce_cc_start(struct roce_cc *cc, uint32_t limit)
{
	*cc = (struct roce_cc){ .limit = limit, .window = limit, .alpha = ONE, .rtt_min = VRB_NEVER };
}

static void set_window(struct roce_cc *cc, uint32_t window)
{
	cc->window = min(max(window, (uint32_t)ROCE_CC_MIN), cc->limit);
	cc->acked = 0;
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

void roce_cc_probe(struct roce_cc *cc)
{
	cc->timing = false;	/* an answer might be to either copy */
	cc->before = cc->window;
	cc->fast_to = reduced(cc);
	set_window(cc, ROCE_CC_MIN);
}

void roce_cc_undo(struct roce_cc *cc)
{
	if (!cc->before)
		return;
	set_window(cc, cc->before);
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
	cc->rtt_min = min(cc->rtt_min, sample);
	cc->rtt = cc->rtt ? cc->rtt - cc->rtt / 8 + sample / 8 : sample;
}

/*
 * The round trip in units of what is in order: longer for a small window, so that those who have
 * little gain while those who have much lose.
 */
static uint64_t delay_grade(const struct roce_cc *cc)
{
	uint64_t fair = 2 * min(cc->rtt_min, VRB_SECOND) + DELAY_SLACK;

	return cc->rtt / (fair * cc->limit / cc->window);
}

/* A window's worth was acknowledged. */
static void adapt(struct roce_cc *cc)
{
	uint64_t delay = delay_grade(cc);

	if (!cc->cnp_seen)
		cc->alpha -= cc->alpha / GAIN;
	cc->cnp_seen = false;
	if (delay >= 2 && cc->window > cc->limit / 2)
		set_window(cc, max(cc->window - cc->window / 16, cc->limit / 2));
	else if (delay < 1)
		set_window(cc, cc->window + max(cc->limit / STEPS, 1u));
	else
		cc->acked = 0;
}

void roce_cc_acked(struct roce_cc *cc, uint32_t una, uint32_t psns, uint64_t now)
{
	take_sample(cc, una, now);
	if (cc->window < cc->fast_to)
		set_window(cc, min(cc->window + psns, cc->fast_to));
	else if ((cc->acked += psns) >= cc->window)
		adapt(cc);
}

void roce_cc_lost(struct roce_cc *cc)
{
	cc->timing = false;
	cc->fast_to = 0;
	cc->before = 0;
	set_window(cc, reduced(cc));
}

void roce_cc_notified(struct roce_cc *cc, uint64_t now)
{
	if (cc->cnp_at && now - cc->cnp_at < CNP_INTERVAL)
		return;
	cc->cnp_at = max(now, (uint64_t)1);
	cc->cnp_seen = true;
	cc->fast_to = 0;
	set_window(cc, cc->window - cc->window * cc->alpha / (2 * ONE));
	cc->alpha += (ONE - cc->alpha) / GAIN;
}
