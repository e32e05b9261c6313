/* SPDX-License-Identifier: BSD-2-Clause */
/* See perf_limits.h. */
#include "perf_limits.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK = 1 << 20,
	SEGMENT = 4096,			/* length of a packet on the loopback device */
	TRAIN = 15 * SEGMENT,		/* segments of one call, within 64 KiB */
	SAMPLES = 1 << 16,
};

double perf_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double perf_median(double *samples, unsigned int n)
{
	qsort(samples, n, sizeof(*samples), ascending);
	return n ? samples[n / 2] : 0;
}

void perf_pin(int which)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && seen++ == which)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static double measure_memcpy(double seconds)
{
	char *a = calloc(1, BLOCK), *b = calloc(1, BLOCK);
	double start = perf_now(), end = start + seconds;
	long n = 0;

	for (; a && b && perf_now() < end; n++) {
		memcpy(a, b, BLOCK);
		__asm__ volatile("" : : "r"(a) : "memory");
	}
	free(a);
	free(b);
	return (double)n / (perf_now() - start);
}

static bool udp_pair(int fd[2])
{
	struct sockaddr_in sa[2];
	socklen_t len = sizeof(sa[0]);

	for (int i = 0; i < 2; i++) {
		sa[i] = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd[i] < 0 || bind(fd[i], (struct sockaddr *)&sa[i], len) < 0 ||
		    getsockname(fd[i], (struct sockaddr *)&sa[i], &len) < 0)
			return false;
	}
	return connect(fd[0], (struct sockaddr *)&sa[1], len) == 0 &&
	       connect(fd[1], (struct sockaddr *)&sa[0], len) == 0;
}

/* Echoes packets until killed. */
static void echo(int fd)
{
	char buf[64];

	for (;;)
		if (recv(fd, buf, 8, MSG_DONTWAIT) == 8)
			send(fd, buf, 8, 0);
}

/* Sends as fast as possible until killed. */
static void flood(int fd)
{
	static char train[TRAIN];
	int segment = SEGMENT;

	setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	for (;;)
		send(fd, train, sizeof(train), 0);
}

/* Starts a process at the other end of a socket pair. */
static pid_t opposite(int fd, void (*body)(int))
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		perf_pin(1);
		body(fd);
	}
	return pid;
}

static double ping_pong(int fd, double seconds)
{
	static double samples[SAMPLES];
	double end = perf_now() + seconds, before, now = perf_now();
	char buf[8] = { 0 };
	unsigned int n = 0;

	while (now < end && n < SAMPLES) {
		before = now;
		if (send(fd, buf, 8, 0) != 8)
			break;
		while (recv(fd, buf, 8, MSG_DONTWAIT) != 8 && now < end)
			now = perf_now();
		now = perf_now();
		samples[n++] = now - before;
	}
	return perf_median(samples, n) / 2 * 1e6;
}

static double stream(int fd, double seconds)
{
	static char buf[1 << 16];
	double start = perf_now(), end = start + seconds, bytes = 0;
	struct timeval timeout = { .tv_usec = 100000 };
	int on = 1;

	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	while (perf_now() < end) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n > 0)
			bytes += (double)n;
	}
	return bytes / (perf_now() - start) / (1 << 20);
}

static double with(void (*theirs)(int), double (*ours)(int, double), double seconds)
{
	double result;
	int fd[2];
	pid_t pid;

	cpu_set_t all;

	if (!udp_pair(fd) || (pid = opposite(fd[1], theirs)) < 0)
		return 0;
	sched_getaffinity(0, sizeof(all), &all);
	perf_pin(0);
	result = ours(fd[0], seconds);
	sched_setaffinity(0, sizeof(all), &all);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd[0]);
	close(fd[1]);
	return result;
}

void perf_measure_limits(struct perf_limits *l, double seconds)
{
	l->memcpy_mib_s = measure_memcpy(seconds);
	l->udp_us = with(echo, ping_pong, seconds);
	l->udp_mib_s = with(flood, stream, seconds);
}
