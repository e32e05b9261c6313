/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel counts of a thread. */
#ifndef VRB_RUN_THREAD_USE_H
#define VRB_RUN_THREAD_USE_H

#include <stdint.h>

struct thread_use {
	uint64_t cpu;		/* ns */
	uint64_t others;	/* CPU time of the process's other threads, in ns */
	uint64_t sleeps;	/* how often it gave up the CPU to wait for something */
};

/* Of the calling thread, since it began. Two system calls. */
struct thread_use thread_use_now(void);

#endif
