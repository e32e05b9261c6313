/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload_test LIBRSPRELOAD
 *
 * System calls that no program of the stock tests uses, with librspreload.so preloaded:
 * epoll_pwait2(), select() with more descriptors than FD_SETSIZE, FIONREAD in a small stack, a
 * poll() that is cancelled, syscall(), waits that let signals in, options, questions about
 * interfaces, standard streams, children that close what they inherit.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <malloc.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "preload.h"

int __dprintf_chk(int number, int flag, const char *format, ...);

enum {
	HIGH_FD = 3000, /* a descriptor beyond FD_SETSIZE */
	STACK = 65536, /* bytes */
	POLLED = 1000, /* descriptors; what they take is allocated */
	CANCELLED = 100,
	FILES = 100,
};

static void waits_by_timespec(int from, int to)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = to };
	struct timespec t = { .tv_sec = LIMIT_S };
	int ep = epoll_create1(0);

	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, to, &e), 0);
	CHECK_EQ(write(from, "x", 1), 1);
	CHECK_EQ(epoll_pwait2(ep, &e, 1, &t, NULL), 1);
	CHECK_EQ(e.data.fd, to);
	CHECK_EQ(read(to, &e, 1), 1);
	t = (struct timespec){ .tv_nsec = 1 };
	CHECK_EQ(epoll_pwait2(ep, &e, 1, &t, NULL), 0);
	CHECK_EQ(close(ep), 0);
}

static void select_beyond_fd_setsize(int from, int to)
{
	fd_set *set = calloc(HIGH_FD / FD_SETSIZE + 1, sizeof(*set));
	fd_mask *word = (fd_mask *)set + HIGH_FD / NFDBITS;
	struct rlimit most = { HIGH_FD + 1, HIGH_FD + 1 };
	struct timeval t = limit();

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &most), 0);
	CHECK_EQ(dup2(to, HIGH_FD), HIGH_FD);
	CHECK_EQ(write(from, "y", 1), 1);
	*word = 1UL << HIGH_FD % NFDBITS;
	CHECK_EQ(select(HIGH_FD + 1, set, NULL, NULL, &t), 1);
	CHECK_EQ(*word, 1UL << HIGH_FD % NFDBITS);
	CHECK_EQ(read(HIGH_FD, &t, 1), 1);
	t = (struct timeval){ 0 };
	CHECK_EQ(select(HIGH_FD + 1, set, NULL, NULL, &t), 0);
	CHECK_EQ(*word, 0);
	t.tv_sec = -1;
	CHECK_EQ(select(HIGH_FD + 1, set, NULL, NULL, &t), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(close(HIGH_FD), 0);
	free(set);
}

static void *count_readable(void *arg)
{
	int count;

	CHECK_EQ(ioctl(*(int *)arg, FIONREAD, &count), 0);
	CHECK_EQ(count, 1);
	return NULL;
}

static void *send_from_file(void *arg)
{
	FILE *f = tmpfile();

	CHECK(f && fputc('z', f) == 'z' && !fseek(f, 0, SEEK_SET));	/* flushes */
	CHECK_EQ(sendfile(*(int *)arg, fileno(f), NULL, 1), 1);
	CHECK_EQ(fclose(f), 0);
	return NULL;
}

static void run_in_a_small_stack(void *(*fn)(void *), int number)
{
	pthread_attr_t small;
	pthread_t thread;

	CHECK_EQ(pthread_attr_init(&small), 0);
	CHECK_EQ(pthread_attr_setstacksize(&small, STACK), 0);
	CHECK(!pthread_create(&thread, &small, fn, &number) && !pthread_join(thread, NULL));
}

static void small_stacks(int from, int to)
{
	char c;

	run_in_a_small_stack(send_from_file, from);
	CHECK_EQ(recv(to, &c, 1, MSG_PEEK), 1);
	run_in_a_small_stack(count_readable, to);
	CHECK_EQ(read(to, &c, 1), 1);
}

static void *poll_many(void *arg)
{
	struct pollfd fds[POLLED];

	for (int i = 0; i < POLLED; i++)
		fds[i] = (struct pollfd){ .fd = i ? -1 : *(int *)arg, .events = POLLIN };
	poll(fds, POLLED, -1);
	return NULL;
}

