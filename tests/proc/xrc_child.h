/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that a test forks, each with a socket to the first. */
#ifndef TESTS_PROC_XRC_CHILD_H
#define TESTS_PROC_XRC_CHILD_H

#include <stddef.h>
#include <sys/types.h>

/* A process that runs fn(socket) and exits 0. It dies with its parent. */
struct child {
	pid_t pid;
	int sock;
};
struct child child_fork(void (*fn)(int sock));
void child_join(struct child *c);		/* it must have ended well */
void child_kill(struct child *c);

void child_tell(int sock, const void *data, size_t len);
void child_hear(int sock, void *data, size_t len);

#endif
