/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/slow.h"

#include "util/compiler.h"

enum {
	ONE = 1024,		/* of alpha */
	GAIN = 16,		/* 1/g of DCQCN */
	FAST_PERIODS = 5,	/* of recovery, before steps beyond the target */
	HYPER_PERIODS = 100,
	STEP = 8000,		/* kbit/s */
	HYPER_STEP = 4 * STEP,
};

/* What is measured over less is one burst or none; over more, pauses of the program. */
#define MEASURE_MIN (200 * VRB_USEC)
#define MEASURE_MAX (10 * VRB_MSEC)

static void measure_from(struct roce_slow *r, uint64_t bytes, uint64_t now)
{
	r->measures = true;
	r->measured_at = now;
	r->measured_from = bytes;
}

/* What is sent of late; 0: not known yet. */
static uint32_t measured(struct roce_slow *r, uint64_t bytes, uint64_t now)
{
	uint64_t kbps, time = now - r->measured_at;

	if (!r->measures || now < r->measured_at || time > MEASURE_MAX) {
		measure_from(r, bytes, now);
		return 0;
	}
	if (time < MEASURE_MIN)
		return 0;
	kbps = (bytes - r->measured_from) * 8 * 1000000 / time;
	return min(kbps, (uint64_t)ROCE_SLOW_MAX);
}

/* One that follows another is perhaps about the queue that stands since: what was before is not given up at once. */
static void cut(struct roce_slow *r, uint32_t rate)
{
	r->target = r->noted ? (r->target + rate) / 2 : rate;
	r->kbps = max(rate - (uint32_t)((uint64_t)rate * r->alpha / (2 * ONE)), (uint32_t)ROCE_SLOW_MIN);
	r->alpha += (ONE - r->alpha) / GAIN;
	r->periods = 0;
	r->noted = false;
}

void roce_slow_notified(struct roce_slow *r, uint64_t bytes, uint64_t now)
{
	uint32_t rate;

	if (r->kbps)
		roce_slow_recover(r, now);
	if (r->kbps && !r->periods) {
		/* What was sent before a cut still brings CNPs, for a while. */
		r->noted |= now + ROCE_SLOW_PERIOD / 2 >= r->period_end;
		return;
	}
	rate = r->kbps ? r->kbps : measured(r, bytes, now);
	if (!rate)
		return;
	if (!r->kbps)
		r->alpha = ONE;
	cut(r, rate);
	r->period_end = time_after(now, ROCE_SLOW_PERIOD);
	r->measures = false;
}

static void recover_by_a_period(struct roce_slow *r)
{
	r->periods++;
	r->alpha -= r->alpha / GAIN;
	if (r->periods > HYPER_PERIODS)
		r->target += HYPER_STEP;
	else if (r->periods > FAST_PERIODS)
		r->target += STEP;
	r->kbps = (uint32_t)(((uint64_t)r->kbps + r->target + 1) / 2);
	if (r->kbps > ROCE_SLOW_MAX)
		r->kbps = 0;
}

/* Above the largest rate it ends, which the steps reach after some hundred periods. */
void roce_slow_recover(struct roce_slow *r, uint64_t now)
{
	while (r->kbps && now >= r->period_end) {
		if (r->noted)
			cut(r, r->kbps);
		else
			recover_by_a_period(r);
		r->period_end += ROCE_SLOW_PERIOD;
	}
}