static void a_cancelled_poll_leaks_nothing(int to)
{
	size_t before = mallinfo2().uordblks;

	for (int i = 0; i < CANCELLED; i++) {
		pthread_t thread;
		void *end;

		CHECK_EQ(pthread_create(&thread, NULL, poll_many, &to), 0);
		CHECK_EQ(pthread_cancel(thread), 0);
		CHECK_EQ(pthread_join(thread, &end), 0);
		CHECK(end == PTHREAD_CANCELED);
	}
	CHECK(mallinfo2().uordblks < before + CANCELLED * POLLED * sizeof(struct pollfd) / 2);
}

static volatile sig_atomic_t signals;

static void count_signal(int sig)
{
	signals++;
}

/* The call must end by the signal, which waits already, and leave it blocked again. */
#define CHECK_INTERRUPTED(call)                                                                    \
	do {                                                                                       \
		int before = signals;                                                              \
		CHECK_EQ(raise(SIGUSR1), 0);                                                       \
		CHECK_EQ(signals, before);                                                         \
		errno = 0;                                                                         \
		CHECK_EQ((call), -1);                                                              \
		CHECK_EQ(errno, EINTR);                                                            \
		CHECK_EQ(signals, before + 1);                                                     \
	} while (0)

static void signals_end_waits(int from, int to)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = to };
	struct sigaction action = { .sa_handler = count_signal };
	struct timespec t = { .tv_sec = LIMIT_S }, zero = { 0 };
	struct pollfd p = { .fd = to, .events = POLLIN };
	int ep = epoll_create1(0);
	sigset_t blocked, none;
	fd_set set;

	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, to, &e), 0);
	FD_ZERO(&set);
	FD_SET(to, &set);
	CHECK_INTERRUPTED(ppoll(&p, 1, &t, &none));
	CHECK_INTERRUPTED(ppoll(&p, 1, &zero, &none));
	CHECK_INTERRUPTED(pselect(to + 1, &set, NULL, NULL, &t, &none));
	CHECK_INTERRUPTED(pselect(to + 1, &set, NULL, NULL, &zero, &none));
	/* A program may call it again with the same sets. */
	CHECK(FD_ISSET(to, &set));
	CHECK_INTERRUPTED(epoll_pwait(ep, &e, 1, LIMIT_S * 1000, &none));
	CHECK_INTERRUPTED(epoll_pwait2(ep, &e, 1, &t, &none));
	CHECK_EQ(ppoll(&p, 1, &zero, &none), 0);
	/* What is ready comes first, and the signal waits on. */
	CHECK_EQ(write(from, "s", 1), 1);
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ppoll(&p, 1, &t, &none), 1);
	CHECK_EQ(read(to, &e, 1), 1);
	CHECK_EQ(sigprocmask(SIG_UNBLOCK, &blocked, NULL), 0);
	CHECK_EQ(close(ep), 0);
}

/*
 * Options without effect are ignored, but none is that the program relies on, as to have its data
 * encrypted.
 */
static void options(int fd)
{
	static const struct {
		int level, name;
	} refused[] = {
		{ IPPROTO_TCP, TCP_ULP },
		{ SOL_TLS, TLS_TX },
		{ SOL_SOCKET, SO_ZEROCOPY },
	};
	char value[64] = "tls";

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_PRIORITY, value, sizeof(int)), 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), 0);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CHECK_EQ(setsockopt(fd, refused[i].level, refused[i].name, value, sizeof(value)),
			 -1);
		CHECK_EQ(errno, ENOPROTOOPT);
	}
}

/* Programs ask any socket about interfaces. */
static void interfaces(int stream)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = { .ifr_name = "lo" };

	CHECK_EQ(ioctl(stream, SIOCGIFINDEX, &r), 0);
	CHECK_EQ(r.ifr_ifindex, if_nametoindex("lo"));
	CHECK_EQ(ioctl(fd, SIOCGIFMTU, &r), 0);
	CHECK(r.ifr_mtu > 0);
	r.ifr_name[0] = 0;
	CHECK_EQ(ioctl(fd, SIOCGIFMTU, &r), -1);
	CHECK_EQ(errno, ENODEV);
	CHECK_EQ(close(fd), 0);
}

static int accept_one(int listener)
{
	return accept(listener, NULL, NULL);
}

