/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_ONE_CPU_H
#define TESTS_ONE_CPU_H

#include <sched.h>
#include <stdbool.h>

/*
 * Binds the calling thread, and those that it starts, to the CPU that it runs on; false if it may
 * not choose.
 */
static inline bool stay_on_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

#endif
