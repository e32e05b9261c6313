/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/wants_cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/cancel.h"
#include "util/time.h"

/* The letter behind the name, which is in parentheses and may have some of its own (proc(5)). */
static char thread_state(int tasks, const char *tid)
{
	char path[32], line[512];
	const char *end;
	ssize_t n;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/stat", tid) >= sizeof(path))
		return 0;
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	line[n] = '\0';
	end = strrchr(line, ')');
	return end && end[1] ? end[2] : 0;
}

bool host_wants_cpu(pid_t pid)
{
	const struct dirent *e;
	bool wants = false;
	int cancel = cancel_off();
	char path[32];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && !wants && (e = readdir(tasks))) {
		char state = e->d_name[0] == '.' ? 0 : thread_state(dirfd(tasks), e->d_name);

		wants = state == 'R' || state == 'D';
	}
	if (tasks)
		closedir(tasks);
	cancel_on(cancel);
	return wants;
}

uint64_t host_cpu_time(pid_t pid)
{
	struct timespec ran;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ran) != 0)
		return 0;
	return (uint64_t)ran.tv_sec * VRB_SECOND + (uint64_t)ran.tv_nsec;
}
