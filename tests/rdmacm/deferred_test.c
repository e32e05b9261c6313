/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deferred_test LIBRSPRELOAD
 *
 * librspreload.so with RDMAV_FORK_SAFE=1: clients that the server cannot wait for, and what a
 * socket keeps when it becomes an rsocket.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "check.h"
#include "preload.h"

enum { GONE = 30 }; /* five seconds each would exceed the test's limit */

/*
 * Clients that are no rsockets and close: with each, the server expects one whose request must have
 * come already, and goes on.
 */
static void clients_that_vanish(void)
{
	struct sockaddr_in a;
	int listener = listen_at(&a);

	for (int i = 0; i < GONE; i++) {
		int from = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), to;
		char c;

		CHECK(from >= 0);
		CHECK_EQ(syscall(SYS_connect, from, &a, sizeof(a)), 0);
		to = accept(listener, NULL, NULL);
		CHECK(to >= 0);
		CHECK_EQ(syscall(SYS_close, from), 0);
		CHECK(read(to, &c, 1) <= 0);
		CHECK_EQ(close(to), 0);
	}
	CHECK_EQ(close(listener), 0);
}

static int read_one(int number)
{
	char c;

	return (int)read(number, &c, 1);
}

/* A thread that is cancelled while it waits for a client keeps no other from reading. */
static void a_cancelled_reader_keeps_no_turn(void)
{
	int listener, from = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), to;
	struct sockaddr_in a;

	listener = listen_at(&a);
	CHECK_EQ(syscall(SYS_connect, from, &a, sizeof(a)), 0);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	CHECK_EQ(cancelled(read_one, to), -1);
	CHECK_EQ(syscall(SYS_close, from), 0);
	CHECK(read_one(to) <= 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
}

/* A listener that waits for data, as Apache's does, gets connections nevertheless. */
static void defers_no_accept(void)
{
	int from = socket(AF_INET, SOCK_STREAM, 0), listener, seconds = 3 * LIMIT_S;
	struct sockaddr_in a;
	struct pollfd p;

	listener = listen_at(&a);
	CHECK_EQ(setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(int)), 0);
	CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
	p = (struct pollfd){ .fd = listener, .events = POLLIN };
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(listener), 0);
}

static void check_timeout(int fd)
{
	struct timeval got = { 0 };
	socklen_t len = sizeof(got);

	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
	CHECK_EQ(got.tv_sec, LIMIT_S);
}

/* What the program has set for TCP counts for the rsocket. */
static void keeps_options(void)
{
	struct timeval t = limit();
	struct sockaddr_in a;
	int listener = listen_at(&a), fd;
	pid_t pid;
	char c;

	CHECK_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	pid = fork();
	if (!pid) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
		CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
		CHECK_EQ(write(fd, "o", 1), 1);
		check_timeout(fd);
		exit(0);
	}
	fd = accept(listener, NULL, NULL);
	CHECK_EQ(read(fd, &c, 1), 1);
	check_timeout(fd);
	CHECK_EQ(waitpid(pid, &fd, 0), pid);
	CHECK_EQ(fd, 0);
	CHECK_EQ(close(listener), 0);
}

