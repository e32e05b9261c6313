/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ThreadSanitizer sees the copies of a library that it did not build, but not its locks, and takes
 * them for data races. Only an option that it reads at its start prevents that.
 */
#include "run/sanitizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "util/compiler.h"

#define OPTION "ignore_noninstrumented_modules"

#ifndef __SANITIZE_THREAD__
/* Its runtime, if the program has one. */
void __tsan_init(void) __attribute__((weak));
const char *__tsan_default_options(void) __attribute__((weak));

static bool names_option(const char *options)
{
	return options && strstr(options, OPTION);
}

static bool reports_races_of_libraries(void)
{
	return __tsan_init && !names_option(getenv("TSAN_OPTIONS")) &&
	       !(__tsan_default_options && names_option(__tsan_default_options()));
}
#else
static bool reports_races_of_libraries(void)
{
	return false;
}
#endif

const char *sanitizer_advice(void)
{
	return reports_races_of_libraries()
		       ? "ThreadSanitizer does not see the locks of this library and reports data "
			 "races in it; set TSAN_OPTIONS=" OPTION "=1"
		       : NULL;
}
