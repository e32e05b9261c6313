/* SPDX-License-Identifier: BSD-2-Clause */
/* See recorder.h. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "recorder.h"

enum {
	CALLS_MAX = 100000,
};

struct call {
	const void *function;
	bool enter;
};

static __thread bool on;
static struct call calls[CALLS_MAX];
static size_t count;

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
	count = 0;
	on = true;
}

void trace_drop(void)
{
	on = false;
	count = 0;
}

void trace_stop(FILE *out, const char *name, const void *in_library)
{
	Dl_info library, found;

	on = false;
	CHECK(count < CALLS_MAX);
	CHECK(dladdr(in_library, &library));
	for (size_t i = 0; i < count; i++) {
		if (!dladdr(calls[i].function, &found) || found.dli_fbase != library.dli_fbase)
			continue;
		fprintf(out, "%s %s %#tx\n", name, calls[i].enter ? "enter" : "leave",
			(const char *)calls[i].function - (const char *)library.dli_fbase);
	}
	fflush(out);
	count = 0;
}