/* The program learns why a connection failed also if librspreload.so has looked before. */
static void keeps_the_error(void)
{
	int listener, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLOUT };
	socklen_t len = sizeof(int);
	struct sockaddr_in a;
	int error = 0;

	listener = listen_at(&a);
	CHECK_EQ(close(listener), 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	CHECK_EQ(errno, EINPROGRESS);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
	CHECK_EQ(epoll_wait(ep, &e, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	CHECK_EQ(error, ECONNREFUSED);
	CHECK_EQ(close(ep), 0);
	CHECK_EQ(close(fd), 0);
}

static int connect_to(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
	return fd;
}

/* Past librspreload's poll(). Newer processors' Linux has ppoll only. */
static int kernel_poll(struct pollfd *p, int timeout)
{
#ifdef SYS_poll
	return (int)syscall(SYS_poll, p, 1, timeout);
#else
	struct timespec now = { 0 };

	return (int)syscall(SYS_ppoll, p, 1, timeout < 0 ? NULL : &now, NULL, _NSIG / 8);
#endif
}

/* ---- Sockets that another process serves ---- */

/* As by libuv, which removes what it closes: the client, which waits for nobody, is not greeted. */
static void is_removed_from_an_epoll(void)
{
	struct sockaddr_in a;
	int listener = listen_at(&a), from = connect_to(&a), to = accept(listener, NULL, NULL);
	struct pollfd p = { .fd = from, .events = POLLIN };
	int epoll = epoll_create1(0);

	alarm(LIMIT_S);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_DEL, to, NULL), -1);
	CHECK_EQ(errno, ENOENT);
	CHECK_EQ(kernel_poll(&p, 0), 0);
	alarm(0);
	CHECK_EQ(close(epoll), 0);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
}

static bool is_tcp(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return !syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
	       protocol == IPPROTO_TCP;
}

/* A client whose server reads first has an rsocket, else a TCP socket. */
static void call_server(const struct sockaddr_in *a, bool reads_first)
{
	int fd = connect_to(a);
	char text[4] = "";

	alarm(LIMIT_S);
	if (reads_first)
		CHECK_EQ(write(fd, "ab\n", 3), 3);
	for (size_t n = 0; n < 3; n++)
		CHECK_EQ(read(fd, text + n, 1), 1);
	CHECK_MEM(text, reads_first ? "ab\n" : "hi\n", 3);
	CHECK_EQ(is_tcp(fd), !reads_first);
	exit(0);
}

static void send_number(int to, int number)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { .h = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
		       .cmsg_type = SCM_RIGHTS } };
	char x = 0;
	struct iovec iov = { &x, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c,
			      .msg_controllen = sizeof(c) };

	memcpy(CMSG_DATA(&c.h), &number, sizeof(number));
	CHECK_EQ(sendmsg(to, &msg, 0), 1);
}

static bool several; /* messages can be received by one call */

static int receive_number(int from)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c;
	char x;
	struct iovec iov = { &x, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c,
			      .msg_controllen = sizeof(c) };
	struct mmsghdr one = { .msg_hdr = msg };
	int number;

	if (several) {
		CHECK_EQ(recvmmsg(from, &one, 1, 0, NULL), 1);
		CHECK_EQ(one.msg_len, 1);
	} else {
		CHECK_EQ(recvmsg(from, &msg, 0), 1);
	}
	memcpy(&number, CMSG_DATA(&c.h), sizeof(number));
	return number;
}

/* A program that knows nothing of sockets. */
static void serve_by_exec(int fd, bool reads_first)
{
	if (fork())
		return;
	alarm(LIMIT_S);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(dup2(fd, i), i);
	execl("/bin/sh", "sh", "-c", reads_first ? "read x; echo $x" : "echo hi; read x", NULL);
	_exit(127);
}

/* By a process that got it in a message. */
static void serve_by_message(int fd, bool reads_first)
{
	char text[4] = "";
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	if (!fork()) {
		alarm(LIMIT_S);
		CHECK_EQ(close(fd), 0);
		fd = receive_number(pair[1]);
		for (size_t n = 0; reads_first && n < 3; n++)
			CHECK_EQ(read(fd, text + n, 1), 1);
		CHECK_EQ(write(fd, reads_first ? text : "hi\n", 3), 3);
		CHECK(read(fd, text, 1) <= 0);
		exit(0);
	}
	send_number(pair[0], fd);
	CHECK_EQ(close(pair[0]), 0);
	CHECK_EQ(close(pair[1]), 0);
}

