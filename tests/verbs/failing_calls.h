/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel, in a bad mood: calls of the C library that enter it, in place of its own for the
 * program and the libraries under test, so that one of them fails, or all from one on.
 */
#ifndef TESTS_VERBS_FAILING_CALLS_H
#define TESTS_VERBS_FAILING_CALLS_H

#include <stdbool.h>

/*
 * From here on a call that fails is one that a signal interrupted: EINTR, and only those that
 * signals do interrupt.
 */
void calls_are_interrupted(bool interrupted);

/*
 * The n-th call from now (from 0) fails, and with `forever` all later ones, in this thread, or in
 * any; -1: none.
 */
void calls_fail(long n, bool forever, bool any_thread);

/* The name of the first that failed since; NULL: none did. */
const char *calls_failed(void);

#endif
