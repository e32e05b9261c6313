/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program would get from bare UDP sockets on this machine: the reference of `make bench`.
 *
 *	udp_ref pingpong SIZE COUNT	one datagram back and forth, both sides spinning; us one way
 *	udp_ref stream SIZE COUNT	one send and one recv per datagram of SIZE; MiB/s
 *	udp_ref gso SIZE COUNT		datagrams of SIZE in batches, UDP_SEGMENT out and UDP_GRO
 *					in; MiB/s
 *
 * Two processes, on different CPUs if there are two: on 127.0.0.1, or in two network namespaces,
 *
 *	udp_ref MODE SIZE COUNT NETNS ADDRESS NETNS ADDRESS
 *
 * each named by a file (/proc/PID/ns/net) and its address there; the first one sends first.
 * Acknowledgements every WINDOW/2 datagrams keep the streams within a window, so that nothing is
 * lost and what counts is the bytes received.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pin.h"
#include "udp.h"

enum {
	WINDOW = 128, /* datagrams in flight */
	LIMIT_S = 60,
};

static void enter(const char *netns)
{
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(netns);
	close(fd);
}

/* It stays in its namespace when the process goes on to another. */
static int socket_in(const char *netns, const char *address, struct sockaddr_in *addr)
{
	if (netns)
		enter(netns);
	return bound_socket(address, addr);
}

static ssize_t spin_recv(int fd, void *buf, size_t size)
{
	ssize_t n;

	do {
		n = recv(fd, buf, size, MSG_DONTWAIT);
	} while (n < 0 && (errno == EAGAIN || errno == ECONNREFUSED));
	if (n < 0)
		fail("recv");
	return n;
}

static void send_all(int fd, const void *buf, size_t len)
{
	while (send(fd, buf, len, 0) < 0)
		if (errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED)
			fail("send");
}

static void echo(int fd, char *buf, size_t size, long count)
{
	while (count-- > 0) {
		spin_recv(fd, buf, size);
		send_all(fd, buf, size);
	}
}

static double pingpong(int fd, char *buf, size_t size, long count)
{
	double start = now_s();

	for (long i = 0; i < count; i++) {
		send_all(fd, buf, size);
		spin_recv(fd, buf, size);
	}
	return (now_s() - start) / count / 2 * 1e6;
}

/* Receives `count` datagrams, however many come at a time, and acknowledges each half window. */
static void sink(int fd, char *buf, size_t size, long count)
{
	long since_ack = 0;

	while (count > 0) {
		ssize_t n = spin_recv(fd, buf, UDP_CALL_MAX);
		long segments = (n + (ssize_t)size - 1) / (ssize_t)size;

		count -= segments;
		since_ack += segments;
		while (since_ack >= WINDOW / 2) {
			send_all(fd, buf, 1);
			since_ack -= WINDOW / 2;
		}
	}
}

/* Sends `count` datagrams, `batch` in one call. */
static double source(int fd, char *buf, size_t size, long count, long batch)
{
	double start = now_s();
	long in_flight = 0;
	char ack;

	for (long left = count; left > 0;) {
		long n = left < batch ? left : batch;

		while (in_flight + n > WINDOW) {
			spin_recv(fd, &ack, 1);
			in_flight -= WINDOW / 2;
		}
		send_all(fd, buf, size * (size_t)n);
		in_flight += n;
		left -= n;
	}
	for (; in_flight >= WINDOW / 2; in_flight -= WINDOW / 2)
		spin_recv(fd, &ack, 1);
	return (double)size * count / (now_s() - start) / (1 << 20);
}

int main(int argc, char **argv)
{
	struct sockaddr_in here, there;
	static char buf[UDP_CALL_MAX + 1];
	int a, b, segment = 0, status;
	long batch = 1, count;
	const char *at[] = { NULL, "127.0.0.1", NULL, "127.0.0.1" };
	const char *mode;
	size_t size;
	pid_t child;

	if (argc != 4 && argc != 8)
		return 2;
	mode = argv[1];
	size = strtoul(argv[2], NULL, 0);
	count = strtol(argv[3], NULL, 0);
	if (size == 0 || size > UDP_CALL_MAX || count <= 0)
		return 2;
	alarm(LIMIT_S);

	for (int i = 4; i < argc; i++)
		at[i - 4] = argv[i];
	a = socket_in(at[0], at[1], &here);
	b = socket_in(at[2], at[3], &there);
	if (strcmp(mode, "gso") == 0) {
		segment = (int)size;
		batch = UDP_CALL_MAX / (long)size;
		if (batch > UDP_SEGMENTS_MAX)
			batch = UDP_SEGMENTS_MAX;
		if (batch > WINDOW / 2)
			batch = WINDOW / 2;
	}
	join_sockets(a, &here, b, &there, segment);

	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		if (strcmp(mode, "pingpong") == 0)
			echo(b, buf, size, count);
		else
			sink(b, buf, size, count);
		_exit(0);
	}
	pin(0);
	printf("%.3f\n", strcmp(mode, "pingpong") == 0 ? pingpong(a, buf, size, count)
						       : source(a, buf, size, count, batch));
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
