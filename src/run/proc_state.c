/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/proc_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/cancel.h"

enum { STAT_START = 64 };	/* beyond the number, the name and the state */

/* Of a process, or of the thread with this number; 0: unknown. */
static char state_of(pid_t pid)
{
	char text[STAT_START], *name_end;
	int cancel = cancel_off(), fd;
	ssize_t n = 0;

	snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	cancel_on(cancel);
	text[n > 0 ? n : 0] = '\0';
	name_end = strrchr(text, ')');	/* a name can have any characters */
	return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

bool proc_is_stopped(pid_t pid)
{
	char state = state_of(pid);

	return state == 'T' || state == 't';
}

bool proc_is_gone(pid_t pid)
{
	char state = state_of(pid);

	return !state || state == 'Z' || state == 'X';
}

bool proc_is_runnable(pid_t tid)
{
	return state_of(tid) == 'R';
}
