/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failing system calls: replaces the C library's system calls for the program and the libraries
 * under test, so that the N-th one fails, or all from the N-th on.
 */
#ifndef TESTS_VERBS_FAILING_CALLS_H
#define TESTS_VERBS_FAILING_CALLS_H

#include <stdbool.h>

/*
 * From now on a failing call fails with EINTR, as if a signal had interrupted it; only calls that
 * signals can interrupt fail.
 */
void calls_are_interrupted(bool interrupted);

/*
 * Makes the n-th call from now (from 0) fail, and with `forever` all later ones as well, in this
 * thread or in any; -1: none.
 */
void calls_fail(long n, bool forever, bool any_thread);

/* The name of the first call that failed since then; NULL if none did. */
const char *calls_failed(void);

#endif
