/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/cc.h"

#include "roce/psn.h"
#include "util/compiler.h"
#include "util/time.h"
#include "util/tuning.h"

enum {
	QUARTERS = 4,
};

void roce_cc_start(struct roce_cc *cc, uint32_t limit, uint32_t most, uint32_t psn)
{
	uint32_t first = min(max(limit / TUNE_CC_FIRST, (uint32_t)TUNE_CC_WINDOW_MIN), limit);

	*cc = (struct roce_cc){ .limit = limit,
				.ceiling = max(limit, min(most, limit * TUNE_CC_BEYOND)),
				.window = first, .noted_window = first, .fast_to = limit,
				.recover = psn, .calm_needed = TUNE_CC_CALM_FIRST };
	roce_cc_probe_start(&cc->probe, first);
}

static void set_window(struct roce_cc *cc, uint32_t window)
{
	cc->window = min(max(window, (uint32_t)TUNE_CC_WINDOW_MIN), cc->ceiling);
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

bool roce_cc_slot_allows(struct roce_cc *cc, bool idle, uint64_t now)
{
	if (idle || now >= cc->slot_end) {
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
	cc->probes++;
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

static uint64_t smooth(uint64_t rtt, uint64_t sample)
{
	return rtt ? rtt - rtt / 8 + sample / 8 : sample;
}

static void add_sample(struct roce_cc *cc, uint64_t sample)
{
	bool confirmed = sample >= cc->rtt;

	if (cc->probes >= TUNE_CC_SILENCE)
		cc->rtt = smooth(cc->rtt, sample);
	else
		cc->rtt = cc->sure_rtt = smooth(confirmed ? cc->rtt : cc->sure_rtt, sample);
}

static void take_sample(struct roce_cc *cc, uint32_t una, uint64_t now)
{
	uint64_t sample;

	if (!cc->timing || !psn_before(cc->timed_psn, una))
		return;
	cc->timing = false;
	if (cc->timed_at == VRB_NEVER)
		return;
	/*
	 * Threads read the clock before they acquire the QP's lock, so an answer may be timestamped
	 * before its request.
	 */
	sample = now > cc->timed_at ? min(now - cc->timed_at, VRB_SECOND) : 1;
	roce_cc_probe_sample(&cc->probe, sample);
	add_sample(cc, sample);
	cc->least_rtt = cc->least_rtt ? min(cc->least_rtt, sample) : sample;
}

/*
 * Round trips like those of a fast path without a queue. The bound is absolute, not relative to the
 * shortest round trip measured: a flow that starts while the queue is full never measures a short
 * one.
 */
static bool is_fast(const struct roce_cc *cc)
{
	return cc->rtt && cc->rtt < TUNE_CC_FAST_RTT;
}

static uint32_t ceiling(const struct roce_cc *cc)
{
	return is_fast(cc) && cc->calm >= cc->calm_needed ? cc->ceiling : cc->limit;
}

/*
 * No flow waits for others: losses are the path's own. A flow that starts while the queue is full
 * takes its round trips for the shortest, and grows as TCP until it has seen a shorter one.
 */
static bool has_no_queue(const struct roce_cc *cc)
{
	return cc->rtt <= cc->least_rtt + cc->least_rtt / 8 + TUNE_CC_QUEUE_MIN;
}

/* Returns the growth for a window's worth of acknowledgements, in 1 / TUNE_CC_STEPS. */
static uint32_t growth(const struct roce_cc *cc)
{
	uint64_t timed = cc->rtt * TUNE_CC_GROWTH / VRB_MSEC;

	if (cc->calm >= TUNE_CC_CALM_FAST && is_fast(cc))
		return max(cc->limit, (uint32_t)TUNE_CC_STEPS);
	if (cc->calm >= TUNE_CC_CALM_FAST || (!cc->cnp_until && has_no_queue(cc)))
		return TUNE_CC_STEPS;
	return min(max(timed, (uint64_t)TUNE_CC_GROWTH_MIN), (uint64_t)TUNE_CC_STEPS);
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
	cc->calm++;
	cc->part += growth(cc);
	set_window(cc, min(cc->window + cc->part / TUNE_CC_STEPS, ceiling(cc)));
	cc->part %= TUNE_CC_STEPS;
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

/* A window's acknowledgements still count for its growth. `by` is in 1 / TUNE_CC_STEPS. */
static void shrink(struct roce_cc *cc, uint32_t by)
{
	uint32_t least = TUNE_CC_WINDOW_MIN * TUNE_CC_STEPS;
	uint32_t size = cc->window * TUNE_CC_STEPS + cc->part;

	size = size > least + by ? size - by : least;
	cc->window = size / TUNE_CC_STEPS;
	cc->part = size % TUNE_CC_STEPS;
}

/* A slow flow cannot cause more CNPs than it has packets in a round trip. */
void roce_cc_notified(struct roce_cc *cc, uint64_t now)
{
	uint64_t cnps = cc->rtt / LIMIT_CC_CNP_INTERVAL;

	if (now < cc->cnp_until)
		return;
	cc->cnp_until = time_after(now, LIMIT_CC_CNP_INTERVAL);
	cc->fast_to = 0;
	disturb(cc);
	cnps = min(max(cnps, (uint64_t)1), (uint64_t)cc->window);
	shrink(cc, cc->window * TUNE_CC_STEPS / TUNE_CC_CNP_PART / (uint32_t)cnps);
}
