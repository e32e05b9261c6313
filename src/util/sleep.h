/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeps that signals do not shorten: many programs have a timer (profilers, runtimes). */
#ifndef VRB_UTIL_SLEEP_H
#define VRB_UTIL_SLEEP_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "util/cancel.h"
#include "util/time.h"

/* No cancellation point; errno stays. */
static inline void sleep_whole(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / VRB_SECOND), (long)(ns % VRB_SECOND) };

	while (SYS_CALL(SYS_nanosleep, &left, &left) == -EINTR)
		continue;
}

#endif
