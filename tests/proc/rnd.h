/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers for tests of several processes. A child forked after rnd_start() draws the same
 * numbers as its parent.
 */
#ifndef TESTS_PROC_RND_H
#define TESTS_PROC_RND_H

#include <stdint.h>

/* Seeds from $VERBENA_SEED or the clock, and prints the seed, which repeats a run. */
void rnd_start(void);

/* A number less than n. */
uint32_t rnd(uint32_t n);

#endif
