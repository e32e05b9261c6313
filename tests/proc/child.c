/* SPDX-License-Identifier: BSD-2-Clause */
/* See child.h. */
#include "child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "fork_settled.h"

struct child child_fork(void (*fn)(int sock))
{
	struct child c;
	int sock[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) == 0);
	fflush(NULL);
	c.pid = fork_settled();
	CHECK(c.pid >= 0);
	if (c.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sock[0]);
		fn(sock[1]);
		exit(0);
	}
	close(sock[1]);
	c.sock = sock[0];
	return c;
}

void child_join(struct child *c)
{
	int status;

	CHECK(waitpid(c->pid, &status, 0) == c->pid);
	CHECK_EQ(status, 0);
	close(c->sock);
}

void child_kill(struct child *c)
{
	CHECK(kill(c->pid, SIGKILL) == 0);
	CHECK(waitpid(c->pid, NULL, 0) == c->pid);
	close(c->sock);
}

void child_stop(pid_t pid)
{
	int status;

	CHECK(kill(pid, SIGSTOP) == 0);
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

uint64_t ms_now(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void child_send(int sock, const void *data, size_t len)
{
	CHECK(write(sock, data, len) == (ssize_t)len);
}

void child_recv(int sock, void *data, size_t len)
{
	CHECK(recv(sock, data, len, MSG_WAITALL) == (ssize_t)len);
}
