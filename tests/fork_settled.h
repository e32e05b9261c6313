/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork() for tests whose process has other threads, and whose child allocates memory.
 *
 * AddressSanitizer's allocator (GCC 12 and 13) has no fork handler. A child that is forked while
 * another thread is inside the allocator waits there for ever. A thread is in it when it starts,
 * even before its first instruction, and seldom after that. So wait until all other threads sleep.
 */
#ifndef TESTS_FORK_SETTLED_H
#define TESTS_FORK_SETTLED_H

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)

enum { FORK_SETTLED_LIMIT_S = 10 }; /* a thread that never sleeps must not hang the test */

/* The state of a thread in /proc, 'S' if it sleeps; 0 if the thread has ended. */
static inline char thread_state(const char *tid)
{
	char path[300], stat[512] = "";
	const char *name_end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	name_end = fgets(stat, sizeof(stat), f) ? strrchr(stat, ')') : NULL;
	fclose(f);
	return name_end ? name_end[2] : 0;
}

static inline bool other_threads_sleep(void)
{
	DIR *d = opendir("/proc/self/task");
	bool sleep = true;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char state = e->d_name[0] == '.' || atoi(e->d_name) == gettid() ?
				     0 : thread_state(e->d_name);

		sleep &= !state || state == 'S';
	}
	if (d)
		closedir(d);
	return sleep;
}

static inline pid_t fork_settled(void)
{
	time_t limit = time(NULL) + FORK_SETTLED_LIMIT_S;

	while (!other_threads_sleep() && time(NULL) < limit)
		sched_yield();
	return fork();
}

#else

static inline pid_t fork_settled(void)
{
	return fork();
}

#endif
#endif
