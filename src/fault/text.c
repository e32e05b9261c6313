/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounded text without stdio. */
#include "fault/text.h"

struct fault_text fault_text(char *out, size_t cap)
{
	out[0] = '\0';
	return (struct fault_text){ .out = out, .cap = cap };
}

void fault_put_char(struct fault_text *t, char c)
{
	if (t->len + 1 < t->cap) {
		t->out[t->len] = c;
		t->out[t->len + 1] = '\0';
	}
	t->len++;
}

void fault_put(struct fault_text *t, const char *s)
{
	while (*s)
		fault_put_char(t, *s++);
}

static void put_digits(struct fault_text *t, uint64_t v, unsigned int base)
{
	char digit[20];
	unsigned int n = 0;

	do {
		digit[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	while (n)
		fault_put_char(t, digit[--n]);
}

void fault_put_number(struct fault_text *t, uint64_t v)
{
	put_digits(t, v, 10);
}

void fault_put_hex(struct fault_text *t, uint64_t v)
{
	fault_put(t, "0x");
	put_digits(t, v, 16);
}
