/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/clock.h"

#include <time.h>

#include "util/time.h"

uint64_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * VRB_SECOND + (uint64_t)ts.tv_nsec;
}
