/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel counts of a thread. */
#ifndef VRB_RUN_THREAD_USE_H
#define VRB_RUN_THREAD_USE_H

#include <stdint.h>

struct thread_use {
	uint64_t cpu;		/* ns */
	/* CPU time of the process's other threads, in ns; some more, as it is read after cpu */
	uint64_t others;
	uint64_t sleeps;	/* how often it gave up the CPU to wait for something */
};

/* Of the calling thread, since it began. Three system calls. */
struct thread_use thread_use_now(void);

/* Names the calling thread's CPU time for any thread; 0: the kernel has no such clock. */
int thread_cpu_clock(void);

/* In ns; 0 if that thread has ended. A system call. */
uint64_t thread_cpu_time(int clock);

#endif
