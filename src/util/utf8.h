/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of programs, interfaces and hosts may be any bytes, but what goes into JSON must be UTF-8
 * (RFC 3629: the shortest form, no surrogates, up to U+10FFFF).
 */
#ifndef VRB_UTIL_UTF8_H
#define VRB_UTIL_UTF8_H

#include <stdint.h>

/* Stands for what is no character: U+FFFD. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The bytes of the character at text, which ends with a zero; 0: it is none. */
static inline unsigned int utf8_length(const char *text)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	unsigned int n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 :
			 s[0] < 0xf8 ? 4 : 0;
	uint32_t c = n > 1 ? s[0] & (0x7fu >> n) : s[0];

	for (unsigned int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	return n < 2 || (c >= least[n] && c >> 11 != 0x1b && c <= 0x10ffff) ? n : 0;
}

#endif
