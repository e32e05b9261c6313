/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_UTIL_COPY_FEW_H
#define VRB_UTIL_COPY_FEW_H

#include <stdint.h>
#include <string.h>

#include "util/atomic.h"

/*
 * Copies one member of a structure whose members were just stored one by one. A processor forwards
 * a store to a load that follows it only if the load is not wider. So to copy such a structure with
 * wide loads, as an assignment does, waits until all stores before have left the store buffer: a
 * cache line's time, if one of them was to a line that another processor has. The compiler does not
 * join atomic stores.
 */
#define copy_member(to, from, member) store_relaxed(&(to)->member, (from)->member)

/*
 * As memcpy(), whose call costs more than the few bytes of most small messages. Nothing may also be
 * copied from NULL: programs post empty SGEs so.
 */
static inline void copy_few(void *dst, const void *src, uint32_t len)
{
	enum { WORD = sizeof(uint64_t) };
	uint8_t *to = dst;
	const uint8_t *from = src;

	if (len < WORD || len > 2 * WORD) {
		if (len)
			memcpy(to, from, len);
		return;
	}
	memcpy(to, from, WORD);
	memcpy(to + len - WORD, from + len - WORD, WORD);
}

#endif