/* A thread that is cancelled in accept() or close() keeps no connection from its peer. */
static void a_cancelled_thread_keeps_nothing(int listener, struct sockaddr_in *a)
{
	int from = socket(AF_INET, SOCK_STREAM, 0), to;
	struct pollfd p = { .fd = listener, .events = POLLIN };

	CHECK_EQ(connect(from, (struct sockaddr *)a, sizeof(*a)), 0);
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	to = cancelled(accept_one, listener);
	if (to < 0) {
		CHECK_EQ(poll(&p, 1, 0), 1);
		to = accept(listener, NULL, NULL);
	}
	cancelled(close, to);
	p.fd = from;
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	CHECK(p.revents & POLLHUP);
	CHECK_EQ(close(from), 0);
}

/* A connection stays in the backlog while the process has no number for it. */
static void accepts_once_there_is_a_number(int listener, struct sockaddr_in *a)
{
	int from = socket(AF_INET, SOCK_STREAM, 0), free_number, to;
	struct pollfd p = { .fd = listener, .events = POLLIN };
	struct rlimit all, none;
	char c;

	CHECK_EQ(connect(from, (struct sockaddr *)a, sizeof(*a)), 0);
	CHECK_EQ(poll(&p, 1, LIMIT_S * 1000), 1);
	free_number = (int)syscall(SYS_dup, from);
	CHECK(free_number >= 0);
	CHECK_EQ(syscall(SYS_close, free_number), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = (struct rlimit){ (rlim_t)free_number, all.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	to = accept(listener, NULL, NULL);
	CHECK(to < 0 && errno == EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
	CHECK_EQ(poll(&p, 1, 0), 1);
	to = accept(listener, NULL, NULL);
	CHECK_EQ(to, free_number);
	CHECK_EQ(write(from, "a", 1), 1);
	CHECK_EQ(read(to, &c, 1), 1);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(to), 0);
}

/* Streams and dprintf() of the C library, which enter the system by themselves. */
static void standard_io(int from, int to)
{
	FILE *in = fdopen(dup(to), "r"), *out = fdopen(dup(from), "w");
	char line[64];

	CHECK(in && out);
	CHECK(fileno(in) >= 0 && fileno(in) != to);
	CHECK(fprintf(out, "%s %d\n", "line", 1) > 0);
	CHECK_EQ(fflush(out), 0);
	CHECK(fgets(line, sizeof(line), in) && !strcmp(line, "line 1\n"));
	CHECK_EQ(dprintf(from, "%s\n%d\n", "line", 2), 7);
	CHECK(fgets(line, sizeof(line), in) && !strcmp(line, "line\n"));
	CHECK_EQ(__dprintf_chk(from, 1, "%d\n", 3), 2); /* of _FORTIFY_SOURCE */
	CHECK_EQ(fseek(in, 0, SEEK_SET), -1);
	CHECK_EQ(errno, ESPIPE);
	CHECK(fgets(line, sizeof(line), in) && !strcmp(line, "2\n"));
	CHECK(fgets(line, sizeof(line), in) && !strcmp(line, "3\n"));
	CHECK_EQ(fclose(in), 0);
	CHECK_EQ(fputs("end", out), 1);
	CHECK_EQ(fclose(out), 0);
	CHECK_EQ(read(to, line, sizeof(line)), 3);
}

/* What a stream still holds at the process's exit is sent, too. */
static void exit_with_a_stream(void)
{
	struct sockaddr_in a;
	int listener = listen_at(&a), to;
	struct timeval t = limit();
	pid_t pid = fork();
	char got[4] = { 0 };

	if (!pid) {
		int from = socket(AF_INET, SOCK_STREAM, 0);

		CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
		fputs("end", fdopen(from, "w"));
		exit(0);
	}
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	CHECK_EQ(setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	CHECK_EQ(read(to, got, sizeof(got)), 3);
	CHECK_EQ(strcmp(got, "end"), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
}

/* A program that talks to its client by standard input and output, and to others afterwards. */
static void talk(const struct sockaddr_in *a)
{
	int from = socket(AF_INET, SOCK_STREAM, 0), pipes[2];
	char line[64] = "";

	alarm(LIMIT_S);
	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(setvbuf(stdout, NULL, _IOFBF, 0), 0);
	CHECK_EQ(connect(from, (const struct sockaddr *)a, sizeof(*a)), 0);
	CHECK(printf("one ") > 0);
	CHECK_EQ(dup2(from, STDOUT_FILENO), STDOUT_FILENO);
	CHECK_EQ(close(STDIN_FILENO), 0);
	CHECK_EQ(dup(from), STDIN_FILENO);
	CHECK(printf("line\n") > 0);
	CHECK_EQ(fflush(stdout), 0);
	CHECK(fgets(line, sizeof(line), stdin) && !strcmp(line, "answer\n"));
	CHECK_EQ(dup2(pipes[1], STDOUT_FILENO), STDOUT_FILENO);
	CHECK(puts("past") >= 0);
	CHECK_EQ(fflush(stdout), 0);
	CHECK_EQ(read(pipes[0], line, sizeof(line)), 5);
	exit(0);
}

static void standard_streams(void)
{
	struct timeval t = limit();
	struct sockaddr_in a;
	int listener = listen_at(&a), to, status;
	pid_t pid = fork();
	char got[16] = "";

	if (!pid)
		talk(&a);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	CHECK_EQ(setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	CHECK_EQ(recv(to, got, 9, MSG_WAITALL), 9);
	CHECK_EQ(strcmp(got, "one line\n"), 0);
	CHECK_EQ(write(to, "answer\n", 7), 7);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(read(to, got, sizeof(got)), 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
}

/* Ruby asks; and what goes past librspreload.so, as by io_uring, must not be lost. */
static void is_a_socket(int fd)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	CHECK(S_ISSOCK(st.st_mode));
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), -1);
	CHECK_EQ(errno, ESPIPE);
	CHECK_EQ(syscall(SYS_write, fd, "x", 1), -1);
	CHECK_EQ(errno, ENOTCONN);
}

/* What cannot go to an rsocket is not lost. */
static void splices_nothing(int to)
{
	int pipes[2];

	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(write(pipes[1], "p", 1), 1);
	CHECK_EQ(splice(pipes[0], NULL, to, NULL, 1, 0), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(close(pipes[0]), 0);
	CHECK_EQ(close(pipes[1]), 0);
}

typedef int send_fn(int number, struct mmsghdr *msgs, unsigned int n, int flags);
typedef int recv_fn(int number, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *timeout);

static int send_by_number(int number, struct mmsghdr *msgs, unsigned int n, int flags)
{
	return (int)syscall(SYS_sendmmsg, number, msgs, n, flags);
}

static int recv_by_number(int number, struct mmsghdr *msgs, unsigned int n, int flags,
			  struct timespec *timeout)
{
	return (int)syscall(SYS_recvmmsg, number, msgs, n, flags, timeout);
}

/* Datagrams, of which more are asked for than there are. */
static void many_messages(send_fn *send_all, recv_fn *recv_all)
{
	enum { SENT = 3, ASKED = 5 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0), n = 0, more;
	struct mmsghdr msgs[ASKED] = { 0 };
	struct iovec iov[ASKED];
	char data[ASKED][8] = { "a", "bc", "def" };
	socklen_t len = sizeof(at);

	CHECK_EQ(bind(to, (struct sockaddr *)&at, len), 0);
	CHECK_EQ(getsockname(to, (struct sockaddr *)&at, &len), 0);
	CHECK_EQ(connect(from, (struct sockaddr *)&at, len), 0);
	for (int i = 0; i < ASKED; i++) {
		iov[i] = (struct iovec){ data[i], (size_t)i + 1 };
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
	}
	CHECK_EQ(send_all(from, msgs, SENT, 0), SENT);
	CHECK_EQ(msgs[2].msg_len, 3);
	for (int i = 0; i < ASKED; i++)
		iov[i].iov_len = sizeof(data[i]);
	while (n < SENT) {
		more = recv_all(to, msgs + n, ASKED - (unsigned int)n, MSG_WAITFORONE, NULL);
		CHECK(more > 0);
		n += more;
	}
	CHECK_EQ(n, SENT);
	for (int i = 0; i < SENT; i++)
		CHECK_EQ(msgs[i].msg_len, i + 1);
	CHECK_MEM(data[2], "def", 3);
	CHECK_EQ(recv_all(to, msgs, ASKED, MSG_DONTWAIT, NULL), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(to), 0);
}

/* A connection that becomes one of TCP keeps what the program has set before. */
static void connects_by_tcp(void)
{
	struct timeval t = { .tv_usec = 200000 }, got;
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in own = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1) };
	int listener = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), on = 1;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);

	CHECK_EQ(syscall(SYS_bind, listener, &at, len), 0);
	CHECK_EQ(syscall(SYS_listen, listener, 1), 0);
	CHECK_EQ(syscall(SYS_getsockname, listener, &at, &len), 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(syscall(SYS_getsockname, fd, &at, &len), 0);
	CHECK_EQ(at.sin_addr.s_addr, own.sin_addr.s_addr);
	len = sizeof(got);
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
	CHECK(got.tv_sec || got.tv_usec);
	len = sizeof(on);
	on = 0;
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
	CHECK_EQ(on, 1);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(listener), 0);
}

