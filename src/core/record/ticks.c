/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/record/ticks.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "run/clock.h"
#include "util/time.h"

enum {
	CLOSE = 500,	/* ticks: more between two readings, and the thread was interrupted */
	GOOD_NS = 50000,
	MEASURE_NS = 1000000,	/* the rate is measured over so much or more, */
};

/* ns: and over not much more, since the kernel's clock is steered. */
#define RENEW_NS VRB_SECOND

static bool usable;

void record_ticks_start(void)
{
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);
	char name[8] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name));

	usable = n >= 4 && !memcmp(name, "tsc\n", 4);
	if (fd >= 0)
		close(fd);
}

#ifdef __x86_64__
static void begin(struct record_ticks *t, uint64_t tick, uint64_t ns)
{
	t->first_tick = tick;
	t->first_ns = ns;
}

/* The counter was read together with the clock. */
static void take(struct record_ticks *t, uint64_t tick, uint64_t ns)
{
	uint64_t ticks = tick - t->first_tick, elapsed = ns - t->first_ns;

	if (!t->first_ns || tick <= t->first_tick) {
		t->rate = 0;
		begin(t, tick, ns);
	} else if (elapsed >= MEASURE_NS) {
		t->rate = (uint64_t)(((unsigned __int128)elapsed << 32) / ticks);
		if (elapsed >= RENEW_NS)
			begin(t, tick, ns);
	}
	t->tick = tick;
	t->ns = ns;
	t->limit = t->rate ? ((uint64_t)GOOD_NS << 32) / t->rate : 0;
}
#endif

uint64_t record_ticks_read(struct record_ticks *t)
{
	uint64_t now;
#ifdef __x86_64__
	uint64_t before = __rdtsc(), after;

	now = clock_now();
	after = __rdtsc();
	t->limit = 0;
	if (usable && after - before < CLOSE)
		take(t, before + (after - before) / 2, now);
#else
	now = clock_now();
#endif
	return now;
}
