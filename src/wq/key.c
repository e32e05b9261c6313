/* SPDX-License-Identifier: BSD-2-Clause */
/* The digest of memory keys; key.h defines keys. */
#include "wq/key.h"

#include <string.h>

uint32_t mr_entry_sum(const struct mr_entry *e)
{
	uint64_t word[sizeof(*e) / sizeof(uint64_t)], sum = 0;
	struct mr_entry copy = *e;

	copy.refs = copy.sum = 0;
	memcpy(word, &copy, sizeof(word));
	for (size_t i = 0; i < ARRAY_SIZE(word); i++)
		sum = (sum ^ word[i]) * 0x9e3779b97f4a7c15ull + (sum >> 29);
	return sum >> 32;
}