/* That the next descriptors, whose numbers others had, are none of connections. */
static void expect_files(int count)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int fds[FILES];

	for (int i = 0; i < count; i++) {
		fds[i] = open("/dev/null", O_RDONLY);
		CHECK(fds[i] >= 0);
		CHECK_EQ(getsockname(fds[i], (struct sockaddr *)&a, &len), -1);
		CHECK_EQ(errno, ENOTSOCK);
		CHECK_EQ(read(fds[i], &a, 1), 0);
	}
	while (count)
		CHECK_EQ(close(fds[--count]), 0);
}

static void expect_bytes(int from, int to)
{
	char c;

	CHECK_EQ(write(from, "b", 1), 1);
	CHECK_EQ(read(to, &c, 1), 1);
	CHECK_EQ(c, 'b');
}

/* Runs the function in a child of vfork(), which has the memory of its parent. */
static void in_vfork(void (*fn)(int from, int to), int from, int to)
{
	pid_t pid = vfork();
	int status;

	if (!pid) {
		fn(from, to);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	expect_bytes(from, to);
}

static void close_both(int from, int to)
{
	close(from);
	syscall(SYS_close, to);
}

static void close_all(int from, int to)
{
	close_range(3, ~0U, 0);
}

static void close_all_from(int from, int to)
{
	closefrom(3);
}

static void duplicate(int from, int to)
{
	dup(from);
	fcntl(from, F_DUPFD, 0);
}

static int replaced_number;

static void replace(int from, int to)
{
	dup2(from, replaced_number);
	dup2(replaced_number, to);
}

/* What a child of vfork() closes and makes is its own. */
static void vfork_children(int from, int to)
{
	int pipes[2];
	char c;

	in_vfork(close_both, from, to);
	in_vfork(close_all, from, to);
	in_vfork(close_all_from, from, to);
	in_vfork(duplicate, from, to);
	expect_files(FILES);
	CHECK_EQ(pipe(pipes), 0);
	replaced_number = pipes[0];
	in_vfork(replace, from, to);
	CHECK_EQ(write(pipes[1], "p", 1), 1);
	CHECK_EQ(read(pipes[0], &c, 1), 1);
	CHECK_EQ(c, 'p');
	CHECK_EQ(close(pipes[0]), 0);
	CHECK_EQ(close(pipes[1]), 0);
}

/* A child that closes all, as daemons do, opens files with the numbers of connections. */
static void forked_child(void (*close_them)(int from, int to), int from, int to)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		close_them(from, to);
		expect_files(FILES);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	expect_bytes(from, to);
}

