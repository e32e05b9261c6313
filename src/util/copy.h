/* SPDX-License-Identifier: BSD-2-Clause */
/* Copying payload. */
#ifndef VRB_UTIL_COPY_H
#define VRB_UTIL_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * memcpy() in pieces that glibc copies with vector instructions: for more than 2112 bytes it takes
 * `rep movsb`, which on AMD Zen 3 copies 2.5 GB/s instead of 30 if the destination is 1 to 31 bytes
 * ahead of the source modulo 4096.  A page and a buffer of malloc() are such a pair.  Other pairs
 * are as fast in pieces.
 */
static inline void copy_payload(void *to, const void *from, size_t n)
{
	enum { PIECE = 2048 };
	const uint8_t *src = from;
	uint8_t *dst = to;

	for (; n > PIECE; n -= PIECE, dst += PIECE, src += PIECE)
		memcpy(dst, src, PIECE);
	memcpy(dst, src, n);
}

#endif
