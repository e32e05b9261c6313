/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread waits in a call of rsockets while another thread closes the rsocket, cancels the thread,
 * or makes nonblocking calls.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "left_out.h"
#include "rs_hooks.h"
#include "rspair.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	ROUNDS = 8,
	LOCKLESS = 4096,	/* bytes that are sent without holding the lock */
};

/* ---- Calls that wait ---- */

struct waiting {
	int fd;
	long (*call)(int fd);
	long ret;
	int error;
	unsigned int sleeps;
};

static long receive(int fd)
{
	char c;

	return rrecv(fd, &c, 1, 0);
}

static uint8_t large[4 << 20];

/* A call that has sent some bytes returns their number; the next one fails. */
static long send_large(int fd)
{
	while (rsend(fd, large, sizeof(large), 0) > 0)
		;
	CHECK(errno == ECONNRESET || errno == EBADF);
	errno = 0;
	return -1;
}

static long accept_one(int fd)
{
	return raccept(fd, NULL, NULL);
}

static struct sockaddr_storage to;

static long connect_to(int fd)
{
	return rconnect(fd, (struct sockaddr *)&to, sizeof(struct sockaddr_in));
}

static long poll_one(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = rpoll(&p, 1, -1);

	return n == 1 ? p.revents : n;
}

static long wait_epoll(int fd)
{
	struct epoll_event e;

	return repoll_wait(fd, &e, 1, -1);
}

static void *wait_in(void *arg)
{
	struct waiting *w = arg;

	is_ours = true;
	sleeps = &w->sleeps;
	w->ret = w->call(w->fd);
	w->error = w->ret < 0 ? errno : 0;
	return NULL;
}

/* Returns once the thread sleeps in its call. Messages of others may wake it again and again. */
static pthread_t start(struct waiting *w)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, wait_in, w), 0);
	while (!load_relaxed(&w->sleeps))
		sched_yield();
	return thread;
}

/* What the call returns when another thread closes its rsocket. */
static void closed(int fd, long (*call)(int fd), long ret, int error)
{
	struct waiting w[2] = { { .fd = fd, .call = call }, { .fd = fd, .call = call } };
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		thread[i] = start(&w[i]);
	CHECK_EQ(rclose(fd), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
		CHECK_EQ(w[i].ret, ret);
		CHECK_EQ(w[i].error, error);
	}
	CHECK_EQ(rclose(fd), EBADF);
}

/* Two threads wait, and the second one is cancelled first. */
static void cancelled(int fd, long (*call)(int fd))
{
	struct waiting w[2] = { { .fd = fd, .call = call }, { .fd = fd, .call = call } };
	pthread_t thread[2];
	void *how;

	for (int i = 0; i < 2; i++)
		thread[i] = start(&w[i]);
	for (int i = 1; i >= 0; i--) {
		CHECK_EQ(pthread_cancel(thread[i]), 0);
		CHECK_EQ(pthread_join(thread[i], &how), 0);
		CHECK(how == PTHREAD_CANCELED);
	}
}

/* ---- Closed while a call waits ---- */

