/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FNV-1a, 64 bits: for names and fingerprints that need no protection against forgery.
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

#endif
