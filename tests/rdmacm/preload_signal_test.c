/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload_signal_test LIBRSPRELOAD
 *
 * Handlers of signals with librspreload.so preloaded: what the system says of them, and those that
 * leave a call by longjmp(), in its wait and in its middle, after which the socket works as before;
 * SIGPIPE.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "preload.h"

enum {
	JUMPS = 100,
	EVERY_US = 700,
	PIECE = 100000, /* bytes */
};

static sigjmp_buf back;
static volatile sig_atomic_t may_jump, jumps, signals;

static void jump(int sig)
{
	if (!may_jump)
		return;
	may_jump = 0;
	jumps++;
	siglongjmp(back, 1);
}

static void count(int sig, siginfo_t *info, void *context)
{
	CHECK_EQ(info->si_signo, sig);
	CHECK(context);
	signals++;
}

static void tick(long us)
{
	const struct itimerval t = { { 0, us }, { 0, us } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* ---- Waits ---- */

static void wait_by_poll(int fd)
{
	struct pollfd many[200];

	for (int i = 0; i < 200; i++)
		many[i] = (struct pollfd){ .fd = i ? -1 : fd, .events = POLLIN };
	poll(many, 200, -1);
}

static void wait_by_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	select(fd + 1, &set, NULL, NULL, NULL);
}

static void wait_by_read(int fd)
{
	char c;

	read(fd, &c, 1);
}

static int epoll;

static void wait_by_epoll(int fd)
{
	struct epoll_event e;

	epoll_wait(epoll, &e, 1, -1);
}

static void wait_by_accept(int fd)
{
	accept(fd, NULL, NULL);
}

static void leaves(void (*wait)(int fd), int fd)
{
	jumps = 0;
	tick(EVERY_US);
	while (jumps < JUMPS) {
		if (sigsetjmp(back, 1))
			continue;
		may_jump = 1;
		wait(fd);
	}
	tick(0);
}

static void exchange(int from, int to)
{
	char c = 0;

	CHECK_EQ(write(from, "x", 1), 1);
	CHECK_EQ(read(to, &c, 1), 1);
	CHECK_EQ(c, 'x');
}

static void leaves_waits(int listener, int from, int to)
{
	struct epoll_event e = { .events = EPOLLIN };

	epoll = epoll_create1(0);
	CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, to, &e), 0);
	signal(SIGALRM, jump);
	leaves(wait_by_poll, to);
	leaves(wait_by_select, to);
	leaves(wait_by_read, to);
	leaves(wait_by_epoll, to);
	leaves(wait_by_accept, listener);
	exchange(from, to);
	exchange(to, from);
	CHECK_EQ(close(epoll), 0);
}

/* ---- In the middle ---- */

static void *drain(void *arg)
{
	static char piece[PIECE];

	while (read(*(int *)arg, piece, PIECE) > 0)
		;
	return NULL;
}

static void leaves_transfers(int from, int to)
{
	static char piece[PIECE];
	sigset_t alarms;
	pthread_t reader;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &alarms, NULL), 0);
	CHECK_EQ(pthread_create(&reader, NULL, drain, &to), 0);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL), 0);
	jumps = 0;
	tick(EVERY_US);
	while (jumps < JUMPS) {
		if (sigsetjmp(back, 1))
			continue;
		may_jump = 1;
		for (;;)
			CHECK(write(from, piece, PIECE) > 0);
	}
	tick(0);
	CHECK_EQ(shutdown(from, SHUT_WR), 0);
	CHECK_EQ(pthread_join(reader, NULL), 0);
	CHECK_EQ(write(to, "y", 1), 1);
	CHECK_EQ(read(from, piece, 1), 1);
	CHECK_EQ(piece[0], 'y');
}

/* ---- Actions ---- */

static void tells_what_was_set(void)
{
	struct sigaction act = { .sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART }, old;

	CHECK(signal(SIGUSR1, jump) == SIG_DFL);
	CHECK_EQ(sigaction(SIGUSR1, &act, &old), 0);
	CHECK(old.sa_handler == jump);
	CHECK(!(old.sa_flags & SA_SIGINFO));
	CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_sigaction == count);
	CHECK_EQ(old.sa_flags & (SA_SIGINFO | SA_RESTART | SA_RESETHAND), SA_SIGINFO | SA_RESTART);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(signals, 1);
	act.sa_flags = SA_SIGINFO | SA_RESETHAND;
	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_flags & SA_RESETHAND);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(signals, 2);
	CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL);
	CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	CHECK(signal(SIGKILL, jump) == SIG_ERR);
	CHECK_EQ(errno, EINVAL);
}

/* ---- Streams without a reader ---- */

static int connect_to(int listener, const struct sockaddr_in *a, int *to)
{
	int from = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(connect(from, (const struct sockaddr *)a, sizeof(*a)), 0);
	*to = accept(listener, NULL, NULL);
	CHECK(*to >= 0);
	return from;
}

static ssize_t send_in(int fd, int how)
{
	char x[] = "x";
	struct iovec iov = { x, 1 };
	struct mmsghdr msg = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	switch (how) {
	case 0:
		return write(fd, "x", 1);
	case 1:
		return writev(fd, &iov, 1);
	case 2:
		return send(fd, "x", 1, 0);
	case 3:
		return sendto(fd, "x", 1, 0, NULL, 0);
	case 4:
		return sendmsg(fd, &msg.msg_hdr, 0);
	default:
		return sendmmsg(fd, &msg, 1, 0);
	}
}

/* Each call raises the signal, unless the program wants none. */
static void expect_broken_pipe(int fd)
{
	for (int how = 0; how < 6; how++) {
		signals = 0;
		CHECK_EQ(send_in(fd, how), -1);
		CHECK_EQ(errno, EPIPE);
		CHECK_EQ(signals, 1);
	}
	CHECK_EQ(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	CHECK_EQ(errno, EPIPE);
	CHECK_EQ(signals, 1);
	CHECK_EQ(close(fd), 0);
}

static void await_end(int fd, short how)
{
	struct pollfd p = { .fd = fd };

	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK(p.revents & how);
}

static void broken_pipes(void)
{
	const struct sigaction act = { .sa_sigaction = count, .sa_flags = SA_SIGINFO };
	const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_in a;
	int listener = listen_at(&a), from, to;

	CHECK_EQ(sigaction(SIGPIPE, &act, NULL), 0);
	from = connect_to(listener, &a, &to);
	CHECK_EQ(shutdown(from, SHUT_WR), 0);
	expect_broken_pipe(from);
	CHECK_EQ(close(to), 0);

	from = connect_to(listener, &a, &to);
	CHECK_EQ(close(to), 0);
	await_end(from, POLLHUP);
	expect_broken_pipe(from);

	/* A reset is told once. */
	from = connect_to(listener, &a, &to);
	CHECK_EQ(setsockopt(to, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	CHECK_EQ(close(to), 0);
	await_end(from, POLLERR);
	signals = 0;
	CHECK_EQ(write(from, "x", 1), -1);
	CHECK_EQ(errno, ECONNRESET);
	CHECK_EQ(signals, 0);
	expect_broken_pipe(from);
	CHECK_EQ(close(listener), 0);
}

static void over_rsockets(void)
{
	int from = socket(AF_INET, SOCK_STREAM, 0), listener, to;
	struct sockaddr_in a;

	listener = listen_at(&a);
	CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	leaves_waits(listener, from, to);
	leaves_transfers(from, to);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return exec_preloaded(argv, false);
	tells_what_was_set();
	over_rsockets();
	broken_pipes();
	return 0;
}
