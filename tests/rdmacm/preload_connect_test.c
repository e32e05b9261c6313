/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload_connect_test LIBRSPRELOAD
 *
 * With librspreload.so preloaded: connections that begin without waiting, or that a limit of time
 * ends, to servers of TCP and of rsockets, and to none; connections that end with unread data.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "preload.h"

/* ---- Servers ---- */

static int listen_by_tcp(struct sockaddr_in *a)
{
	int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK_EQ(syscall(SYS_bind, fd, a, len), 0);
	CHECK_EQ(syscall(SYS_listen, fd, 8), 0);
	CHECK_EQ(syscall(SYS_getsockname, fd, a, &len), 0);
	return fd;
}

/* Where nobody listens. */
static struct sockaddr_in nowhere(void)
{
	struct sockaddr_in a;

	CHECK_EQ(close(listen_at(&a)), 0);
	return a;
}

static bool is_tcp(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	return !syscall(SYS_getpeername, fd, &a, &len);
}

static int error_of(int fd)
{
	socklen_t len = sizeof(int);
	int error;

	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	return error;
}

/* ---- How programs wait; ep: an epoll that may have the descriptor ---- */

static void add(int ep, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u64 = 77 };

	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
}

static int wait_epoll(int ep, int fd)
{
	struct epoll_event e = { 0 };

	CHECK_EQ(epoll_wait(ep, &e, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(e.data.u64, 77);
	CHECK(e.events & EPOLLOUT);
	return error_of(fd);
}

static int wait_added_epoll(int ep, int fd)
{
	add(ep, fd, EPOLLOUT);
	return wait_epoll(ep, fd);
}

static int wait_poll(int ep, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK(p.revents & POLLOUT);
	return error_of(fd);
}

static int wait_select(int ep, int fd)
{
	struct timeval t = limit();
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	CHECK_EQ(select(fd + 1, NULL, &set, NULL, &t), 1);
	return error_of(fd);
}

/* Without a call that waits. */
static int wait_connect(int ep, int fd, const struct sockaddr_in *a)
{
	while (connect(fd, (const struct sockaddr *)a, sizeof(*a))) {
		if (errno == EISCONN)
			return 0;
		if (errno != EALREADY && errno != EINPROGRESS)
			return errno;
		sched_yield();
	}
	return 0;
}

static int wait_read(int ep, int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno != EAGAIN)
		if (errno != ENOTCONN)
			return errno;
	return wait_poll(ep, fd);
}

/* ---- Ends ---- */

static const struct way {
	int (*wait)(int ep, int fd);
	uint32_t before; /* events with which an epoll has it before connect() */
} ways[] = {
	{ wait_added_epoll },
	{ wait_epoll, EPOLLOUT },
	{ wait_epoll, EPOLLOUT | EPOLLET },
	{ wait_epoll, EPOLLOUT | EPOLLONESHOT },
	{ wait_poll },
	{ wait_select },
	{ wait_read },
	{ NULL },
};

static int begin(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0);
	return fd;
}

static void begin_to(int fd, const struct sockaddr_in *a)
{
	CHECK(!connect(fd, (const struct sockaddr *)a, sizeof(*a)) || errno == EINPROGRESS);
}

static int end(const struct way *w, int ep, int fd, const struct sockaddr_in *a)
{
	return w->wait ? w->wait(ep, fd) : wait_connect(ep, fd, a);
}

static int connect_by(const struct way *w, int ep, int fd, const struct sockaddr_in *a)
{
	if (w->before)
		add(ep, fd, w->before);
	begin_to(fd, a);
	return end(w, ep, fd, a);
}

/* The epoll has the connection's descriptor, with the event that the program has set last. */
static void expect_in(int ep, int fd, int to)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = 78 };
	char c;

	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e), 0);
	CHECK_EQ(write(to, "i", 1), 1);
	CHECK_EQ(epoll_wait(ep, &e, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(e.data.u64, 78);
	CHECK_EQ(e.events, EPOLLIN);
	CHECK_EQ(read(fd, &c, 1), 1);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL), 0);
}

