/* SPDX-License-Identifier: BSD-2-Clause */
/* What the references by UDP share. Each call ends the program if it fails. */
#ifndef BENCH_UDP_H
#define BENCH_UDP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	UDP_CALL_MAX = 65000,	/* bytes of one GSO send */
	UDP_SEGMENTS_MAX = 60,	/* of one GSO send */
	UDP_SOCKET_BUFFER = 4 << 20,
};

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

static inline double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A socket at a free port of the address, which *addr receives. */
static inline int bound_socket(const char *address, struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = UDP_SOCKET_BUFFER;
	socklen_t len = sizeof(*addr);

	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	if (inet_pton(AF_INET, address, &addr->sin_addr) != 1)
		fail(address);
	if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		fail("bind");
	return fd;
}

/* Connects two sockets. segment: bytes of a datagram, by GSO and GRO; 0: without these. */
static inline void join_sockets(int from, const struct sockaddr_in *here, int to,
				const struct sockaddr_in *there, int segment)
{
	int on = 1;

	if (connect(from, (const struct sockaddr *)there, sizeof(*there)) ||
	    connect(to, (const struct sockaddr *)here, sizeof(*here)))
		fail("connect");
	if (segment && (setsockopt(from, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) ||
			setsockopt(to, IPPROTO_UDP, UDP_GRO, &on, sizeof(on))))
		fail("UDP_SEGMENT, UDP_GRO");
}

#endif
