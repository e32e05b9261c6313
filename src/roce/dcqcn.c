/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/dcqcn.h"

#include "util/compiler.h"
#include "util/tuning.h"

enum {
	ONE = 1024,		/* 1.0 for alpha */
};

static void measure_from(struct roce_dcqcn *r, uint64_t bytes, uint64_t now)
{
	r->measures = true;
	r->measured_at = now;
	r->measured_from = bytes;
}

/* The recent send rate; 0: not known yet. */
static uint32_t measured(struct roce_dcqcn *r, uint64_t bytes, uint64_t now)
{
	uint64_t kbps, time = now - r->measured_at;

	if (!r->measures || now < r->measured_at || time > LIMIT_DCQCN_MEASURE_MAX) {
		measure_from(r, bytes, now);
		return 0;
	}
	if (time < TUNE_DCQCN_MEASURE_MIN)
		return 0;
	kbps = (bytes - r->measured_from) * 8 * 1000000 / time;
	return min(kbps, (uint64_t)LIMIT_DCQCN_MAX);
}

/*
 * Several cuts may be due to the same queue, so the target keeps part of the rate before the first
 * one.
 */
static void cut(struct roce_dcqcn *r, uint32_t rate)
{
	r->target = r->noted ? (r->target + rate) / 2 : rate;
	r->kbps = max(rate - (uint32_t)((uint64_t)rate * r->alpha / (2 * ONE)),
		      (uint32_t)LIMIT_DCQCN_MIN);
	r->alpha += (ONE - r->alpha) / TUNE_DCQCN_GAIN;
	r->periods = 0;
	r->noted = false;
}

void roce_dcqcn_notified(struct roce_dcqcn *r, uint64_t bytes, uint64_t now)
{
	uint32_t rate;

	if (r->kbps)
		roce_dcqcn_recover(r, now);
	if (r->kbps && !r->periods) {
		/* Packets sent before a cut still cause CNPs for a while. */
		r->noted |= now + TUNE_DCQCN_PERIOD / 2 >= r->period_end;
		return;
	}
	rate = r->kbps ? r->kbps : measured(r, bytes, now);
	if (!rate)
		return;
	if (!r->kbps)
		r->alpha = ONE;
	cut(r, rate);
	r->period_end = time_after(now, TUNE_DCQCN_PERIOD);
	r->measures = false;
}

/* In proportion to the rate, so that a slow link is not overrun at each step. */
static uint32_t step(const struct roce_dcqcn *r)
{
	return min(r->target / TUNE_DCQCN_STEP_PART, (uint32_t)TUNE_DCQCN_STEP);
}

static void recover_by_a_period(struct roce_dcqcn *r)
{
	r->periods++;
	r->alpha -= r->alpha / TUNE_DCQCN_GAIN;
	if (r->periods > TUNE_DCQCN_HYPER)
		r->target += TUNE_DCQCN_HYPER_STEPS * step(r);
	else if (r->periods > TUNE_DCQCN_FAST)
		r->target += step(r);
	r->kbps = (uint32_t)(((uint64_t)r->kbps + r->target + 1) / 2);
	if (r->kbps > LIMIT_DCQCN_MAX)
		r->kbps = 0;
}

/* The limit ends above the largest rate, which recovery reaches after some hundred periods. */
void roce_dcqcn_recover(struct roce_dcqcn *r, uint64_t now)
{
	while (r->kbps && now >= r->period_end) {
		if (r->noted)
			cut(r, r->kbps);
		else
			recover_by_a_period(r);
		r->period_end += TUNE_DCQCN_PERIOD;
	}
}
