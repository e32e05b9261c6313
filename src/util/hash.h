/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hashes that need no protection against forgery: FNV-1a, 64 bits, for names and fingerprints; a
 * mix of one word.
 */
#ifndef VRB_UTIL_HASH_H
#define VRB_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325ull

static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

/*
 * The finaliser of SplitMix64 (public domain, S. Vigna): a bijection in which each bit of the
 * result depends on each bit of the argument.
 */
static inline uint64_t hash_mix(uint64_t v)
{
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ v >> 27) * 0x94d049bb133111ebull;
	return v ^ v >> 31;
}

#endif
