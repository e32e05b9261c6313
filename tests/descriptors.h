/* SPDX-License-Identifier: BSD-2-Clause */
/* The number of descriptors of the process, for tests that look for leaks. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <dirent.h>

#include "check.h"

/* Only comparisons make sense: it counts a few entries more. */
static inline unsigned int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