static int bound_dgram(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 0);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	CHECK_EQ(rbind(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	return fd;
}

static void close_each(void)
{
	struct sockaddr_storage a;
	struct rspair p = rspair_make(LOOPBACK, 0);

	closed(p.fd[0], receive, 0, 0);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
	p = rspair_make(LOOPBACK, 0);
	closed(p.fd[0], poll_one, POLLNVAL, 0);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
	closed(rspair_listen(LOOPBACK, &a), accept_one, -1, EINVAL);
	closed(bound_dgram(), receive, -1, EBADF);
	closed(repoll_create(0), wait_epoll, -1, EBADF);
}

/* The peer reads nothing; data in flight is discarded. */
static void close_sender(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct linger hard = { .l_onoff = 1, .l_linger = 0 };

	CHECK_EQ(rsetsockopt(p.fd[0], SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	closed(p.fd[0], send_large, -1, 0);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

/* The listener's queue is full. */
static void close_connecting(void)
{
	int listener = rspair_listen(LOOPBACK, &to), first = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(rlisten(listener, 1), 0);
	CHECK_EQ(connect_to(first), 0);
	closed(rsocket(AF_INET, SOCK_STREAM, 0), connect_to, -1, EBADF);
	CHECK_EQ(rclose(first), 0);
	CHECK_EQ(rclose(listener), 0);
}

/* Two threads close at once: exactly one succeeds. */
static void *close_it(void *arg)
{
	return (void *)(intptr_t)rclose(*(int *)arg);
}

static void close_twice(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	pthread_t thread;
	void *other;
	int mine;

	CHECK_EQ(pthread_create(&thread, NULL, close_it, &p.fd[0]), 0);
	mine = rclose(p.fd[0]);
	CHECK_EQ(pthread_join(thread, &other), 0);
	CHECK_EQ(mine + (intptr_t)other, EBADF);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

/* ---- Closed by another thread when a call has begun ---- */

static struct sockaddr_storage anywhere;

static long bind_it(int fd)
{
	return rbind(fd, (struct sockaddr *)&anywhere, sizeof(struct sockaddr_in));
}

static long send_one(int fd)
{
	return rsendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(struct sockaddr_in));
}

static long listen_at_it(int fd)
{
	return rlisten(fd, 1);
}

static long keep_alive(int fd)
{
	return rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
}

static int new_dgram(void)
{
	return rsocket(AF_INET, SOCK_DGRAM, 0);
}

static int new_stream(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(bind_it(fd), 0);
	return fd;
}

static int connected(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);

	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
	return p.fd[0];
}

static const struct {
	int (*make)(void);
	long (*call)(int fd);
	/* errno if the rsocket is closed before the call has taken its lock; 0: none */
	int late;
} begun[] = {
	{ new_dgram, bind_it, EBADF },
	{ new_dgram, connect_to, EBADF },
	{ new_dgram, send_one, EBADF },
	{ new_stream, listen_at_it, EINVAL },
	{ connected, keep_alive, 0 },
};

static int target;
static struct stat target_stat;
static struct sockaddr_storage target_name;

static void make_target(int i)
{
	socklen_t len = sizeof(target_name);

	target = begun[i].make();
	CHECK_EQ(fstat(target, &target_stat), 0);
	CHECK_EQ(rgetsockname(target, (struct sockaddr *)&target_name, &len), 0);
}

/* For ThreadSanitizer fstat() of a descriptor that another thread may close meanwhile is a race. */
static int stat_fd(int fd, struct stat *out)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return stat(path, out);
}

/*
 * The descriptor number may have been reused, so this checks that the socket is closed, or the port
 * of a stream is free.
 */
static bool is_destroyed(void)
{
	struct stat now;
	bool is_free;
	int fd;

	if (S_ISSOCK(target_stat.st_mode))
		return stat_fd(target, &now) || now.st_ino != target_stat.st_ino;
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	is_free = !rbind(fd, (struct sockaddr *)&target_name, sizeof(struct sockaddr_in));
	CHECK_EQ(rclose(fd), 0);
	return is_free;
}

/* The service thread may hold a reference for a moment longer. */
static void wait_until_destroyed(void)
{
	while (!is_destroyed())
		sched_yield();
}

static void close_target(pthread_mutex_t *m)
{
	at_lock = NULL;
	CHECK_EQ(rclose(target), 0);
}

static void close_before(int i)
{
	make_target(i);
	at_lock = close_target;
	errno = 0;
	CHECK_EQ(begun[i].call(target), begun[i].late ? -1 : 0);
	CHECK(!begun[i].late || errno == begun[i].late);
	wait_until_destroyed();
}

static pthread_mutex_t *target_lock;	/* the lock that the call is about to take */
static bool may_continue;
static pthread_t caller;

static void wait_for_closer(pthread_mutex_t *m)
{
	at_lock = NULL;
	store_release(&target_lock, m);
	while (!load_acquire(&may_continue))
		sched_yield();
}

static void *call_before_close(void *arg)
{
	at_lock = wait_for_closer;
	begun[(intptr_t)arg].call(target);
	return NULL;
}

static void let_caller_run_first(pthread_mutex_t *m)
{
	if (m != load_relaxed(&target_lock))
		return;
	at_lock = NULL;
	store_release(&may_continue, true);
	CHECK_EQ(pthread_join(caller, NULL), 0);
}

static void close_after(int i)
{
	make_target(i);
	store_relaxed(&target_lock, NULL);
	store_relaxed(&may_continue, false);
	CHECK_EQ(pthread_create(&caller, NULL, call_before_close, (void *)(intptr_t)i), 0);
	while (!load_acquire(&target_lock))
		sched_yield();
	at_lock = let_caller_run_first;
	CHECK_EQ(rclose(target), 0);
	wait_until_destroyed();
}

/* A program may close any descriptor number, even one that raccept() has not returned yet. */

static int listener_of_child, other_end;

static void close_child(pthread_mutex_t *m)
{
	at_lock = NULL;
	for (int fd = 3; fd < 256; fd++)
		if (fd != listener_of_child && fd != other_end && rclose(fd) == 0)
			return;
	at_lock = close_child;
}

static void close_accepted(void)
{
	struct sockaddr_storage want, got;
	socklen_t want_len = sizeof(want), got_len = sizeof(got);
	int child;

	listener_of_child = rspair_listen(LOOPBACK, &to);
	CHECK_EQ(keep_alive(listener_of_child), 0);
	other_end = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(connect_to(other_end), 0);
	CHECK_EQ(rgetsockname(other_end, (struct sockaddr *)&want, &want_len), 0);
	at_lock = close_child;
	child = raccept(listener_of_child, (struct sockaddr *)&got, &got_len);
	at_lock = NULL;
	CHECK(child >= 0);
	CHECK_EQ(got_len, want_len);
	CHECK(!memcmp(&got, &want, got_len));
	CHECK_EQ(rclose(child), 0);
	CHECK_EQ(rclose(other_end), 0);
	CHECK_EQ(rclose(listener_of_child), 0);
}

static void close_begun(void)
{
	int peer = bound_dgram();
	socklen_t len = sizeof(to);

	anywhere = world_addr(LOOPBACK, 0);
	CHECK_EQ(rgetsockname(peer, (struct sockaddr *)&to, &len), 0);
	for (size_t i = 0; i < ARRAY_SIZE(begun); i++) {
		close_before((int)i);
		close_after((int)i);
	}
	CHECK_EQ(rclose(peer), 0);
}

/* One thread is about to sleep and another one has woken up when an epoll descriptor is closed. */

/* locks that the woken thread takes before the epoll descriptor is closed */
static int locks_before;
static bool about_to_sleep;

static void wait_before_sleep(void)
{
	before_sleep = NULL;
	store_release(&about_to_sleep, true);
	while (!load_acquire(&may_continue))
		sched_yield();
}

static void *sleep_late(void *arg)
{
	struct waiting *w = arg;

	before_sleep = wait_before_sleep;
	return wait_in(w);
}

/* Returns once the thread is about to sleep, which it does when it may_continue. */
static pthread_t start_late(struct waiting *w)
{
	pthread_t thread;

	store_relaxed(&may_continue, false);
	store_relaxed(&about_to_sleep, false);
	CHECK_EQ(pthread_create(&thread, NULL, sleep_late, w), 0);
	while (!load_acquire(&about_to_sleep))
		sched_yield();
	return thread;
}

static void close_at_lock(pthread_mutex_t *m)
{
	if (locks_before--)
		return;
	close_target(m);
}

static void close_soon(void)
{
	after_epoll = NULL;
	at_lock = close_at_lock;
}

static void close_woken(int locks)
{
	struct waiting w = { .call = wait_epoll };
	struct epoll_event e = { .events = EPOLLIN };
	int fd = new_stream();
	pthread_t thread;

	target = w.fd = repoll_create(0);
	thread = start_late(&w);
	CHECK_EQ(repoll_ctl(target, EPOLL_CTL_ADD, fd, &e), 0);
	locks_before = locks;
	after_epoll = close_soon;
	CHECK_FAILS(wait_epoll(target), EBADF);
	store_release(&may_continue, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.ret, -1);
	CHECK_EQ(w.error, EBADF);
	CHECK_EQ(rclose(fd), 0);
}

/* ---- A call does what another thread waits for ---- */

/* A thread that takes one of two items leaves the other one to a thread that is about to sleep. */
static void take_one_item(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct waiting w = { .fd = repoll_create(0), .call = wait_epoll };
	struct epoll_event e = { .events = EPOLLOUT | EPOLLONESHOT };
	pthread_t thread = start_late(&w);

	for (int i = 0; i < 2; i++)
		CHECK_EQ(repoll_ctl(w.fd, EPOLL_CTL_ADD, p.fd[i], &e), 0);
	CHECK_EQ(wait_epoll(w.fd), 1);
	store_release(&may_continue, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.ret, 1);
	CHECK_EQ(rclose(w.fd), 0);
	rspair_close(&p);
}

static void hold_back(pthread_mutex_t *m)
{
	at_lock = NULL;
	store_release(&held_back, m);
}

static void send_to_name_of(int fd, int from)
{
	socklen_t len = sizeof(to);

	CHECK_EQ(getsockname(fd, (struct sockaddr *)&to, &len), 0);
	CHECK_EQ(send_one(from), 1);
}

/* A peer that does not answer. */
static int silent_dgram(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	return fd;
}

/*
 * A thread that sends to a new peer takes the first datagram of another one, before the library's
 * thread does.
 */
static void take_datagram(void)
{
	struct waiting w = { .fd = bound_dgram(), .call = receive };
	int first = new_dgram(), silent = silent_dgram();
	pthread_t thread = start_late(&w);

	at_lock = hold_back;
	CHECK_EQ(rsetsockopt(w.fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
	send_to_name_of(w.fd, first);
	send_to_name_of(silent, w.fd);
	store_release(&held_back, NULL);
	store_release(&may_continue, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.ret, 1);
	CHECK_EQ(rclose(w.fd), 0);
	CHECK_EQ(rclose(first), 0);
	CHECK_EQ(close(silent), 0);
}

/* ---- Shut down while another thread copies what it sends ---- */

static void wait_after_copy(pthread_mutex_t *m)
{
	if (m != load_relaxed(&target_lock)) {
		store_relaxed(&target_lock, m);
		return;
	}
	at_lock = NULL;
	store_release(&about_to_sleep, true);
	while (!load_acquire(&may_continue))
		sched_yield();
}

static void *send_some(void *arg)
{
	at_lock = wait_after_copy;
	return (void *)rsend(*(int *)arg, large, LOCKLESS, 0);
}

static void let_continue(void)
{
	before_sleep = NULL;
	store_release(&may_continue, true);
}

/* The message comes before the end of the stream. */
static void shut_sender(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	static uint8_t got[LOCKLESS];
	pthread_t thread;
	void *sent;

	store_relaxed(&target_lock, NULL);
	store_relaxed(&may_continue, false);
	store_relaxed(&about_to_sleep, false);
	CHECK_EQ(pthread_create(&thread, NULL, send_some, &p.fd[0]), 0);
	while (!load_acquire(&about_to_sleep))
		sched_yield();
	before_sleep = let_continue;
	CHECK_EQ(rshutdown(p.fd[0], SHUT_WR), 0);
	CHECK(!before_sleep);
	CHECK_EQ(rrecv(p.fd[1], got, LOCKLESS, MSG_WAITALL), LOCKLESS);
	CHECK_EQ(rrecv(p.fd[1], got, LOCKLESS, 0), 0);
	CHECK_EQ(pthread_join(thread, &sent), 0);
	CHECK_EQ((intptr_t)sent, LOCKLESS);
	rspair_close(&p);
}

/* ---- Cancelled while a call waits ---- */

static void cancel_each(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	int dgram = bound_dgram(), ep = repoll_create(0);
	struct epoll_event e = { .events = EPOLLIN, .data.fd = 7 };

	cancelled(p.fd[0], receive);
	cancelled(p.fd[0], poll_one);
	cancelled(p.listener, accept_one);
	cancelled(dgram, receive);
	CHECK_EQ(repoll_ctl(ep, EPOLL_CTL_ADD, p.fd[0], &e), 0);
	cancelled(ep, wait_epoll);
	/* All descriptors still work. */
	CHECK_EQ(rsend(p.fd[1], "x", 1, 0), 1);
	CHECK_EQ(repoll_wait(ep, &e, 1, WORLD_LIMIT_S * 1000), 1);
	CHECK_EQ(e.data.fd, 7);
	CHECK_EQ(receive(p.fd[0]), 1);
	CHECK_FAILS(rrecv(dgram, &e, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(rclose(ep), 0);
	CHECK_EQ(rclose(dgram), 0);
	rspair_close(&p);
}

static void cancel_sender(void)
{
	static uint8_t got[65536];
	struct rspair p = rspair_make(LOOPBACK, 0);
	size_t left;

	cancelled(p.fd[0], send_large);
	CHECK_EQ(rshutdown(p.fd[0], SHUT_WR), 0);
	for (left = 0; rrecv(p.fd[1], got, sizeof(got), 0) > 0; left++)
		;
	CHECK(left > 0);
	rspair_close(&p);
}

/* A peer that stops once it is connected, so that nothing arrives any more. */
static pid_t start_stopping_peer(void)
{
	int pipes[2], listener;
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		listener = rspair_listen(LOOPBACK, &to);
		CHECK_EQ(write(pipes[1], &to, sizeof(to)), sizeof(to));
		CHECK(raccept(listener, NULL, NULL) >= 0);
		raise(SIGSTOP);
		_exit(1);
	}
	CHECK_EQ(read(pipes[0], &to, sizeof(to)), sizeof(to));
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

static long close_one(int fd)
{
	return rclose(fd);
}

/* The number is closed already, so no other thread could close it. */
static void cancel_closer(pid_t peer)
{
	struct waiting w = { .fd = rsocket(AF_INET, SOCK_STREAM, 0), .call = close_one };
	struct stat any;
	pthread_t thread;
	int status;
	void *how;

	CHECK_EQ(connect_to(w.fd), 0);
	CHECK_EQ(waitpid(peer, &status, WUNTRACED), peer);
	CHECK(WIFSTOPPED(status));
	CHECK_EQ(rsend(w.fd, "x", 1, 0), 1);
	thread = start(&w);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &how), 0);
	CHECK(how == PTHREAD_CANCELED);
	/* The service thread may hold a reference for a moment longer. */
	while (!stat_fd(w.fd, &any))
		sched_yield();
	CHECK_EQ(kill(peer, SIGKILL), 0);
	CHECK_EQ(waitpid(peer, &status, 0), peer);
}

/* ---- Nonblocking calls ---- */

static void dont_wait(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct waiting in = { .fd = p.fd[0], .call = receive },
		       out = { .fd = p.fd[0], .call = send_large };
	struct timeval soon = { .tv_usec = 1000 };
	pthread_t receiver = start(&in), sender = start(&out);
	char c = 0;
	ssize_t n;

	CHECK_FAILS(rrecv(p.fd[0], &c, 1, MSG_DONTWAIT), EAGAIN);
	/* The sender also sleeps while its messages are on their way, and has room again then. */
	do {
		n = rsend(p.fd[0], &c, 1, MSG_DONTWAIT);
	} while (n == 1);
	CHECK(n == -1 && errno == EAGAIN);
	CHECK_EQ(rsetsockopt(p.fd[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
	CHECK_FAILS(rrecv(p.fd[0], &c, 1, 0), EAGAIN);
	CHECK_EQ(rsend(p.fd[1], "x", 1, 0), 1);
	CHECK_EQ(pthread_join(receiver, NULL), 0);
	CHECK_EQ(in.ret, 1);
	CHECK_EQ(pthread_cancel(sender), 0);
	CHECK_EQ(pthread_join(sender, NULL), 0);
	rspair_close(&p);
}

/*
 * ThreadSanitizer (gcc 12) does not see locks that a thread takes while its cancellation unwinds
 * poll(): it reports false races.
 */
static bool can_cancel(void)
{
#ifdef __SANITIZE_THREAD__
	left_out(4, "ThreadSanitizer does not see the locks of a cancelled thread");
	return false;
#else
	return true;
#endif
}

int main(void)
{
	bool cancels = can_cancel();

	is_ours = true;
	if (cancels)
		cancel_closer(start_stopping_peer());
	for (int i = 0; i < ROUNDS; i++) {
		close_each();
		close_sender();
		close_connecting();
		close_twice();
		close_begun();
		close_accepted();
		close_woken(0);
		close_woken(1);
		take_one_item();
		take_datagram();
		shut_sender();
		if (cancels) {
			cancel_each();
			cancel_sender();
			dont_wait();
		}
	}
	return 0;
}
