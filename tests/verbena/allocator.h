/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library's allocator, watched: it takes the place of malloc() and the others for the program
 * and the libraries under test, counts the calls of the thread that asks for it, and can fail one
 * of them or all from one on.
 */
#ifndef TESTS_VERBENA_ALLOCATOR_H
#define TESTS_VERBENA_ALLOCATOR_H

#include <stdbool.h>

/*
 * Of this thread. volatile, since compilers know that malloc() reads and writes no variables of a
 * program.
 */
extern __thread volatile bool allocator_counts;
extern __thread volatile unsigned long allocator_calls;

/*
 * The n-th call from now (from 0) fails with ENOMEM, and with `forever` all later ones; -1: none.
 */
void allocator_fail(long n, bool forever);

/* Has one failed since? */
bool allocator_failed(void);

#endif
