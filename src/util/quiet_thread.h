/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library beside the program's. No state. */
#ifndef VRB_UTIL_QUIET_THREAD_H
#define VRB_UTIL_QUIET_THREAD_H

#include <pthread.h>

/*
 * As pthread_create(), with all signals blocked from the beginning, since they are for the
 * program's threads; but not SIGSEGV and SIGBUS: accesses to memory of the program may fault, which
 * is handled (run/nofault.h), and a fault with its signal blocked ends the process.
 */
int quiet_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
