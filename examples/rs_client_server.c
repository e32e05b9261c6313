/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: a program for sockets becomes one for RDMA by an "r" in front of each call.
 *
 *	server:	rs_client_server
 *	client:	rs_client_server ADDRESS
 *
 * The client sends a line and reads the answer; the server waits in rpoll() for both, a connection
 * and its line.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rsocket.h>

#define PORT "7475"

enum { SIZE = 64 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct addrinfo *look_up(const char *address)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET }, *found;
	int err;

	hints.ai_flags = address ? 0 : AI_PASSIVE;
	err = getaddrinfo(address, PORT, &hints, &found);
	if (err) {
		fprintf(stderr, "getaddrinfo: %s\n", gai_strerror(err));
		exit(1);
	}
	return found;
}

static int make(const struct addrinfo *as)
{
	int fd = rsocket(as->ai_family, SOCK_STREAM, 0);

	if (fd < 0)
		fail("rsocket");
	return fd;
}

static void wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (rpoll(&p, 1, -1) != 1)
		fail("rpoll");
}

/* What the other side sends next, as text. */
static void receive(int fd, char line[SIZE])
{
	ssize_t n = rrecv(fd, line, SIZE - 1, 0);

	if (n < 0)
		fail("rrecv");
	line[n] = 0;
}

static void say(int fd, const char *line)
{
	if (rsend(fd, line, strlen(line), 0) != (ssize_t)strlen(line))
		fail("rsend");
}

static void run_server(const struct addrinfo *at)
{
	char line[SIZE];
	int listener = make(at), fd;

	if (rbind(listener, at->ai_addr, at->ai_addrlen) || rlisten(listener, 1))
		fail("rlisten");
	wait_for(listener);
	fd = raccept(listener, NULL, NULL);
	if (fd < 0)
		fail("raccept");
	wait_for(fd);
	receive(fd, line);
	printf("received: '%s'\n", line);
	say(fd, "and hello to you");
	/* Until the other side closes. */
	receive(fd, line);
	rclose(fd);
	rclose(listener);
}

/*
 * The server may not be there yet: tries for a minute.  An rsocket that was refused is of no more
 * use.
 */
static int connect_to(const struct addrinfo *to)
{
	for (int tries = 0;; tries++) {
		int fd = make(to);

		if (!rconnect(fd, to->ai_addr, to->ai_addrlen))
			return fd;
		if (errno != ECONNREFUSED || tries == 1000)
			fail("rconnect");
		rclose(fd);
	}
}

static void run_client(const struct addrinfo *to)
{
	char line[SIZE];
	int fd = connect_to(to);

	say(fd, "hello through rsockets");
	receive(fd, line);
	printf("answered: '%s'\n", line);
	rclose(fd);
}

int main(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : NULL;
	struct addrinfo *found = look_up(address);

	if (address)
		run_client(found);
	else
		run_server(found);
	freeaddrinfo(found);
	return 0;
}
