/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll on rsockets and an ordinary descriptor: level-triggered, edge-triggered, one-shot; changed
 * and closed descriptors.
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "rs_hooks.h"
#include "rspair.h"

enum {
	WAIT_MS = WORLD_LIMIT_S * 1000,
	MESSAGES = 1000,
	FILLS = 20,
	TURNS = 4,
	PORT_FREE = 9,	/* no program listens on port discard */
};

static int ep;

static void control(int op, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u64 = 0x100000000 + (uint64_t)fd };

	CHECK_EQ(repoll_ctl(ep, op, fd, &e), 0);
}

/* Expects exactly one event, for this descriptor. */
static void expect(int fd, uint32_t events)
{
	struct epoll_event e[4];

	CHECK_EQ(repoll_wait(ep, e, 4, WAIT_MS), 1);
	CHECK_EQ(e[0].data.u64, 0x100000000 + (uint64_t)fd);
	CHECK_EQ(e[0].events, events);
}

static void expect_none(void)
{
	struct epoll_event e;

	CHECK_EQ(repoll_wait(ep, &e, 1, 0), 0);
}

static void levels(struct rspair *p)
{
	char c;

	control(EPOLL_CTL_ADD, p->fd[1], EPOLLIN);
	expect_none();
	CHECK_EQ(rsend(p->fd[0], "ab", 2, 0), 2);
	expect(p->fd[1], EPOLLIN);
	expect(p->fd[1], EPOLLIN);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	expect(p->fd[1], EPOLLIN);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	expect_none();
	control(EPOLL_CTL_MOD, p->fd[1], EPOLLIN | EPOLLOUT);
	expect(p->fd[1], EPOLLOUT);
	CHECK_FAILS(repoll_ctl(ep, EPOLL_CTL_ADD, p->fd[1], &(struct epoll_event){ 0 }), EEXIST);
	control(EPOLL_CTL_DEL, p->fd[1], 0);
	CHECK_FAILS(repoll_ctl(ep, EPOLL_CTL_DEL, p->fd[1], NULL), ENOENT);
	expect_none();
}

/* Data that arrive are reported, though the rsocket could be written to all the time. */
static void both_ways(struct rspair *p)
{
	struct epoll_event e;
	struct timespec begin, now;
	char c;

	control(EPOLL_CTL_ADD, p->fd[1], EPOLLIN | EPOLLOUT);
	expect(p->fd[1], EPOLLOUT);
	CHECK_EQ(rsend(p->fd[0], "a", 1, 0), 1);
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &begin), 0);
	do {
		CHECK_EQ(repoll_wait(ep, &e, 1, WAIT_MS), 1);
		CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
		CHECK(now.tv_sec - begin.tv_sec < WORLD_LIMIT_S);
	} while (e.events != (EPOLLIN | EPOLLOUT));
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	control(EPOLL_CTL_DEL, p->fd[1], 0);
}

static void edges(struct rspair *p)
{
	char c;

	control(EPOLL_CTL_ADD, p->fd[1], EPOLLIN | EPOLLET);
	CHECK_EQ(rsend(p->fd[0], "a", 1, 0), 1);
	expect(p->fd[1], EPOLLIN);
	expect_none();
	CHECK_EQ(rsend(p->fd[0], "b", 1, 0), 1);
	expect(p->fd[1], EPOLLIN);
	expect_none();
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	control(EPOLL_CTL_MOD, p->fd[1], EPOLLIN | EPOLLONESHOT);
	CHECK_EQ(rsend(p->fd[0], "c", 1, 0), 1);
	expect(p->fd[1], EPOLLIN);
	expect_none();
	control(EPOLL_CTL_MOD, p->fd[1], EPOLLIN);
	expect(p->fd[1], EPOLLIN);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
}

