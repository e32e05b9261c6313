/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A case inside a test that cannot run here says so in one form, which scripts/run_tests.py adds
 * up:
 *
 *	left out: NUMBER OF CASES: REASON
 *
 * A test of which no case can run exits with 77 instead.
 */
#ifndef TESTS_LEFT_OUT_H
#define TESTS_LEFT_OUT_H

#include <stdio.h>

static inline void left_out(unsigned int cases, const char *why)
{
	printf("\nleft out: %u: %s\n", cases, why);
	fflush(stdout);
}

/* Ends the running cmocka test. */
#define LEAVE_OUT(why)                                                                             \
	do {                                                                                       \
		left_out(1, (why));                                                                \
		skip();                                                                            \
	} while (0)

#endif
