/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of rsockets that sleep: what signals do to them, how long they may last altogether, and
 * what they do without a descriptor to be woken by.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rs_hooks.h"
#include "rspair.h"
#include "util/atomic.h"

enum {
	WAIT_MS = WORLD_LIMIT_S * 1000,
	SIGNALS = 5,
	LINGERING = 10000,	/* bytes that have not arrived when their sender closes */
	SLEEPS = 50000,		/* no thread sleeps so often in TIMEOUT_US */
	TIMEOUT_US = 20000,
	LONG_S = 1000,		/* never over */
};

static unsigned int stopped_s; /* for so long this process was, by its clock; atomic */

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, id, t);

	t->tv_sec += load_relaxed(&stopped_s);
	return ret;
}

/* ---- A thread that waits in a call ---- */

struct waiting {
	int fd;
	long (*call)(int fd);
	pthread_t thread;
	long ret;
	int error;
	unsigned int sleeps;
	bool ended;
};

static void *wait_in(void *arg)
{
	struct waiting *w = arg;

	sleeps = &w->sleeps;
	w->ret = w->call(w->fd);
	w->error = w->ret < 0 ? errno : 0;
	store_release(&w->ended, true); /* partner: sleeps_again() */
	return NULL;
}

/* Returns once the call has slept `count` times, or false if it ends before. */
static bool sleeps_again(struct waiting *w, unsigned int count, int sig)
{
	while (load_relaxed(&w->sleeps) < count) {
		if (load_acquire(&w->ended)) /* partner: wait_in() */
			return false;
		CHECK_EQ(pthread_kill(w->thread, sig), 0);
		sched_yield();
	}
	return true;
}

/* Returns once the call sleeps. */
static void start(struct waiting *w)
{
	CHECK_EQ(pthread_create(&w->thread, NULL, wait_in, w), 0);
	CHECK(sleeps_again(w, 1, 0));
}

/* Interrupts the call until it sleeps again; returns false if it has ended. */
static bool interrupt(struct waiting *w)
{
	return sleeps_again(w, load_relaxed(&w->sleeps) + 1, SIGUSR1);
}

/* How the call ends. */
static void ends(struct waiting *w, long ret, int error)
{
	CHECK_EQ(pthread_join(w->thread, NULL), 0);
	CHECK_EQ(w->ret, ret);
	CHECK_EQ(w->error, error);
}

static long receive(int fd)
{
	char c;

	return rrecv(fd, &c, 1, 0);
}

static long poll_one(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = rpoll(&p, 1, -1);

	return n == 1 ? p.revents : n;
}

static long close_one(int fd)
{
	return rclose(fd);
}

/* ---- Signals ---- */

static void do_nothing(int sig)
{
}