static void forked_children(int from, int to)
{
	forked_child(close_all, from, to);
	forked_child(close_all_from, from, to);
}

/* As on Linux, select() tells what is left of its time. */
static void select_counts_down(int from, int to)
{
	struct timeval t = { .tv_usec = 1000 };
	fd_set set;
	char c;

	FD_ZERO(&set);
	FD_SET(to, &set);
	CHECK_EQ(select(to + 1, &set, NULL, NULL, &t), 0);
	CHECK_EQ(t.tv_sec, 0);
	CHECK_EQ(t.tv_usec, 0);
	t = limit();
	FD_SET(to, &set);
	CHECK_EQ(write(from, "c", 1), 1);
	CHECK_EQ(select(to + 1, &set, NULL, NULL, &t), 1);
	CHECK(t.tv_sec < LIMIT_S || t.tv_usec == 0);
	CHECK_EQ(read(to, &c, 1), 1);
}

static void sends_of_no_offset(int from)
{
	FILE *f = tmpfile();
	off_t at = -1;

	CHECK(f);
	errno = 0;
	CHECK_EQ(sendfile(from, fileno(f), &at, 1), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(at, -1);
	CHECK_EQ(fclose(f), 0);
}

/* The peer of a connection that is closed by system call learns it. */
static void closes_by_number(int from, int to)
{
	char c;

	CHECK_EQ(syscall(SYS_close, from), 0);
	CHECK_EQ(read(to, &c, 1), 0);
	CHECK_EQ(syscall(SYS_close, from), -1);
	CHECK_EQ(errno, EBADF);
	CHECK_EQ(syscall(SYS_getpid), getpid());
}

/* Programs try another port if one is in use, and no other address. */
static void a_port_in_use(void)
{
	struct sockaddr_in a, foreign = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(0xC0000201) };
	int listener = listen_at(&a), fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	CHECK_EQ(errno, EADDRINUSE);
	a.sin_addr.s_addr = htonl(INADDR_ANY);
	CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	CHECK_EQ(errno, EADDRINUSE);
	CHECK_EQ(bind(fd, (struct sockaddr *)&foreign, sizeof(foreign)), -1);
	CHECK_EQ(errno, EADDRNOTAVAIL);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(close(listener), 0);
}