/* Edges are of what arrives and of room to send, not of what was sent. */
static void edges_while_sending(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	static char bulk[65536];
	struct epoll_event e;
	char c;

	control(EPOLL_CTL_ADD, p.fd[1], EPOLLIN | EPOLLET);
	CHECK_EQ(rsend(p.fd[0], "a", 1, 0), 1);
	expect(p.fd[1], EPOLLIN);
	/* More messages than its queue holds, so that most are known to have been sent. */
	for (int i = 0; i < MESSAGES; i++) {
		CHECK_EQ(rsend(p.fd[1], "m", 1, 0), 1);
		CHECK_EQ(rrecv(p.fd[0], &c, 1, 0), 1);
	}
	expect_none();
	CHECK_EQ(rsend(p.fd[0], "b", 1, 0), 1);
	expect(p.fd[1], EPOLLIN);
	control(EPOLL_CTL_MOD, p.fd[1], EPOLLIN | EPOLLOUT | EPOLLET);
	expect(p.fd[1], EPOLLIN | EPOLLOUT);
	expect_none();
	/* Each time its room is used up and comes back there is an edge. */
	for (int i = 0; i < FILLS; i++) {
		while (rsend(p.fd[1], bulk, sizeof(bulk), MSG_DONTWAIT) > 0)
			;
		CHECK_EQ(errno, EAGAIN);
		while (!repoll_wait(ep, &e, 1, 0))
			CHECK(rrecv(p.fd[0], bulk, sizeof(bulk), 0) > 0);
		CHECK(e.events & EPOLLOUT);
	}
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.fd[0]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

/* The epoll's own descriptor is readable while it has something to report. */
static void polled_itself(struct rspair *p)
{
	int outer = repoll_create(EPOLL_CLOEXEC);
	struct epoll_event e = { .events = EPOLLIN };
	char c;

	expect_none();
	CHECK_EQ(repoll_ctl(outer, EPOLL_CTL_ADD, ep, &e), 0);
	CHECK_EQ(repoll_wait(outer, &e, 1, 0), 0);
	CHECK_EQ(rspair_poll(ep, POLLIN, 0), 0);
	CHECK_EQ(rsend(p->fd[0], "ab", 2, 0), 2);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	/* What was there before it is added. */
	control(EPOLL_CTL_MOD, p->fd[1], EPOLLIN);
	CHECK_EQ(rspair_poll(ep, POLLIN, 0), POLLIN);
	CHECK_EQ(repoll_wait(outer, &e, 1, 0), 1);
	expect(p->fd[1], EPOLLIN);
	CHECK_EQ(rspair_poll(ep, POLLIN, 0), POLLIN);
	CHECK_EQ(repoll_wait(outer, &e, 1, 0), 1);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	expect_none();
	CHECK_EQ(rspair_poll(ep, POLLIN, 0), 0);
	CHECK_EQ(repoll_wait(outer, &e, 1, 0), 0);
	CHECK_EQ(rsend(p->fd[0], "c", 1, 0), 1);
	CHECK_EQ(repoll_wait(outer, &e, 1, WAIT_MS), 1);
	expect(p->fd[1], EPOLLIN);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	CHECK_EQ(rclose(outer), 0);
}

static void *write_later(void *arg)
{
	usleep(20000);
	CHECK_EQ(rsend(*(int *)arg, "x", 1, 0), 1);
	return NULL;
}

/* The event arrives while the thread sleeps on the rsocket and a pipe. */
static void asleep(struct rspair *p)
{
	pthread_t thread;
	int pipes[2];
	char c;

	CHECK_EQ(pipe(pipes), 0);
	control(EPOLL_CTL_ADD, pipes[0], EPOLLIN);
	expect_none();
	CHECK_EQ(pthread_create(&thread, NULL, write_later, &p->fd[0]), 0);
	expect(p->fd[1], EPOLLIN);
	pthread_join(thread, NULL);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	CHECK_EQ(write(pipes[1], "y", 1), 1);
	expect(pipes[0], EPOLLIN);
	CHECK_EQ(close(pipes[0]), 0);
	CHECK_EQ(close(pipes[1]), 0);
	expect_none();
}

/* An ordinary descriptor that is always ready leaves the rsocket a turn, and the other way. */
static void both_ready(struct rspair *p)
{
	int others = ep, turns[2] = { 0 }, pipes[2];
	struct epoll_event e;
	char c;

	ep = repoll_create(EPOLL_CLOEXEC);
	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(write(pipes[1], "y", 1), 1);
	CHECK_EQ(rsend(p->fd[0], "x", 1, 0), 1);
	CHECK_EQ(rspair_poll(p->fd[1], POLLIN, WAIT_MS), POLLIN);
	control(EPOLL_CTL_ADD, pipes[0], EPOLLIN);
	control(EPOLL_CTL_ADD, p->fd[1], EPOLLIN);
	for (int i = 0; i < 2 * TURNS; i++) {
		CHECK_EQ(repoll_wait(ep, &e, 1, WAIT_MS), 1);
		CHECK_EQ(e.events, EPOLLIN);
		turns[e.data.u64 == 0x100000000 + (uint64_t)p->fd[1]]++;
	}
	CHECK(turns[0] >= TURNS / 2);
	CHECK(turns[1] >= TURNS / 2);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
	CHECK_EQ(close(pipes[0]), 0);
	CHECK_EQ(close(pipes[1]), 0);
	expect_none();
	CHECK_EQ(rclose(ep), 0);
	ep = others;
}

static struct rspair *arriving;
static struct {
	pthread_mutex_t *gate, *lock;	/* of the epoll: of its queue, and of all else */
	bool looked;			/* at the rsocket, which has a lock, too */
} seen;

/* As another thread could, between two looks into the queue. */
static void take_off_connection(pthread_mutex_t *m)
{
	char two[2];

	if (!seen.gate)
		seen.gate = m;
	if (m != seen.gate && !seen.lock)
		seen.lock = m;
	seen.looked |= m != seen.gate && m != seen.lock;
	if (m != seen.gate || !seen.looked)
		return;
	at_lock = NULL;
	CHECK_EQ(rsend(arriving->fd[0], "bcd", 3, 0), 3);
	CHECK_EQ(rrecv(arriving->fd[1], two, 2, MSG_WAITALL), 2);
}

static void watch_gate(void)
{
	after_epoll = NULL;
	at_lock = take_off_connection;
}

/* As the system, a call reports a descriptor once, though more arrives meanwhile. */
static void reports_once(struct rspair *p, uint32_t how)
{
	char buf[4];

	control(EPOLL_CTL_MOD, p->fd[1], EPOLLIN | how);
	CHECK_EQ(rsend(p->fd[0], "a", 1, 0), 1);
	CHECK_EQ(rspair_poll(p->fd[1], POLLIN, WAIT_MS), POLLIN);
	arriving = p;
	memset(&seen, 0, sizeof(seen));
	after_epoll = watch_gate;
	expect(p->fd[1], EPOLLIN);
	CHECK(!at_lock);
	expect(p->fd[1], EPOLLIN);
	CHECK_EQ(rrecv(p->fd[1], buf, 2, MSG_WAITALL), 2);
	expect_none();
	control(EPOLL_CTL_MOD, p->fd[1], EPOLLIN);
}

/* As the system, the end of a connection is reported without being asked for; and an error. */
static void ends_unasked(bool modified)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char c;

	control(EPOLL_CTL_ADD, p.fd[1], modified ? EPOLLOUT : 0);
	if (modified)
		control(EPOLL_CTL_MOD, p.fd[1], 0);
	CHECK_EQ(rsend(p.fd[0], "x", 1, 0), 1);
	CHECK_EQ(rspair_poll(p.fd[1], POLLIN, WAIT_MS), POLLIN);
	expect_none();
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	CHECK_EQ(rclose(p.fd[0]), 0);
	expect(p.fd[1], EPOLLHUP);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
	expect_none();
}

