/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/yield.h"

#include "util/compiler.h"

enum { PATIENCE = 4 };

static void begin_period(struct roce_yield *y)
{
	y->windows = 0;
	y->least = VRB_NEVER;
}

void roce_yield_start(struct roce_yield *y, uint32_t keep)
{
	*y = (struct roce_yield){ .keep = keep, .wait = ROCE_YIELD_WAIT };
	begin_period(y);
}

void roce_yield_disturbed(struct roce_yield *y)
{
	y->window = 0;
	y->periods = 0;
	begin_period(y);
}

void roce_yield_sample(struct roce_yield *y, uint64_t rtt)
{
	y->least = min(y->least, rtt);
}

/* Three tenths less: a flow to which a third of the queue belongs shortens it by a tenth. */
static uint32_t begin_trial(struct roce_yield *y, uint32_t window)
{
	y->before = y->least;
	y->window = window;
	y->periods = 0;
	return window - window * 3 / 10;
}

static uint32_t end_trial(struct roce_yield *y, uint32_t window)
{
	bool shorter = y->least <= y->before - y->before / 10;
	uint32_t before = y->window;

	y->window = 0;
	y->wait = shorter ? ROCE_YIELD_WAIT : min(y->wait * PATIENCE, (uint32_t)ROCE_YIELD_WAIT_MAX);
	return shorter ? window : max(window, before);
}

static uint32_t end_period(struct roce_yield *y, uint32_t window)
{
	bool longer = y->least > y->before + y->before / 4;

	if (window <= y->keep || y->least < ROCE_YIELD_RTT) {
		y->periods = 0;
		return window;
	}
	if (++y->periods < (longer ? ROCE_YIELD_WAIT : y->wait))
		return window;
	return begin_trial(y, window);
}

/* A period in which no round trip was measured goes on. */
uint32_t roce_yield_adapt(struct roce_yield *y, uint32_t window)
{
	y->windows++;
	if (y->windows < ROCE_YIELD_PERIOD || y->least == VRB_NEVER)
		return window;
	window = y->window ? end_trial(y, window) : end_period(y, window);
	begin_period(y);
	return window;
}