static int bind_shared(struct sockaddr_in *a, int reuses_address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuses_address, sizeof(on)), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	return fd;
}

/* By SO_REUSEPORT each thread has a listener of its own, and closes that only. */
static void threads_share_a_port(int reuses_address)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = bind_shared(&a, reuses_address), other, from, to;
	socklen_t len = sizeof(a);

	CHECK_EQ(getsockname(one, (struct sockaddr *)&a, &len), 0);
	other = bind_shared(&a, reuses_address);
	CHECK_EQ(listen(one, 1), 0);
	CHECK_EQ(listen(other, 1), 0);
	CHECK_EQ(close(one), 0);
	from = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(bind(from, (struct sockaddr *)&a, sizeof(a)), -1);
	CHECK_EQ(errno, EADDRINUSE);
	CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
	to = accept(other, NULL, NULL);
	CHECK(to >= 0);
	expect_bytes(from, to);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(other), 0);
}

/* A client that waits for its server may use one socket for all its attempts. */
static void connects_again(void)
{
	int from = socket(AF_INET, SOCK_STREAM, 0), listener, to;
	struct timeval t = limit(), got = { 0 };
	socklen_t len = sizeof(got);
	struct sockaddr_in a;

	listener = listen_at(&a);
	CHECK_EQ(close(listener), 0);
	CHECK_EQ(setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), -1);
		CHECK_EQ(errno, ECONNREFUSED);
	}
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(listen(listener, 1), 0);
	CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_EQ(getsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
	CHECK_EQ(got.tv_sec, LIMIT_S);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	expect_bytes(from, to);
	CHECK_EQ(close(from), 0);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
}

static void over_rsockets(void)
{
	struct sockaddr_in a;
	int listener = listen_at(&a), from = socket(AF_INET, SOCK_STREAM, 0), to;

	CHECK_EQ(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
	to = accept(listener, NULL, NULL);
	CHECK(to >= 0);
	waits_by_timespec(from, to);
	select_beyond_fd_setsize(from, to);
	small_stacks(from, to);
	a_cancelled_poll_leaks_nothing(to);
	signals_end_waits(from, to);
	options(to);
	interfaces(to);
	is_a_socket(to);
	is_a_socket(listener);
	splices_nothing(to);
	sends_of_no_offset(from);
	select_counts_down(from, to);
	vfork_children(from, to);
	forked_children(from, to);
	standard_io(from, to);
	a_cancelled_thread_keeps_nothing(listener, &a);
	accepts_once_there_is_a_number(listener, &a);
	CHECK_EQ(accept4(listener, NULL, NULL, O_APPEND), -1);
	CHECK_EQ(errno, EINVAL);
	closes_by_number(from, to);
	CHECK_EQ(close(to), 0);
	CHECK_EQ(close(listener), 0);
	connects_by_tcp();
	a_port_in_use();
	threads_share_a_port(0);
	threads_share_a_port(1);
	connects_again();
	many_messages(sendmmsg, recvmmsg);
	many_messages(send_by_number, recv_by_number);
	exit_with_a_stream();
	standard_streams();
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return exec_preloaded(argv, false);
	over_rsockets();
	return 0;
}