static void another_serves(void (*serve)(int fd, bool reads_first), bool reads_first)
{
	struct sockaddr_in a;
	int listener = listen_at(&a), to, status;
	pid_t client = fork();

	if (!client)
		call_server(&a, reads_first);
	to = accept(listener, NULL, NULL);
	serve(to, reads_first);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
	CHECK_EQ(waitpid(client, &status, 0), client);
	CHECK_EQ(status, 0);
	CHECK(wait(&status) > 0);
}

/* Its second connection is greeted, and only then may the server greet the first. */
static void write_to_both(const struct sockaddr_in *a, int go)
{
	int first = connect_to(a), second = connect_to(a);
	struct pollfd p = { .fd = second, .events = POLLIN };

	alarm(LIMIT_S);
	CHECK_EQ(kernel_poll(&p, -1), 1);
	CHECK_EQ(syscall(SYS_write, go, "g", 1), 1);
	CHECK_EQ(write(first, "1", 1), 1);
	CHECK_EQ(write(second, "2", 1), 1);
	exit(0);
}

static void expect_one(int fd, char wanted)
{
	char c = 0;

	alarm(LIMIT_S);
	CHECK_EQ(read(fd, &c, 1), 1);
	CHECK_EQ(c, wanted);
	exit(0);
}

/* A client waits for one of its connections while the server's other process has another's turn. */
static void answers_for_all_connections(void)
{
	struct sockaddr_in a;
	int listener = listen_at(&a), go[2], first, second, status;
	char c;

	CHECK_EQ(pipe(go), 0);
	if (!fork())
		write_to_both(&a, go[1]);
	first = accept(listener, NULL, NULL);
	second = accept(listener, NULL, NULL);
	if (!fork())
		expect_one(second, '2');
	CHECK_EQ(read(go[0], &c, 1), 1);
	if (!fork())
		expect_one(first, '1');
	for (int i = 0; i < 3; i++) {
		CHECK(wait(&status) > 0);
		CHECK_EQ(status, 0);
	}
	CHECK_EQ(close(first), 0);
	CHECK_EQ(close(second), 0);
	CHECK_EQ(close(listener), 0);
	CHECK_EQ(close(go[0]), 0);
	CHECK_EQ(close(go[1]), 0);
}

/* ---- A server that is stopped ---- */

static bool stops; /* it sees that TCP has ended, and then nothing for as long as it waits */

/* librspreload.so calls this one. */
int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	int (*really)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "rpoll");
	int ready = 0;

	if (stops && n == 1) {
		stops = false;
	} else if (stops && n == 2) {
		fds[0].revents = 0;
		ready = kernel_poll(fds + 1, -1);
	} else {
		ready = really(fds, n, timeout);
	}
	return ready;
}

/* The connection that it does not see yet when it goes on is not lost. */
static void is_stopped_before_it_accepts(void)
{
	struct sockaddr_in a;
	int listener = listen_at(&a), to, status;
	pid_t client = fork();
	char c = 0;

	if (!client) {
		to = connect_to(&a);
		CHECK_EQ(write(to, "s", 1), 1);
		CHECK_EQ(read(to, &c, 1), 0);
		exit(0);
	}
	to = accept(listener, NULL, NULL);
	stops = true;
	CHECK_EQ(read(to, &c, 1), 1);
	CHECK_EQ(c, 's');
	CHECK(!stops);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
	CHECK_EQ(waitpid(client, &status, 0), client);
	CHECK_EQ(status, 0);
}

/* ---- A client of one thread, and a server that serves one client at a time ---- */

enum { CLIENTS = 6 };

static void serve_in_turn(int listener)
{
	alarm(LIMIT_S);
	for (int i = 0; i < CLIENTS; i++) {
		int fd = accept(listener, NULL, NULL);
		char c;

		CHECK(fd >= 0);
		CHECK_EQ(read(fd, &c, 1), 1);
		CHECK_EQ(write(fd, &c, 1), 1);
		CHECK_EQ(close(fd), 0);
	}
	exit(0);
}

