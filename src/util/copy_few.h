/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_UTIL_COPY_FEW_H
#define VRB_UTIL_COPY_FEW_H

#include <stdint.h>
#include <string.h>

/* As memcpy(), whose call costs more than the few bytes of most small messages. */
static inline void copy_few(void *dst, const void *src, uint32_t len)
{
	enum { WORD = sizeof(uint64_t) };
	uint8_t *to = dst;
	const uint8_t *from = src;

	if (len < WORD || len > 2 * WORD) {
		memcpy(to, from, len);
		return;
	}
	memcpy(to, from, WORD);
	memcpy(to + len - WORD, from + len - WORD, WORD);
}

#endif
