/* SPDX-License-Identifier: BSD-2-Clause */
/* riomap(): the peer writes into mapped memory, in order with the stream and within its bounds. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rspair.h"
#include "util/atomic.h"

enum {
	MAPS = 2,
	SIZE = 300000,
	OPTIONS_MS = 250, /* half the time for which requests wait */
	TIMEOUT_S = 100,
	ROUNDED_MS = 4,
};

static uint8_t memory[SIZE], data[SIZE];

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t clock_ms(void)
{
	return clock_ns() / 1000000;
}

/* The first time limit of this thread's call, and how long the call has slept; -1: no call. */
static __thread int64_t first_ms = -1, slept_ns;

__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t n, int ms)
{
	static int (*real)(struct pollfd *, nfds_t, int);
	uint64_t begin = clock_ns();
	int ready;

	if (!load_relaxed(&real))
		store_relaxed(&real, (__typeof__(real))dlsym(RTLD_NEXT, "poll"));
	if (first_ms >= 0) {
		first_ms = first_ms ? first_ms : ms;
		CHECK(ms >= 0 && ms <= first_ms - slept_ns / 1000000 + ROUNDED_MS);
	}
	ready = load_relaxed(&real)(fds, n, ms);
	slept_ns += (int64_t)(clock_ns() - begin);
	return ready;
}

/* The writer has received the mapping when a byte of the stream has arrived. */
static void sync_to(const struct rspair *p)
{
	char c;

	CHECK_EQ(rsend(p->fd[1], "x", 1, 0), 1);
	CHECK_EQ(rrecv(p->fd[0], &c, 1, 0), 1);
}

/* Data written before a byte of the stream is there when that byte arrives. */
static void sync_from(const struct rspair *p)
{
	char c;

	CHECK_EQ(rsend(p->fd[0], "x", 1, 0), 1);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
}

static void writes(void)
{
	struct rspair p = rspair_make(LOOPBACK, MAPS);

	for (int i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 13 + (i >> 9));
	CHECK_EQ(riomap(p.fd[1], memory, SIZE, PROT_WRITE, 0, 1000), 1000);
	sync_to(&p);
	CHECK_EQ(riowrite(p.fd[0], data, SIZE, 1000, 0), SIZE);
	sync_from(&p);
	CHECK_MEM(memory, data, SIZE);
	/* Beyond the end of the mapping, and where there is none. */
	CHECK_EQ(riowrite(p.fd[0], data, 100, 1000 + SIZE - 10, 0), 10);
	CHECK_EQ(riowrite(p.fd[0], data, 100, 999, 0), 0);
	CHECK_EQ(riowrite(p.fd[0], data, 100, 1000 + SIZE, 0), 0);
	rspair_close(&p);
}

/* SO_SNDTIMEO limits all waits of a riowrite() together. */
static void limited(void)
{
	const struct timeval t = { .tv_sec = TIMEOUT_S };
	struct rspair p = rspair_make(LOOPBACK, MAPS);

	CHECK_EQ(riomap(p.fd[1], memory, SIZE, PROT_WRITE, 0, 0), 0);
	sync_to(&p);
	CHECK_EQ(rsetsockopt(p.fd[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)), 0);
	first_ms = slept_ns = 0;
	CHECK_EQ(riowrite(p.fd[0], data, SIZE, 0, 0), SIZE);
	first_ms = -1;
	rspair_close(&p);
}