static void fails_unasked(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, PORT_FREE);
	int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), -1);
	CHECK_EQ(rspair_poll(fd, 0, WAIT_MS), POLLERR);
	control(EPOLL_CTL_ADD, fd, 0);
	expect(fd, EPOLLERR);
	CHECK_EQ(rclose(fd), 0);
}

static void listeners(void)
{
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), fd = rsocket(AF_INET, SOCK_STREAM, 0), peer;

	control(EPOLL_CTL_ADD, listener, EPOLLIN);
	expect_none();
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	expect(listener, EPOLLIN);
	peer = raccept(listener, NULL, NULL);
	CHECK(peer >= 0);
	expect_none();
	CHECK_EQ(rclose(listener), 0);
	CHECK_EQ(rclose(fd), 0);
	control(EPOLL_CTL_ADD, peer, EPOLLIN | EPOLLRDHUP);
	expect(peer, EPOLLIN | EPOLLHUP | EPOLLRDHUP);
	CHECK_EQ(rclose(peer), 0);
	expect_none();
}

/* A socket that listens only after the epoll has looked at it. */
static void listens_later(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 0);
	int listener = rsocket(AF_INET, SOCK_STREAM, 0), fd = rsocket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(a);

	CHECK_EQ(rbind(listener, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	CHECK_EQ(rgetsockname(listener, (struct sockaddr *)&a, &len), 0);
	control(EPOLL_CTL_ADD, listener, EPOLLIN);
	expect_none();
	CHECK_EQ(rlisten(listener, 1), 0);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	expect(listener, EPOLLIN);
	CHECK_EQ(rclose(listener), 0);
	CHECK_EQ(rclose(fd), 0);
}

/*
 * The end of the peer's data is reported together with the data, as TCP does: an edge-triggered
 * program that reads only the data gets no other event.
 */
static void ends_with_data(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char buf[4];

	control(EPOLL_CTL_ADD, p.fd[1], EPOLLIN | EPOLLRDHUP | EPOLLET);
	CHECK_EQ(rspair_poll(p.fd[1], POLLRDHUP, 0), 0);
	CHECK_EQ(rsend(p.fd[0], "ab", 2, 0), 2);
	CHECK_EQ(rshutdown(p.fd[0], SHUT_WR), 0);
	CHECK_EQ(rspair_poll(p.fd[1], POLLRDHUP, WAIT_MS), POLLRDHUP);
	CHECK_EQ(rspair_poll(p.fd[1], POLLIN, 0), POLLIN);
	expect(p.fd[1], EPOLLIN | EPOLLRDHUP);
	CHECK_EQ(rrecv(p.fd[1], buf, sizeof(buf), 0), 2);
	CHECK_EQ(rclose(p.fd[0]), 0);
	CHECK_EQ(rspair_poll(p.fd[1], 0, WAIT_MS), POLLHUP);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);

	p = rspair_make(LOOPBACK, 0);
	control(EPOLL_CTL_ADD, p.fd[1], EPOLLIN | EPOLLRDHUP | EPOLLET);
	CHECK_EQ(rsend(p.fd[0], "ab", 2, 0), 2);
	CHECK_EQ(rclose(p.fd[0]), 0);
	CHECK_EQ(rspair_poll(p.fd[1], POLLRDHUP, WAIT_MS), POLLRDHUP);
	expect(p.fd[1], EPOLLIN | EPOLLRDHUP);
	CHECK_EQ(rrecv(p.fd[1], buf, sizeof(buf), 0), 2);
	CHECK_EQ(rrecv(p.fd[1], buf, sizeof(buf), 0), 0);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

int main(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);

	ep = repoll_create(EPOLL_CLOEXEC);
	CHECK(ep >= 0);
	CHECK_FAILS(repoll_wait(p.fd[0], &(struct epoll_event){ 0 }, 1, 0), EBADF);
	levels(&p);
	both_ways(&p);
	edges(&p);
	control(EPOLL_CTL_MOD, p.fd[1], 0);
	edges_while_sending();
	control(EPOLL_CTL_MOD, p.fd[1], EPOLLIN);
	polled_itself(&p);
	asleep(&p);
	both_ready(&p);
	reports_once(&p, 0);
	reports_once(&p, EPOLLET);
	rspair_close(&p);
	ends_unasked(false);
	ends_unasked(true);
	fails_unasked();
	listeners();
	listens_later();
	ends_with_data();
	CHECK_EQ(rclose(ep), 0);
	return 0;
}
