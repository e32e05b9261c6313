/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of text that is put together piece by piece; what does not fit is cut off. */
#ifndef VRB_UTIL_TEXT_H
#define VRB_UTIL_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "util/compiler.h"

struct text {
	char s[640];
	size_t n;
};

static inline void text_add(struct text *t, const char *fmt, ...) format_printf(2, 3);

static inline void text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->s + t->n, sizeof(t->s) - t->n, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->n = min(t->n + (size_t)n, sizeof(t->s) - 1);
}

#endif
