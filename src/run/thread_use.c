/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/thread_use.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "util/time.h"

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	if (clock_gettime(id, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * VRB_SECOND + (uint64_t)ts.tv_nsec;
}

struct thread_use thread_use_now(void)
{
	struct thread_use use = { 0 };
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return use;
	/* Not ru_utime and ru_stime, which are as of the last tick while the thread runs. */
	use.cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
	use.others = time_since(use.cpu, read_clock(CLOCK_PROCESS_CPUTIME_ID));
	use.sleeps = (uint64_t)usage.ru_nvcsw;
	return use;
}

int thread_cpu_clock(void)
{
	clockid_t id;

	return pthread_getcpuclockid(pthread_self(), &id) ? 0 : id;
}

uint64_t thread_cpu_time(int clock)
{
	return clock ? read_clock(clock) : 0;
}
