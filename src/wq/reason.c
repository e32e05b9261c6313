/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looks reasons up in the catalogue; a linear search, because it only serves people reading errors.
 */
#include "wq/reason.h"

#include <stddef.h>

#include "util/compiler.h"

static const struct {
	unsigned int number;
	const char *name;
	const char *text;
} catalogue[] = {
#define REASON(name, number, text) { number, #name, text },
#include "wq/reason.def"
#undef REASON
};

const char *reason_str(unsigned int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(catalogue); i++)
		if (catalogue[i].number == number)
			return catalogue[i].text;
	return "unknown reason";
}

const char *reason_name(unsigned int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(catalogue); i++)
		if (catalogue[i].number == number)
			return catalogue[i].name;
	return NULL;
}
