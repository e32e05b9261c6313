/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/cc_probe.h"

#include "util/compiler.h"
#include "util/tuning.h"

static void begin_period(struct roce_cc_probe *p)
{
	p->windows = 0;
	p->least = VRB_NEVER;
}

void roce_cc_probe_start(struct roce_cc_probe *p, uint32_t keep)
{
	*p = (struct roce_cc_probe){ .keep = keep, .wait = TUNE_CC_PROBE_WAIT,
				     .long_rtt = TUNE_CC_PROBE_RTT };
	begin_period(p);
}

void roce_cc_probe_disturbed(struct roce_cc_probe *p)
{
	p->window = 0;
	p->periods = 0;
	begin_period(p);
}

/* Reduce by three tenths: a flow that fills a third of the queue then shortens it by a tenth. */
static uint32_t begin_trial(struct roce_cc_probe *p, uint32_t window)
{
	p->before = p->least;
	p->window = window;
	p->periods = 0;
	return window - window * 3 / 10;
}

static uint32_t end_trial(struct roce_cc_probe *p, uint32_t window)
{
	bool shorter = p->least <= p->before - p->before / 10;
	uint32_t before = p->window;

	p->window = 0;
	p->wait = shorter ? TUNE_CC_PROBE_WAIT : min(p->wait * TUNE_CC_PROBE_BACKOFF,
						     (uint32_t)TUNE_CC_PROBE_WAIT_MAX);
	return shorter ? window : max(window, before);
}

static uint32_t end_period(struct roce_cc_probe *p, uint32_t window)
{
	bool longer = p->least > p->before + p->before / 4;

	if (window <= p->keep || p->least < p->long_rtt) {
		p->periods = 0;
		return window;
	}
	if (++p->periods < (longer ? TUNE_CC_PROBE_WAIT : p->wait))
		return window;
	return begin_trial(p, window);
}

/* A period without a measured round trip is extended. */
uint32_t roce_cc_probe_adapt(struct roce_cc_probe *p, uint32_t window)
{
	p->windows++;
	if (p->windows < TUNE_CC_PROBE_PERIOD || p->least == VRB_NEVER)
		return window;
	window = p->window ? end_trial(p, window) : end_period(p, window);
	begin_period(p);
	return window;
}
