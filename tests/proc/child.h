/* SPDX-License-Identifier: BSD-2-Clause */
/* Child processes of a test, each with a socket to its parent. */
#ifndef TESTS_PROC_CHILD_H
#define TESTS_PROC_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A process that runs fn(socket) and exits with 0. The kernel kills it when its parent ends. */
struct child {
	pid_t pid;
	int sock;
};
struct child child_fork(void (*fn)(int sock));
void child_join(struct child *c); /* it must exit with 0 */
void child_kill(struct child *c);

/* Stops a child, forked by whatever means, until SIGCONT. */
void child_stop(pid_t pid);

uint64_t ms_now(void); /* monotonic milliseconds */

void child_send(int sock, const void *data, size_t len);
void child_recv(int sock, void *data, size_t len);

#endif
