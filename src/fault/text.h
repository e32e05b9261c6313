/* SPDX-License-Identifier: BSD-2-Clause */
/* Text in a buffer of limited size: the rest is counted only, and a 0 ends the text. */
#ifndef VRB_FAULT_TEXT_H
#define VRB_FAULT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct fault_text {
	char *out;
	size_t cap;	/* 1 at least */
	size_t len;	/* of the whole text, without the 0 */
};

struct fault_text fault_text(char *out, size_t cap);

void fault_put(struct fault_text *t, const char *s);
void fault_put_char(struct fault_text *t, char c);
void fault_put_number(struct fault_text *t, uint64_t v);
void fault_put_hex(struct fault_text *t, uint64_t v); /* 0x1f */

#endif
