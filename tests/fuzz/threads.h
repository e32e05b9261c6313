/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What fuzzers of several threads share: random numbers of each thread, by the seed of the run, and
 * a check that says what was found. Threads take turns as the kernel decides, so a seed repeats
 * what each of them does, and not always what comes of it.
 */
#ifndef TESTS_FUZZ_THREADS_H
#define TESTS_FUZZ_THREADS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t threads_seed;
static __thread uint64_t threads_random;

/* The seed of the run: VERBENA_SEED, or 1. */
static inline void threads_start(void)
{
	const char *seed = getenv("VERBENA_SEED");

	threads_seed = seed ? strtoull(seed, NULL, 0) : 1;
	printf("seed %" PRIu64 " (VERBENA_SEED)\n", threads_seed);
	fflush(stdout);
}

/* In each thread, before below(). */
static inline void threads_begin(uint64_t thread)
{
	threads_random = threads_seed * 1000003 + thread * 7919;
}

/* 0 to n - 1; n > 0. */
static inline uint64_t below(uint64_t n)
{
	uint64_t z = threads_random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

/* Ends the program unless the condition holds; the rest is as of printf(3). */
#define EXPECT(condition, ...)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);            \
			fprintf(stderr, __VA_ARGS__);                                              \
			fprintf(stderr, "\n");                                                     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
