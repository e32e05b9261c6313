/* SPDX-License-Identifier: BSD-2-Clause */
/* A fuzz input as a program: operands are taken off its front; zeros when it is used up. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *p, *end;
};

static inline bool more(const struct input *in)
{
	return in->p < in->end;
}

static inline uint8_t byte(struct input *in)
{
	return more(in) ? *in->p++ : 0;
}

static inline uint32_t word(struct input *in)
{
	return (uint32_t)byte(in) << 24 | byte(in) << 16 | byte(in) << 8 | byte(in);
}

#endif
