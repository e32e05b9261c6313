/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers for tests of several processes: a child forked after the start draws what its
 * parent does.
 */
#ifndef TESTS_PROC_RND_H
#define TESTS_PROC_RND_H

#include <stdint.h>

/* $VERBENA_SEED or one of the clock; prints it, to repeat a run. */
void rnd_start(void);

/* Less than n. */
uint32_t rnd(uint32_t n);

#endif