static void handle(int flags)
{
	const struct sigaction action = { .sa_handler = do_nothing, .sa_flags = flags };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static void receive_for(int fd, int seconds)
{
	struct timeval t = { .tv_sec = seconds };

	CHECK_EQ(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
}

static void is_restarted(struct rspair *p)
{
	struct waiting w = { .fd = p->fd[0], .call = receive };

	start(&w);
	for (int i = 0; i < SIGNALS; i++)
		CHECK(interrupt(&w));
	CHECK_EQ(rsend(p->fd[1], "x", 1, 0), 1);
	ends(&w, 1, 0);
}

static void is_interrupted(struct rspair *p)
{
	struct waiting w = { .fd = p->fd[0], .call = receive };

	start(&w);
	while (interrupt(&w))
		;
	ends(&w, -1, EINTR);
}

/* As the system, calls are restarted if the handler allows it and they have no limit of time. */
static void restarts(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);

	handle(SA_RESTART);
	is_restarted(&p);
	receive_for(p.fd[0], LONG_S);
	is_interrupted(&p);
	receive_for(p.fd[0], 0);
	is_restarted(&p);
	handle(0);
	is_interrupted(&p);
	rspair_close(&p);
}

/* ---- Closed with data on their way ---- */

static uint8_t bytes[SLEEPS];

/* Stops once it is connected; then it must get all bytes, and the end. */
static void peer(int out)
{
	struct sockaddr_storage at;
	int listener = rspair_listen(LOOPBACK, &at), fd;
	size_t got = 0;
	ssize_t n;

	CHECK_EQ(write(out, &at, sizeof(at)), sizeof(at));
	fd = raccept(listener, NULL, NULL);
	CHECK(fd >= 0);
	raise(SIGSTOP);
	while ((n = rrecv(fd, bytes, sizeof(bytes), 0)) > 0)
		got += (size_t)n;
	CHECK_EQ(n, 0);
	CHECK_EQ(got, LINGERING);
	_exit(0);
}

static pid_t start_peer(struct sockaddr_storage *at)
{
	int pipes[2];
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		peer(pipes[1]);
	}
	CHECK_EQ(read(pipes[0], at, sizeof(*at)), sizeof(*at));
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

static void expect_status(pid_t pid, int options, bool (*is_wanted)(int status))
{
	int status;

	CHECK_EQ(waitpid(pid, &status, options), pid);
	CHECK(is_wanted(status));
}

static bool is_stopped(int status)
{
	return WIFSTOPPED(status);
}

static bool has_passed(int status)
{
	return status == 0;
}

/*
 * Neither signals nor a stop end a rclose() that waits for its data to arrive.  Meanwhile an epoll
 * does not report what the program has closed.
 */
static void lingers(void)
{
	struct linger on = { .l_onoff = 1, .l_linger = LONG_S };
	struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP };
	struct sockaddr_storage at;
	pid_t pid = start_peer(&at);
	struct waiting w = { .fd = rsocket(AF_INET, SOCK_STREAM, 0), .call = close_one };
	int ep = repoll_create(0);

	handle(0);
	CHECK_EQ(rconnect(w.fd, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
	expect_status(pid, WUNTRACED, is_stopped);
	CHECK_EQ(rsetsockopt(w.fd, SOL_SOCKET, SO_LINGER, &on, sizeof(on)), 0);
	CHECK_EQ(repoll_ctl(ep, EPOLL_CTL_ADD, w.fd, &e), 0);
	CHECK_EQ(rsend(w.fd, bytes, LINGERING, 0), LINGERING);
	CHECK_EQ(repoll_wait(ep, &e, 1, 0), 0);
	start(&w);
	for (int i = 0; i < SIGNALS; i++) {
		CHECK(interrupt(&w));
		CHECK_EQ(repoll_wait(ep, &e, 1, 0), 0);
		store_relaxed(&stopped_s, 2 * LONG_S);
	}
	CHECK_EQ(kill(pid, SIGCONT), 0);
	ends(&w, 0, 0);
	CHECK_EQ(repoll_wait(ep, &e, 1, 0), 0);
	expect_status(pid, 0, has_passed);
	CHECK_EQ(rclose(ep), 0);
}

/* All has arrived, but the program wants its peer to see no orderly end. */
static void breaks_off(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct linger hard = { .l_onoff = 1 };
	char c;

	CHECK_EQ(rsetsockopt(p.fd[0], SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
	CHECK_EQ(rsend(p.fd[0], "x", 1, 0), 1);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	CHECK_EQ(rclose(p.fd[0]), 0);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), -1);
	CHECK_EQ(errno, ECONNRESET);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

/* ---- Time limits ---- */

static int trickle_to;

static void send_byte(void)
{
	CHECK(rsend(trickle_to, "x", 1, MSG_DONTWAIT) == 1 || errno == EAGAIN);
}

/* SO_RCVTIMEO is the limit of the call, though a byte comes each time that it waits. */
static void times_out_as_a_whole(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct timeval t = { .tv_usec = TIMEOUT_US };
	ssize_t n;

	CHECK_EQ(rsetsockopt(p.fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	trickle_to = p.fd[1];
	send_byte();
	CHECK_EQ(rspair_poll(p.fd[0], POLLIN, WAIT_MS), POLLIN);
	before_sleep = send_byte;
	n = rrecv(p.fd[0], bytes, sizeof(bytes), MSG_WAITALL);
	before_sleep = NULL;
	CHECK(n > 0);
	CHECK(n < SLEEPS);
	rspair_close(&p);
}

/* ---- No descriptor is free ---- */

static void waits_without_descriptor(struct rspair *p, long (*call)(int fd), long ret)
{
	struct waiting w = { .fd = p->fd[0], .call = call };
	int spare = dup(0);
	struct rlimit all, none;
	char c;

	CHECK(spare >= 0);
	CHECK_EQ(close(spare), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = (struct rlimit){ (rlim_t)spare, all.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	start(&w);
	CHECK_EQ(rsend(p->fd[1], "x", 1, 0), 1);
	ends(&w, ret, 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
	if (call != receive)
		CHECK_EQ(rrecv(p->fd[0], &c, 1, 0), 1);
}

/* A new thread has no eventfd of its own yet. */
static void without_descriptors(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);

	waits_without_descriptor(&p, receive, 1);
	waits_without_descriptor(&p, poll_one, POLLIN);
	rspair_close(&p);
}

int main(void)
{
	lingers();
	breaks_off();
	restarts();
	times_out_as_a_whole();
	without_descriptors();
	return 0;
}
