/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_PIN_H
#define BENCH_PIN_H

#include <sched.h>

/*
 * Binds the calling thread to the nth of the CPUs that it may use, modulo their number: the
 * scheduler may be slow to give each thread its own.
 */
static inline void pin(int nth)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	nth %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

#endif
