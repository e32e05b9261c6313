/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extensible option structs: each begins with its size in the program's version. Later versions
 * append members whose value 0 means the earlier behaviour.
 */
#include <errno.h>
#include <string.h>

#include "verbena/private.h"

enum {
	LARGEST = 4096, /* larger than any version: the size was never initialised */
};

static int size_of(const void *options, size_t known, const char *what, size_t *size)
{
	memcpy(size, options, sizeof(*size));
	if (*size < known || *size > LARGEST)
		return fail(EINVAL, "%s: size %zu matches no version; was it initialised?", what,
			    *size);
	return 0;
}

int options_copy(void *to, size_t known, const void *from, const char *what)
{
	const unsigned char *bytes = from;
	size_t size;

	if (size_of(from, known, what, &size))
		return -1;
	for (size_t i = known; i < size; i++)
		if (bytes[i])
			return fail(E2BIG, "%s: byte %zu belongs to a later version", what, i);
	memcpy(to, from, known);
	return 0;
}

int options_init(void *options, size_t size, const void *defaults, size_t known, const char *what)
{
	if (!options)
		return fail(EINVAL, "%s: NULL", what);
	if (size < known || size > LARGEST)
		return fail(EINVAL, "%s: size %zu matches no version", what, size);
	memset(options, 0, size);
	memcpy(options, defaults, known);
	memcpy(options, &size, sizeof(size));
	return 0;
}
