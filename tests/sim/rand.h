/* SPDX-License-Identifier: BSD-2-Clause */
/* The random number generator of simulated runs (splitmix64). A seed determines the whole run. */
#ifndef SIM_RAND_H
#define SIM_RAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rng {
	uint64_t state;
};

static inline void rng_seed(struct rng *r, uint64_t seed)
{
	r->state = seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull;
}

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* 0..n-1; n > 0 */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

/* lo..hi, both included */
static inline uint64_t rng_range(struct rng *r, uint64_t lo, uint64_t hi)
{
	return lo + rng_below(r, hi - lo + 1);
}

static inline bool rng_ppm(struct rng *r, uint32_t ppm)
{
	return ppm && rng_below(r, 1000000) < ppm;
}

static inline bool rng_percent(struct rng *r, uint32_t percent)
{
	return rng_below(r, 100) < percent;
}

static inline void rng_fill(struct rng *r, uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v = rng_next(r);

		memcpy(p, &v, 8);
	}
	while (len--)
		*p++ = rng_next(r);
}

#endif
