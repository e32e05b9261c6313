/* SPDX-License-Identifier: BSD-2-Clause */
/* See recorder.h. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "recorder.h"

enum {
	CALLS_MAX = 200000,
	SECTIONS_MAX = 100,
};

struct call {
	const void *function;
	bool enter;
};

static __thread bool on;
static struct call calls[CALLS_MAX];
static size_t count, start; /* of all calls; where the current section begins */

static struct section {
	const char *name;
	unsigned int round;
	size_t end;
} sections[SECTIONS_MAX];
static unsigned int n_sections;

static void note(const void *function, bool enter)
{
	if (on && count < CALLS_MAX)
		calls[count++] = (struct call){ function, enter };
}

/* What the compiler calls at the start and at the end of each function. */
#define HOOK __attribute__((no_instrument_function, visibility("default")))

HOOK void __cyg_profile_func_enter(void *function, void *caller);
HOOK void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
	note(function, true);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	note(function, false);
}

void trace_start(void)
{
	start = count;
	on = true;
}

void trace_drop(void)
{
	on = false;
	count = start;
}

void trace_keep(const char *name, unsigned int round)
{
	on = false;
	CHECK(count < CALLS_MAX && n_sections < SECTIONS_MAX);
	sections[n_sections++] = (struct section){ name, round, count };
}

void trace_write(FILE *out, const void *in_library)
{
	Dl_info library, found;
	size_t i = 0;

	CHECK(dladdr(in_library, &library));
	for (unsigned int k = 0; k < n_sections; k++) {
		const struct section *s = &sections[k];

		for (; i < s->end; i++) {
			if (!dladdr(calls[i].function, &found) ||
			    found.dli_fbase != library.dli_fbase)
				continue;
			fprintf(out, "%s %u %s %#tx\n", s->name, s->round,
				calls[i].enter ? "enter" : "leave",
				(const char *)calls[i].function - (const char *)library.dli_fbase);
		}
	}
	fflush(out);
}
