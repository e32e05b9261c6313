/* SPDX-License-Identifier: BSD-2-Clause */
#include "rnd.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t seed;

void rnd_start(void)
{
	const char *env = getenv("VERBENA_SEED");

	seed = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL);
	printf("VERBENA_SEED=%llu\n", (unsigned long long)seed);
}

uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}
