/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/thread_use.h"

#include <sys/resource.h>

#include "run/clock.h"
#include "util/time.h"

static uint64_t ns_of(struct timeval t)
{
	return (uint64_t)t.tv_sec * VRB_SECOND + (uint64_t)t.tv_usec * VRB_USEC;
}

struct thread_use thread_use_now(void)
{
	struct thread_use use = { 0 };
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return use;
	use.cpu = ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
	use.others = time_since(use.cpu, clock_process());
	use.sleeps = (uint64_t)usage.ru_nvcsw;
	return use;
}