static void connects(const struct way *w, int listener, const struct sockaddr_in *a, bool by_tcp)
{
	int fd = begin(), ep = epoll_create1(0), to;
	char c;

	CHECK_EQ(connect_by(w, ep, fd, a), 0);
	CHECK_EQ(is_tcp(fd), by_tcp);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	if (w->before || w->wait == wait_added_epoll)
		expect_in(ep, fd, to);
	CHECK_EQ(write(fd, "x", 1), 1);
	CHECK_EQ(read(to, &c, 1), 1);
	CHECK_EQ(close(ep), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(to), 0);
}

static void is_refused(const struct way *w, const struct sockaddr_in *a)
{
	int fd = begin(), ep = epoll_create1(0);

	CHECK_EQ(connect_by(w, ep, fd, a), ECONNREFUSED);
	CHECK_EQ(close(ep), 0);
	CHECK_EQ(close(fd), 0);
}

/* All numbers of the socket are the connection's. */
static void connects_a_duplicate(int listener, const struct sockaddr_in *a)
{
	struct pollfd p = { .fd = begin(), .events = POLLOUT };
	int first = p.fd, to;
	char c;

	begin_to(first, a);
	p.fd = dup(first);
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK(is_tcp(first) && is_tcp(p.fd));
	to = accept(listener, NULL, NULL);
	CHECK_EQ(close(p.fd), 0);
	CHECK_EQ(write(first, "x", 1), 1);
	CHECK_EQ(read(to, &c, 1), 1);
	CHECK_EQ(close(first), 0);
	CHECK_EQ(close(to), 0);
}

/* The limit ends the wait, but not the attempt; another call waits for that. */
static void goes_on_after_a_limit(int listener, const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), to;
	struct timeval t = { .tv_usec = 1 };

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)), 0);
	begin_to(fd, a);
	CHECK_EQ(wait_poll(-1, fd), 0);
	CHECK(is_tcp(fd));
	CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(to), 0);
}

/* One that had a connection has no other way. */
static void a_connection_that_ends(int listener, const struct sockaddr_in *a)
{
	struct linger reset = { .l_onoff = 1 };
	struct pollfd p = { .fd = begin(), .events = POLLIN };
	int to;

	begin_to(p.fd, a);
	to = accept(listener, NULL, NULL);
	CHECK_EQ(setsockopt(to, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(error_of(p.fd), ECONNRESET);
	CHECK_EQ(close(p.fd), 0);
}

/* The peer gets all that was sent, and then learns that its own data was not read. */
static void ends_unread(int listener, const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), to;
	struct pollfd p = { .events = POLLIN };
	char got[4] = "";

	CHECK_EQ(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
	to = p.fd = accept(listener, NULL, NULL);
	CHECK_EQ(write(fd, "unread", 6), 6);
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(write(to, "bye", 3), 3);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(recv(fd, got, 3, MSG_WAITALL), 3);
	CHECK_MEM(got, "bye", 3);
	CHECK_EQ(read(fd, got, 1), -1);
	CHECK_EQ(errno, ECONNRESET);
	CHECK_EQ(close(fd), 0);
}

static void preloaded(void)
{
	struct sockaddr_in tcp, rdma, none = nowhere();
	int by_tcp = listen_by_tcp(&tcp), by_rdma = listen_at(&rdma);

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		connects(&ways[i], by_tcp, &tcp, true);
		connects(&ways[i], by_rdma, &rdma, false);
		is_refused(&ways[i], &none);
	}
	connects_a_duplicate(by_tcp, &tcp);
	goes_on_after_a_limit(by_tcp, &tcp);
	a_connection_that_ends(by_rdma, &rdma);
	ends_unread(by_rdma, &rdma);
	CHECK_EQ(close(by_tcp), 0);
	CHECK_EQ(close(by_rdma), 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return exec_preloaded(argv, false);
	preloaded();
	return 0;
}