/* Clients that do not wait, of which the server has accepted the first at most. */
static void connect_all(const struct sockaddr_in *a, int fds[CLIENTS])
{
	struct pollfd p = { .events = POLLOUT };

	for (int i = 0; i < CLIENTS; i++) {
		p.fd = fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(fds[i], (const struct sockaddr *)a, sizeof(*a)))
			CHECK_EQ(errno, EINPROGRESS);
		CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
		CHECK_EQ(p.revents, POLLOUT);
	}
}

/* The last one is refused, as the server is busy with the first. */
static void is_refused(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int count = 1;

	CHECK_EQ(write(fd, "x", 1), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(recv(fd, &count, 1, 0), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(ioctl(fd, FIONREAD, &count), 0);
	CHECK_EQ(count, 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
}

static void polls_one_after_another(int fds[CLIENTS])
{
	struct pollfd p[CLIENTS];
	int done = 0;
	char c;

	for (int i = 0; i < CLIENTS; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLOUT };
	while (done < CLIENTS) {
		CHECK(poll(p, CLIENTS, LIMIT_S * 1000) > 0);
		for (int i = 0; i < CLIENTS; i++) {
			if (p[i].revents & POLLIN) {
				CHECK_EQ(read(fds[i], &c, 1), 1);
				CHECK_EQ(c, 'a' + i);
				p[i].fd = -1;
				done++;
			} else if (p[i].revents & POLLOUT) {
				c = (char)('a' + i);
				if (write(fds[i], &c, 1) == 1)
					p[i].events = POLLIN;
			}
		}
	}
}

static void waits_for_one_after_another(int fds[CLIENTS], uint32_t flags)
{
	int ep = epoll_create1(0), done = 0, writes[CLIENTS] = { 0 };
	struct epoll_event e;
	char c;

	for (int i = 0; i < CLIENTS; i++) {
		e.events = EPOLLIN | EPOLLOUT | flags;
		e.data.u32 = (uint32_t)i;
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e), 0);
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e), -1);
		CHECK_EQ(errno, EEXIST);
	}
	while (done < CLIENTS) {
		int i;

		CHECK_EQ(epoll_wait(ep, &e, 1, LIMIT_S * 1000), 1);
		i = (int)e.data.u32;
		c = (char)('a' + i);
		if (!writes[i] && write(fds[i], &c, 1) == 1) {
			writes[i] = 1;
			e.events = EPOLLIN | flags;
			CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, fds[i], &e), 0);
		} else if (writes[i] && read(fds[i], &c, 1) == 1) {
			CHECK_EQ(c, 'a' + i);
			CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_DEL, fds[i], NULL), 0);
			done++;
		} else if (flags & EPOLLONESHOT) {
			e.events = EPOLLIN | EPOLLOUT | flags;
			CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, fds[i], &e), 0);
		}
	}
	CHECK_EQ(close(ep), 0);
}

static void serves_in_turn(uint32_t flags)
{
	int fds[CLIENTS], status, listener, i;
	struct sockaddr_in a;
	pid_t pid;

	listener = listen_at(&a);
	CHECK_EQ(listen(listener, CLIENTS), 0);
	pid = fork();
	if (!pid)
		serve_in_turn(listener);
	connect_all(&a, fds);
	is_refused(fds[CLIENTS - 1]);
	if (flags)
		waits_for_one_after_another(fds, flags & ~1U);
	else
		polls_one_after_another(fds);
	for (i = 0; i < CLIENTS; i++)
		CHECK_EQ(close(fds[i]), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(close(listener), 0);
}

/* ---- A server whose rsocket does not answer ---- */

/* Its system call is poll(2). */
static bool is_polling(pid_t tid)
{
	char name[64], text[64] = "";
	int fd, number = -1;

	snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", (int)tid);
	fd = open(name, O_RDONLY);
	CHECK(fd >= 0);
	CHECK(syscall(SYS_read, fd, text, sizeof(text) - 1) >= 0);
	CHECK_EQ(close(fd), 0);
	if (sscanf(text, "%d", &number) != 1)
		return false;
#ifdef SYS_poll
	if (number == SYS_poll)
		return true;
#endif
	return number == SYS_ppoll;
}

/* Listens with an rsocket, and is stopped before it can answer. */
static void stopped_server(const struct sockaddr_in *a)
{
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), fd;
	char c;

	alarm(LIMIT_S);
	CHECK_EQ(rbind(listener, (const struct sockaddr *)a, sizeof(*a)), 0);
	CHECK_EQ(rlisten(listener, 1), 0);
	raise(SIGSTOP);
	fd = raccept(listener, NULL, NULL);
	CHECK_EQ(rread(fd, &c, 1), 1);
	CHECK_EQ(rwrite(fd, &c, 1), 1);
	CHECK_EQ(rread(fd, &c, 1), 0);
	exit(0);
}

