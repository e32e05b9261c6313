/* SPDX-License-Identifier: BSD-2-Clause */
/* The number of descriptors of the process, for tests that look for leaks. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <dirent.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

enum { SETTLED_MS = 200 };

/*
 * Once the number has not changed for a while: the library's threads open some for a moment, such
 * as for a look at the interfaces. Waits by a system call that tests do not replace.
 */
static inline unsigned int settled_descriptors(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned int n = count_descriptors();

	for (int same = 0; same < SETTLED_MS; same++) {
		unsigned int now;

		syscall(SYS_nanosleep, &pause, NULL);
		now = count_descriptors();
		same = now == n ? same : -1;
		n = now;
	}
	return n;
}

#endif
