/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers for unit tests (splitmix64): one seed per run, printed, and taken from
 * VERBENA_SEED to repeat a run.
 */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t random_state;

static inline void random_start(void)
{
	const char *seed = getenv("VERBENA_SEED");

	random_state = seed ? strtoull(seed, NULL, 0) : 1;
	printf("seed %" PRIu64 " (VERBENA_SEED)\n", random_state);
}

static inline uint64_t random_u64(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Returns 0 to n-1; n > 0. */
static inline uint64_t random_below(uint64_t n)
{
	return random_u64() % n;
}

static inline void random_bytes(void *dst, size_t n)
{
	uint8_t *p = dst;

	while (n--)
		*p++ = (uint8_t)random_u64();
}

#endif
