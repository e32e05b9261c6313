/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests whose forked children continue to use the library. */
#ifndef TESTS_VERBS_FORK_SINGLE_H
#define TESTS_VERBS_FORK_SINGLE_H

#include <stdlib.h>

#include "left_out.h"

/*
 * ThreadSanitizer's run-time ends a forked child that starts a thread if the parent had several.
 * AddressSanitizer's allocator has no fork handler, so a child forked while another thread
 * allocates waits for ever. Without a progress thread the process is single-threaded.
 */
static inline void fork_single_threaded(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	setenv("VERBENA_PROGRESS", "none", 1);
	left_out(1, "sanitizers do not support fork with several threads: no progress thread");
#endif
}

#endif
