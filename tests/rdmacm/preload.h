/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of librspreload.so share. */
#ifndef VRB_TEST_PRELOAD_H
#define VRB_TEST_PRELOAD_H

#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { LIMIT_S = 20 };

static inline struct timeval limit(void)
{
	return (struct timeval){ .tv_sec = LIMIT_S };
}

static inline int listen_at(struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK_EQ(bind(fd, (struct sockaddr *)a, len), 0);
	CHECK_EQ(listen(fd, 1), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

struct cancelled {
	int (*call)(int number);
	int number, result;
};

static inline void *call_cancelled(void *arg)
{
	struct cancelled *c = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	c->result = c->call(c->number);
	pthread_testcancel();
	return NULL;
}

/* The result of the call, by a thread that is cancelled; -1 also if it ended before. */
static inline int cancelled(int (*call)(int number), int number)
{
	struct cancelled c = { .call = call, .number = number, .result = -1 };
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, call_cancelled, &c), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return c.result;
}

/* Executes itself with the library preloaded; the run directory and port are reserved already. */
static inline int exec_preloaded(char **argv, bool fork_safe)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		setenv("LD_PRELOAD", argv[1], 1);
		if (fork_safe)
			setenv("RDMAV_FORK_SAFE", "1", 1);
		execl("/proc/self/exe", argv[0], NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status != 0;
}

#endif
