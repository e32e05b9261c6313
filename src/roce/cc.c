/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/cc.h"

#include "roce/psn.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

enum {
	ONE = 1024,	/* of alpha */
	QUARTERS = 4,
};

void roce_cc_start(struct roce_cc *cc, uint32_t limit, uint32_t most, uint32_t psn)
{
	uint32_t first = min(max(limit / TUNE_CC_FIRST, (uint32_t)TUNE_CC_WINDOW_MIN), limit);

	*cc = (struct roce_cc){ .limit = limit,
				.most = max(limit, min(most, limit * TUNE_CC_BEYOND)),
				.window = first, .told = first, .fast_to = limit,
				.alpha = ONE, .recover = psn, .calm_needed = TUNE_CC_CALM_FIRST };
	roce_cc_probe_start(&cc->probe, first);
}

static void set_window(struct roce_cc *cc, uint32_t window)
{
	cc->window = min(max(window, (uint32_t)TUNE_CC_WINDOW_MIN), cc->most);
	cc->acked = 0;
}

/* Loss or a CNP: a window above the limit may have caused it. */
static void disturb(struct roce_cc *cc)
{
	roce_cc_probe_disturbed(&cc->probe);
	if (cc->window > cc->limit && cc->calm)
		cc->calm_needed = min(cc->calm_needed * TUNE_CC_CALM_FACTOR,
				   (uint32_t)LIMIT_CC_CALM_MAX);
	cc->calm = 0;
}

bool roce_cc_slot_allows(struct roce_cc *cc, uint64_t now)
{
	if (now >= cc->slot_end) {
		cc->left = max(cc->window / QUARTERS, 1u);
		cc->slot_end = time_after(now, cc->rtt * cc->left / cc->window * 4 / 5);
		cc->held = false;
	}
	cc->held = !cc->left;
	return cc->left;
}

static uint32_t reduced(const struct roce_cc *cc)
{
	return cc->window - cc->window * 3 / 10;
}

/*
 * A second probe before the packets in flight are answered tells nothing new about the old window.
 */
void roce_cc_probe(struct roce_cc *cc, uint32_t una, uint32_t until)
{
	bool again = cc->before && psn_before(una, cc->recover);

	cc->recover = until;
	roce_cc_probe_disturbed(&cc->probe);
	if (again) {
		cc->fast_to /= 2;
	} else {
		cc->before = cc->window;
		cc->fast_to = min(reduced(cc), cc->limit);
	}
	set_window(cc, TUNE_CC_WINDOW_MIN);
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
	/*
	 * Threads read the clock before they acquire the QP's lock, so an answer may be timestamped
	 * before its request.
	 */
	sample = now > cc->timed_at ? min(now - cc->timed_at, VRB_SECOND) : 1;
	roce_cc_probe_sample(&cc->probe, sample);
	cc->rtt = cc->rtt ? cc->rtt - cc->rtt / 8 + sample / 8 : sample;
}

/*
 * Slows the growth of the window while round trips are long. The thresholds are absolute, not
 * relative to the shortest round trip measured: a flow that starts while the queue is full never
 * measures a short one.
 */
static uint32_t delay_grade(const struct roce_cc *cc)
{
	return min(1 + cc->rtt / TUNE_CC_DELAY_STEP, (uint64_t)TUNE_CC_DELAY_GRADES);
}

static uint32_t ceiling(const struct roce_cc *cc)
{
	bool fast = cc->rtt && cc->rtt < TUNE_CC_DELAY_STEP;

	return fast && cc->calm >= cc->calm_needed ? cc->most : cc->limit;
}

static void give_way(struct roce_cc *cc)
{
	uint32_t window = roce_cc_probe_adapt(&cc->probe, cc->window);

	if (window < cc->window) {
		cc->timing = false;	/* the packet measured the queue before the change */
		cc->fast_to = 0;
	}
	set_window(cc, window);
}

/* Called after a window's worth of acknowledgements. */
static void adapt(struct roce_cc *cc)
{
	if (!cc->cnp_seen)
		cc->alpha -= cc->alpha / TUNE_DCQCN_GAIN;
	cc->cnp_seen = false;
	cc->calm++;
	cc->growth += max(cc->limit / delay_grade(cc), (uint32_t)TUNE_CC_STEPS);
	set_window(cc, min(cc->window + cc->growth / TUNE_CC_STEPS, ceiling(cc)));
	cc->growth %= TUNE_CC_STEPS;
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
	roce_cc_probe_lost(&cc->probe);
	cc->fast_to = 0;
	set_window(cc, reduced(cc));
}

/* Packets sent before a cut still cause CNPs for one round trip. */
void roce_cc_notified(struct roce_cc *cc, uint64_t now)
{
	if (now < cc->cnp_until)
		return;
	cc->cnp_until = time_after(now, max(cc->rtt, (uint64_t)TUNE_CC_CNP_INTERVAL));
	cc->cnp_seen = true;
	cc->fast_to = 0;
	disturb(cc);
	set_window(cc, cc->window - cc->window * cc->alpha / (2 * ONE));
	cc->alpha += (ONE - cc->alpha) / TUNE_DCQCN_GAIN;
}
