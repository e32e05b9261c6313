/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a process wait for a processor, or for the kernel to give it memory?  Then that it does not answer means nothing yet; where it is stopped,
 * sleeps for good or is gone, it does.
 */
#ifndef VRB_HOST_WANTS_CPU_H
#define VRB_HOST_WANTS_CPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Some system calls per thread of the process. False also where /proc does not tell. */
bool host_wants_cpu(pid_t pid);

/* Nanoseconds that all its threads have run; 0 if it is gone. */
uint64_t host_cpu_time(pid_t pid);

#endif