/* With packets that are late, so that it waits several times. */
static void limited_in_child(void)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		setenv("VERBENA_FAULTS", "packet tx delay 5ms; message tx delay 5ms", 1);
		limited();
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void tables(void)
{
	struct rspair p = rspair_make(LOOPBACK, MAPS);
	off_t at = (off_t)(uintptr_t)data;

	CHECK_EQ(riomap(p.fd[0], data, 10, PROT_WRITE, 0, -1), at);
	CHECK_EQ(riomap(p.fd[0], data, 20, PROT_NONE, 0, 7), 7);
	CHECK_EQ(riomap(p.fd[0], data + 20, 10, PROT_WRITE, 0, 8), 8);
	CHECK_FAILS(riomap(p.fd[0], data, 30, PROT_WRITE, 0, 9), ENOMEM);
	CHECK_EQ(riounmap(p.fd[0], data, 20), 0);
	CHECK_FAILS(riounmap(p.fd[0], data, 20), EINVAL);
	CHECK_FAILS(riomap(p.fd[0], data, 10, PROT_EXEC, 0, 0), EINVAL);
	rspair_close(&p);
	/* A peer without a table of mappings. */
	p = rspair_make(LOOPBACK, 0);
	CHECK_FAILS(riomap(p.fd[0], data, 10, PROT_WRITE, 0, 0), ENOMEM);
	CHECK_EQ(riowrite(p.fd[0], data, 10, 0, 0), 0);
	rspair_close(&p);
}

/* When a mapping is replaced, the peer writes to the new memory. */
static void replaced(void)
{
	struct rspair p = rspair_make(LOOPBACK, MAPS);

	CHECK_EQ(riomap(p.fd[1], memory, 10, PROT_WRITE, 0, 0), 0);
	for (int i = 1; i < 10; i++) {
		CHECK_EQ(riomap(p.fd[1], memory + i * 10, 10, PROT_WRITE, 0, i * 10), i * 10);
		CHECK_FAILS(riomap(p.fd[1], memory, 10, PROT_WRITE, 0, 1000), ENOMEM);
		sync_to(&p);
		data[0] = (uint8_t)(100 + i);
		CHECK_EQ(riowrite(p.fd[0], data, 10, i * 10, 0), 10);
		sync_from(&p);
		CHECK_EQ(memory[i * 10], 100 + i);
		CHECK_EQ(riounmap(p.fd[1], memory + (i - 1) * 10, 10), 0);
	}
	rspair_close(&p);
}

/* Begins a nonblocking connect; no call waits for it. */
static int begin_connect(const struct sockaddr_storage *to)
{
	int fd = rsocket(to->ss_family, SOCK_STREAM, 0);

	CHECK_EQ(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	CHECK(!rconnect(fd, (const struct sockaddr *)to, sizeof(struct sockaddr_in)) ||
	      errno == EINPROGRESS);
	return fd;
}

/* Waits until one of them has an event, without polling the rsocket of a listener. */
static bool is_connected(int client, int other)
{
	struct pollfd p[2] = { { .fd = other, .events = POLLIN },
			       { .fd = client, .events = POLLIN } };

	poll(p, 2, 1);
	return p[0].revents || rspair_poll(client, POLLOUT, 0) & POLLOUT;
}

/*
 * Options that the server sets after rlisten() and before it first polls for connections apply to a
 * request that has already arrived; riostream relies on it. Returns false if the test was so slow
 * that they may not apply.
 */
static bool late_option(void)
{
	uint64_t start = clock_ms();
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), maps = MAPS, server;
	int client = begin_connect(&a);
	bool in_time;
	off_t at;

	while (!is_connected(client, listener))
		;
	CHECK_EQ(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)), 0);
	in_time = clock_ms() - start < OPTIONS_MS;
	server = raccept(listener, NULL, NULL);
	CHECK(server >= 0);
	CHECK(rspair_poll(client, POLLOUT, -1) & POLLOUT);
	at = riomap(client, data, 10, PROT_WRITE, 0, 0);
	if (in_time)
		CHECK_EQ(at, 0);
	CHECK_EQ(rclose(client), 0);
	CHECK_EQ(rclose(server), 0);
	CHECK_EQ(rclose(listener), 0);
	return in_time;
}

/* A client is connected even if the server never polls its listener. */
static void unpolled_listener(void)
{
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), client = begin_connect(&a);

	while (!is_connected(client, -1))
		;
	CHECK_EQ(rclose(client), 0);
	CHECK_EQ(rclose(listener), 0);
}

int main(void)
{
	limited_in_child();
	while (!late_option())
		;
	unpolled_listener();
	writes();
	replaced();
	tables();
	return 0;
}