struct writer {
	int fd;
	pid_t tid; /* atomic */
};

static void *write_one(void *arg)
{
	struct writer *w = arg;

	__atomic_store_n(&w->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	CHECK_EQ(write(w->fd, "w", 1), 1);
	return NULL;
}

static void start_writer(struct writer *w, pthread_t *thread)
{
	pid_t tid;

	CHECK_EQ(pthread_create(thread, NULL, write_one, w), 0);
	while (!(tid = __atomic_load_n(&w->tid, __ATOMIC_ACQUIRE)) || !is_polling(tid))
		sched_yield();
}

/* While one thread makes it an rsocket, which may take long, others poll as long as they want. */
static void others_keep_their_limits(void)
{
	int tcp = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLIN };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	struct writer w = { .tid = 0 };
	struct pollfd p = { .events = POLLIN };
	int to, status;
	pthread_t thread;
	pid_t server;
	char c;

	CHECK_EQ(syscall(SYS_bind, tcp, &a, len), 0);
	CHECK_EQ(syscall(SYS_listen, tcp, 1), 0);
	CHECK_EQ(syscall(SYS_getsockname, tcp, &a, &len), 0);
	server = fork();
	if (!server)
		stopped_server(&a);
	CHECK_EQ(waitpid(server, &status, WUNTRACED), server);
	CHECK(WIFSTOPPED(status));
	p.fd = w.fd = connect_to(&a);
	to = (int)syscall(SYS_accept4, tcp, NULL, NULL, 0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, w.fd, &e), 0);
	start_writer(&w, &thread);
	alarm(LIMIT_S);
	CHECK_EQ(syscall(SYS_write, to, "\0\0\0", 4), 4);
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(poll(&p, 1, 10), 0);
	CHECK_EQ(epoll_wait(ep, &e, 1, 0), 0);
	CHECK_EQ(epoll_wait(ep, &e, 1, 10), 0);
	CHECK_EQ(kill(server, SIGCONT), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK_EQ(epoll_wait(ep, &e, 1, -1), 1);
	alarm(0);
	CHECK_EQ(read(w.fd, &c, 1), 1);
	CHECK_EQ(close(w.fd), 0);
	CHECK_EQ(waitpid(server, &status, 0), server);
	CHECK_EQ(status, 0);
	CHECK_EQ(close(ep), 0);
	syscall(SYS_close, to);
	syscall(SYS_close, tcp);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return exec_preloaded(argv, true);
	clients_that_vanish();
	a_cancelled_reader_keeps_no_turn();
	defers_no_accept();
	keeps_options();
	keeps_the_error();
	answers_for_all_connections();
	is_removed_from_an_epoll();
	another_serves(serve_by_exec, true);
	another_serves(serve_by_exec, false);
	another_serves(serve_by_message, true);
	another_serves(serve_by_message, false);
	several = true;
	another_serves(serve_by_message, true);
	is_stopped_before_it_accepts();
	serves_in_turn(0);
	serves_in_turn(1);
	serves_in_turn(EPOLLET);
	serves_in_turn(EPOLLONESHOT);
	others_keep_their_limits();
	return 0;
}
