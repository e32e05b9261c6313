/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VRB_UTIL_MEMCHECK_H
#define VRB_UTIL_MEMCHECK_H

#include <stdbool.h>

#ifdef HAVE_MEMCHECK_H
#include <valgrind/memcheck.h>
#endif

/* Does valgrind's memcheck run this process? Other tools of valgrind do not count. */
static inline bool memcheck_runs(void)
{
#ifdef HAVE_MEMCHECK_H
	char byte = 0, bits;

	return VALGRIND_GET_VBITS(&byte, &bits, 1) == 1;
#else
	return false;
#endif
}

#endif
