/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream rsockets: connecting, bytes in both directions, waiting, shutdown, and errors of calls in
 * wrong states. Both ends are in one process.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rspair.h"

enum {
	MANY = 3000000, /* bytes: the rings wrap many times */
	ROUNDS = 40,
	PORT_FREE = 9,  /* no program listens on port discard */
	HIGH_FD = 3000,     /* a descriptor beyond FD_SETSIZE */
	FEW_FDS = 60,
};

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 10));
}

/* ---- Bytes ---- */

static void echo(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char got[32] = "";

	CHECK_EQ(rsend(p.fd[0], "hello", 5, 0), 5);
	CHECK_EQ(rrecv(p.fd[1], got, sizeof(got), MSG_PEEK), 5);
	CHECK_EQ(rrecv(p.fd[1], got, 2, 0), 2);
	CHECK_EQ(rrecv(p.fd[1], got + 2, sizeof(got) - 2, 0), 3);
	CHECK_MEM(got, "hello", 5);
	CHECK_EQ(rwrite(p.fd[1], "x", 1), 1);
	CHECK_EQ(rread(p.fd[0], got, sizeof(got)), 1);
	rspair_close(&p);
}

static uint8_t bytes[MANY];	/* read by all senders; filled before they start */

static void *send_many(void *arg)
{
	int fd = *(int *)arg;

	CHECK_EQ(rsend(fd, bytes, MANY, 0), MANY);
	CHECK_EQ(rshutdown(fd, SHUT_WR), 0);
	return NULL;
}

/* Receives bytes in chunks of many sizes until the end. */
static void recv_many(int fd)
{
	uint8_t in[70000];
	size_t at = 0, ask = 1;
	ssize_t n;

	while ((n = rrecv(fd, in, ask, 0)) > 0) {
		for (ssize_t i = 0; i < n; i++, at++)
			CHECK_EQ(in[i], byte_at(at));
		ask = ask * 3 % sizeof(in) + 1;
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(at, MANY);
}

static void many_bytes(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, send_many, &p.fd[0]), 0);
	recv_many(p.fd[1]);
	pthread_join(thread, NULL);
	/* the other direction still works */
	CHECK_EQ(rsend(p.fd[1], "ok", 2, 0), 2);
	CHECK_EQ(rrecv(p.fd[0], (char[2]){ 0 }, 2, MSG_WAITALL), 2);
	rspair_close(&p);
}

/* Both directions at once, with a thread for each. */
static void *recv_thread(void *arg)
{
	recv_many(*(int *)arg);
	return NULL;
}

static void both_ways(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	pthread_t sender[2], receiver[2];

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_create(&receiver[i], NULL, recv_thread, &p.fd[i]), 0);
		CHECK_EQ(pthread_create(&sender[i], NULL, send_many, &p.fd[i]), 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(sender[i], NULL);
		pthread_join(receiver[i], NULL);
	}
	rspair_close(&p);
}

static void vectors(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char a[4], b[4], from[] = "abcdefgh";
	struct iovec out[3] = { { from, 3 }, { from + 3, 0 }, { from + 3, 5 } };
	struct iovec in[2] = { { a, 4 }, { b, 4 } };
	struct msghdr msg = { .msg_iov = in, .msg_iovlen = 2 };

	CHECK_EQ(rwritev(p.fd[0], out, 3), 8);
	CHECK_EQ(rrecvmsg(p.fd[1], &msg, MSG_WAITALL), 8);
	CHECK_MEM(a, "abcd", 4);
	CHECK_MEM(b, "efgh", 4);
	msg.msg_iov = out;
	msg.msg_iovlen = 3;
	CHECK_EQ(rsendmsg(p.fd[1], &msg, 0), 8);
	CHECK_EQ(rreadv(p.fd[0], in, 2), 8);
	msg.msg_control = from;
	msg.msg_controllen = sizeof(from);
	CHECK_FAILS(rsendmsg(p.fd[1], &msg, 0), ENOTSUP);
	rspair_close(&p);
}

/* ---- Work requests of a transfer ---- */

static struct {
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	unsigned int requests, askew;
} posted;

static int count_posts(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (const struct ibv_send_wr *w = wr; w; w = w->next) {
		posted.requests++;
		if (w->num_sge && w->sg_list[0].length > 64) /* neither inline data nor a grant */
			posted.askew += (w->sg_list[0].addr - w->wr.rdma.remote_addr) % 64 != 0;
	}
	return posted.post_send(qp, wr, bad);
}

static void watch_posts(bool on)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	for (int i = 0; list[i]; i++) {
		if (on)
			posted.post_send = list[i]->ops.post_send;
		list[i]->ops.post_send = on ? count_posts : posted.post_send;
	}
	rdma_free_devices(list);
}

/*
 * One message and one grant for each half of the ring. Data has the same alignment in the ring as
 * at its destination whatever was sent before, which makes copies between processes fast.
 */
static void transfer_cost(void)
{
	enum { PIECE = 65536, PIECES = 16 };
	static uint8_t data[PIECE];
	struct rspair p = rspair_make(LOOPBACK, 0);

	watch_posts(true);
	for (int i = 0; i < PIECES; i++) {
		CHECK_EQ(rsend(p.fd[0], data, PIECE, 0), PIECE);
		CHECK_EQ(rrecv(p.fd[1], data, PIECE, MSG_WAITALL), PIECE);
	}
	printf("%u requests per MiB\n", posted.requests);
	CHECK(posted.requests <= 2 * PIECES);
	CHECK_EQ(rsend(p.fd[0], data, 16, 0), 16); /* sent inline */
	CHECK_EQ(rrecv(p.fd[1], data, 16, MSG_WAITALL), 16);
	for (int i = 0; i < PIECES; i++) {
		CHECK_EQ(rsend(p.fd[0], data, 3000 + i, 0), 3000 + i);
		CHECK_EQ(rrecv(p.fd[1], data, 3000 + i, MSG_WAITALL), 3000 + i);
	}
	CHECK_EQ(posted.askew, 0);
	watch_posts(false);
	rspair_close(&p);
}

/* ---- Nonblocking calls ---- */

static __thread unsigned int reads;

/* Also counts the calls that the libraries make in this thread. */
__attribute__((visibility("default"))) ssize_t read(int fd, void *buf, size_t n)
{
	reads++;
	return syscall(SYS_read, fd, buf, n);
}

/* Polling with MSG_DONTWAIT does not read the event channel each time. */
static void polling_cost(void)
{
	enum { CALLS = 1000 };
	struct rspair p = rspair_make(LOOPBACK, 0);
	char c;

	reads = 0;
	for (int i = 0; i < CALLS; i++)
		CHECK_FAILS(rrecv(p.fd[0], &c, 1, MSG_DONTWAIT), EAGAIN);
	printf("%u reads in %d calls\n", reads, CALLS);
	CHECK_EQ(reads, 0);
	rspair_close(&p);
}

static void nonblocking(void)
{
	static uint8_t data[100000];
	struct rspair p = rspair_make(LOOPBACK, 0);
	size_t sent = 0, got = 0;
	ssize_t n;

	CHECK_EQ(rfcntl(p.fd[0], F_SETFL, O_NONBLOCK), 0);
	CHECK(rfcntl(p.fd[0], F_GETFL) & O_NONBLOCK);
	CHECK_FAILS(rrecv(p.fd[0], data, 1, 0), EAGAIN);
	CHECK_FAILS(rrecv(p.fd[1], data, 1, MSG_DONTWAIT), EAGAIN);
	/* Until the rings of both ends are full. */
	while ((n = rsend(p.fd[0], data, sizeof(data), 0)) > 0)
		sent += (size_t)n;
	CHECK_EQ(errno, EAGAIN);
	CHECK(sent >= 65536);
	while (got < sent) {
		n = rrecv(p.fd[1], data, sizeof(data), 0);
		CHECK(n > 0);
		got += (size_t)n;
	}
	CHECK_EQ(got, sent);
	CHECK_EQ(rspair_poll(p.fd[0], POLLOUT, WORLD_LIMIT_S * 1000), POLLOUT);
	CHECK(rsend(p.fd[0], data, sizeof(data), 0) > 0);
	rspair_close(&p);
}

/* Polls for both until one of these has been reported, too. */
static void poll_both_for(int fd, short wanted)
{
	struct timespec begin, now;

	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &begin), 0);
	while (!(rspair_poll(fd, POLLIN | POLLOUT, WORLD_LIMIT_S * 1000) & wanted)) {
		CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
		CHECK(now.tv_sec - begin.tv_sec < WORLD_LIMIT_S);
	}
}

/* A program that only polls learns what arrives, though it could write all the time. */
static void readable_while_writable(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char c;

	CHECK_EQ(rspair_poll(p.fd[1], POLLIN | POLLOUT, WORLD_LIMIT_S * 1000), POLLOUT);
	CHECK_EQ(rsend(p.fd[0], "a", 1, 0), 1);
	poll_both_for(p.fd[1], POLLIN);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, MSG_DONTWAIT), 1);
	CHECK_EQ(rclose(p.fd[0]), 0);
	poll_both_for(p.fd[1], POLLHUP);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

static void connect_later(void)
{
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a),
	    fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int peer, err = -1;
	socklen_t len = sizeof(err);

	CHECK_EQ(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	CHECK_FAILS(raccept(listener, NULL, NULL), EAGAIN);
	if (rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)))
		CHECK_EQ(errno, EINPROGRESS);
	CHECK_EQ(rspair_poll(fd, POLLOUT, WORLD_LIMIT_S * 1000), POLLOUT);
	CHECK_EQ(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	CHECK_EQ(err, 0);
	CHECK_EQ(rspair_poll(listener, POLLIN, WORLD_LIMIT_S * 1000), POLLIN);
	peer = raccept(listener, NULL, NULL);
	CHECK(peer >= 0);
	CHECK_EQ(rsend(fd, "x", 1, 0), 1);
	CHECK_EQ(rspair_poll(peer, POLLIN, WORLD_LIMIT_S * 1000), POLLIN);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(peer), 0);
	CHECK_EQ(rclose(listener), 0);
}

static void refused(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, PORT_FREE);
	int fd = rsocket(AF_INET, SOCK_STREAM, IPPROTO_TCP), err = 0;
	socklen_t len = sizeof(err);

	CHECK_FAILS(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), ECONNREFUSED);
	CHECK_FAILS(rsend(fd, "x", 1, 0), ECONNREFUSED);
	CHECK_EQ(rclose(fd), 0);
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), -1);
	/* the reply may have arrived before the call returns */
	if (errno != ECONNREFUSED) {
		CHECK_EQ(errno, EINPROGRESS);
		CHECK(rspair_poll(fd, POLLOUT, WORLD_LIMIT_S * 1000) & POLLERR);
		CHECK_EQ(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
		CHECK_EQ(err, ECONNREFUSED);
	}
	CHECK_EQ(rclose(fd), 0);
}

/* Some programs connect once more, to learn how the first attempt has ended. */
static void refused_when_asked_again(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, PORT_FREE);
	int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), -1);
	if (errno != ECONNREFUSED) {
		CHECK(rspair_poll(fd, POLLOUT, WORLD_LIMIT_S * 1000) & POLLERR);
		CHECK_FAILS(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)),
			    ECONNREFUSED);
	}
	CHECK_FAILS(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), EINVAL);
	CHECK_EQ(rclose(fd), 0);
}

/* rsendmsg() ignores an address; what is asked for apart from the data does not exist. */
static void messages(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct sockaddr_storage a = world_addr(LOOPBACK, PORT_FREE);
	char data[] = "m", c;
	struct iovec iov = { data, 1 };
	struct msghdr msg = {
		.msg_name = &a,
		.msg_namelen = sizeof(struct sockaddr_in),
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};

	CHECK_FAILS(rsend(p.fd[0], "!", 1, MSG_OOB), EOPNOTSUPP);
	CHECK_FAILS(rsendmsg(p.fd[0], &msg, MSG_OOB), EOPNOTSUPP);
	CHECK_EQ(rsendmsg(p.fd[0], &msg, 0), 1);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, MSG_PEEK), 1);
	CHECK_FAILS(rrecv(p.fd[1], &c, 1, MSG_ERRQUEUE), EAGAIN);
	CHECK_FAILS(rrecv(p.fd[1], &c, 1, MSG_OOB), EINVAL);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	CHECK_EQ(c, 'm');
	/* As TCP, it drops what it need not copy. */
	CHECK_EQ(rsend(p.fd[0], "drop", 4, 0), 4);
	CHECK_EQ(rrecv(p.fd[1], NULL, 3, MSG_TRUNC | MSG_WAITALL), 3);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	CHECK_EQ(c, 'p');
	rspair_close(&p);
}

/* ---- End of the connection ---- */

static void shut_down(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char c;

	CHECK_EQ(rsend(p.fd[0], "ab", 2, 0), 2);
	CHECK_EQ(rclose(p.fd[0]), 0);
	/* Sent data can still be read, then comes the end of the stream; writing fails. */
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	CHECK_EQ(c, 'b');
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 0);
	CHECK_EQ(rspair_poll(p.fd[1], POLLIN, 0), POLLIN | POLLHUP);
	CHECK_FAILS(rsend(p.fd[1], "x", 1, 0), ECONNRESET);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(rclose(p.fd[1]), EBADF);
	CHECK_FAILS(rrecv(p.fd[1], &c, 1, 0), EBADF);
	CHECK_EQ(rclose(p.listener), 0);
}

/* The peer's message is found by the second poll of rshutdown(), which waits for it. */
static struct {
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	pthread_t thread;
	int looks;
} late;

/* Another thread ends rsockets that were closed before. */
static int poll_late(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got;

	if (!pthread_equal(pthread_self(), late.thread))
		return late.poll_cq(cq, n, wc);
	if (late.looks++ == 0)
		return 0;
	do
		got = late.poll_cq(cq, n, wc);
	while (late.looks == 2 && !got);
	return got;
}

static void both_shut_down_at_once(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct ibv_context **list = rdma_get_devices(NULL);

	CHECK_EQ(rshutdown(p.fd[1], SHUT_WR), 0);
	late.thread = pthread_self();
	for (int i = 0; list[i]; i++) {
		late.poll_cq = list[i]->ops.poll_cq;
		list[i]->ops.poll_cq = poll_late;
	}
	CHECK_EQ(rshutdown(p.fd[0], SHUT_WR), 0);
	for (int i = 0; list[i]; i++)
		list[i]->ops.poll_cq = late.poll_cq;
	rdma_free_devices(list);
	CHECK(late.looks >= 2);
	CHECK(rspair_poll(p.fd[0], POLLIN, 0) & POLLIN);
	CHECK_EQ(rrecv(p.fd[0], (char[1]){ 0 }, 1, 0), 0);
	CHECK_EQ(rrecv(p.fd[1], (char[1]){ 0 }, 1, 0), 0);
	rspair_close(&p);
}

static void *close_later(void *arg)
{
	CHECK_EQ(rclose(*(int *)arg), 0);
	return NULL;
}

/*
 * Both ends close at once with messages in flight: neither waits for a reply of the other, which
 * would take ten seconds. The machine may pause once for as long.
 */
static void both_end(void)
{
	unsigned int slow = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct rspair p = rspair_make(LOOPBACK, 0);
		time_t start = time(NULL);
		pthread_t thread;

		for (int j = 0; j < 2; j++)
			CHECK_EQ(rsend(p.fd[j], "x", 1, 0), 1);
		CHECK_EQ(pthread_create(&thread, NULL, close_later, &p.fd[0]), 0);
		CHECK_EQ(rclose(p.fd[1]), 0);
		pthread_join(thread, NULL);
		CHECK_EQ(rclose(p.listener), 0);
		slow += time(NULL) - start >= 9;
	}
	CHECK(slow < 2);
}

static void *poll_long(void *arg)
{
	return (void *)(intptr_t)rspair_poll(*(int *)arg, POLLIN, -1);
}

/* rpoll() returns when another thread closes the rsocket that it waits for. */
static void closed_under_poll(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	pthread_t thread;
	void *revents;

	CHECK_EQ(pthread_create(&thread, NULL, poll_long, &p.fd[1]), 0);
	usleep(50000);
	CHECK_EQ(rclose(p.fd[1]), 0);
	CHECK_EQ(pthread_join(thread, &revents), 0);
	CHECK_EQ((intptr_t)revents & POLLNVAL, POLLNVAL);
	CHECK_EQ(rclose(p.fd[0]), 0);
	CHECK_EQ(rclose(p.listener), 0);
}

/* Descriptors beyond FD_SETSIZE, in sets that are large enough. */
static void select_beyond_fd_setsize(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	fd_set set[HIGH_FD / FD_SETSIZE + 1] = { 0 };
	fd_mask *word = (fd_mask *)set + HIGH_FD / NFDBITS, far = 1UL << HIGH_FD % NFDBITS;
	struct timeval t = { .tv_sec = -1 };
	struct rlimit most = { HIGH_FD + 1, HIGH_FD + 1 };
	int pipes[2];

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &most), 0);
	CHECK_EQ(pipe(pipes), 0);
	CHECK_EQ(dup2(pipes[0], HIGH_FD), HIGH_FD);
	FD_SET(p.fd[0], set);
	*word |= far;
	CHECK_FAILS(rselect(HIGH_FD + 1, set, NULL, NULL, &t), EINVAL);
	CHECK_FAILS(rselect(-1, set, NULL, NULL, NULL), EINVAL);
	CHECK_EQ(write(pipes[1], "x", 1), 1);
	CHECK_EQ(rselect(HIGH_FD + 1, set, NULL, NULL, NULL), 1);
	CHECK_EQ(*word, far);
	CHECK(!FD_ISSET(p.fd[0], set));
	FD_SET(p.fd[0], set);
	CHECK_EQ(close(HIGH_FD), 0);
	CHECK_FAILS(rselect(HIGH_FD + 1, set, NULL, NULL, NULL), EBADF);
	*word = 0;
	t = (struct timeval){ 0 };
	CHECK_EQ(rselect(FD_SETSIZE, set, NULL, NULL, &t), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(close(pipes[i]), 0);
	rspair_close(&p);
}

static void wrong_states(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_storage a = world_addr(LOOPBACK, 0), b;
	socklen_t len = sizeof(b);

	CHECK_FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	CHECK_FAILS(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
	CHECK_FAILS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	CHECK_FAILS(rsend(fd, "x", 1, 0), ENOTCONN);
	CHECK_FAILS(rrecv(fd, &len, 1, 0), ENOTCONN);
	CHECK_FAILS(rshutdown(fd, SHUT_WR), ENOTCONN);
	CHECK_FAILS(rgetpeername(fd, (struct sockaddr *)&b, &len), ENOTCONN);
	CHECK_FAILS(raccept(fd, NULL, NULL), EINVAL);
	CHECK_FAILS(rbind(fd, (struct sockaddr *)&a, 4), EINVAL);
	CHECK_EQ(rbind(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	CHECK_FAILS(rbind(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), EINVAL);
	CHECK_EQ(rgetsockname(fd, (struct sockaddr *)&b, &len), 0);
	CHECK_EQ(len, sizeof(struct sockaddr_in));
	CHECK(((struct sockaddr_in *)&b)->sin_port != 0);
	CHECK_EQ(rclose(fd), 0);
	CHECK_FAILS(rsend(0, "x", 1, 0), EBADF);
}

/* A listener connects to nobody, and listens on. */
static void connecting_listener(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), peer;

	CHECK_EQ(rgetsockname(p.listener, (struct sockaddr *)&a, &len), 0);
	CHECK_FAILS(rconnect(p.listener, (struct sockaddr *)&a, len), EISCONN);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, len), 0);
	peer = raccept(p.listener, NULL, NULL);
	CHECK(peer >= 0);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(peer), 0);
	rspair_close(&p);
}

static void names(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct sockaddr_in a[2], b[2];
	socklen_t len = sizeof(a[0]);

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rgetsockname(p.fd[i], (struct sockaddr *)&a[i], &len), 0);
		CHECK_EQ(rgetpeername(p.fd[i], (struct sockaddr *)&b[i], &len), 0);
	}
	CHECK_EQ(a[0].sin_port, b[1].sin_port);
	CHECK_EQ(a[1].sin_port, b[0].sin_port);
	CHECK_EQ(a[0].sin_addr.s_addr, b[1].sin_addr.s_addr);
	rspair_close(&p);
}

static void *send_more(void *arg)
{
	CHECK_EQ(rsend(*(int *)arg, "cd", 2, 0), 2);
	return NULL;
}

/* As TCP does, MSG_PEEK and MSG_WAITALL wait for all bytes, but not for more than there can be. */
static void peek_at_all(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	static uint8_t many[MANY];
	pthread_t thread;
	char got[4];
	ssize_t n;

	CHECK_EQ(rsend(p.fd[0], "ab", 2, 0), 2);
	CHECK_EQ(rrecv(p.fd[1], got, 2, MSG_PEEK), 2);
	CHECK_FAILS(rrecv(p.fd[0], got, 1, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(rrecv(p.fd[1], got, 4, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT), 2);
	CHECK_EQ(pthread_create(&thread, NULL, send_more, &p.fd[0]), 0);
	CHECK_EQ(rrecv(p.fd[1], got, 4, MSG_PEEK | MSG_WAITALL), 4);
	CHECK_MEM(got, "abcd", 4);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rrecv(p.fd[1], got, 4, 0), 4);
	CHECK_EQ(pthread_create(&thread, NULL, send_many, &p.fd[0]), 0);
	n = rrecv(p.fd[1], many, sizeof(many), MSG_PEEK | MSG_WAITALL);
	CHECK(n >= 65536 && n < MANY);
	CHECK_MEM(many, bytes, n);
	CHECK_EQ(rrecv(p.fd[1], many, sizeof(many), MSG_WAITALL), MANY);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rshutdown(p.fd[0], SHUT_WR), 0);
	CHECK_EQ(rrecv(p.fd[1], many, 1, MSG_PEEK | MSG_WAITALL), 0);
	rspair_close(&p);
}

static struct sockaddr_in6 mapped_loopback(in_port_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = port };

	CHECK_EQ(inet_pton(AF_INET6, "::ffff:" LOOPBACK, &a.sin6_addr), 1);
	return a;
}

typedef int (*name_fn)(int fd, struct sockaddr *addr, socklen_t *len);

/* The address is a mapped one; returns its port. */
static in_port_t check_mapped(int fd, name_fn name)
{
	struct sockaddr_in6 got, wanted = mapped_loopback(0);
	socklen_t len = sizeof(got);

	CHECK_EQ(name(fd, (struct sockaddr *)&got, &len), 0);
	CHECK_EQ(len, sizeof(got));
	CHECK_EQ(got.sin6_family, AF_INET6);
	CHECK_MEM(&got.sin6_addr, &wanted.sin6_addr, sizeof(got.sin6_addr));
	return got.sin6_port;
}

/*
 * A socket of IPv6 connects to IPv4, as Java's do; bound: to no address, to :: or to a mapped one,
 * and any port, which stays.
 */
static void mapped_address(const struct sockaddr_in6 *bound)
{
	struct sockaddr_storage at;
	int listener = rspair_listen(LOOPBACK, &at), fd = rsocket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 to = mapped_loopback(((struct sockaddr_in *)&at)->sin_port), own;
	socklen_t len = sizeof(own);

	if (bound) {
		CHECK_EQ(rbind(fd, (struct sockaddr *)bound, sizeof(*bound)), 0);
		CHECK_EQ(rgetsockname(fd, (struct sockaddr *)&own, &len), 0);
	}
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	CHECK_EQ(check_mapped(fd, rgetpeername), to.sin6_port);
	len = check_mapped(fd, rgetsockname);
	CHECK(!bound || len == own.sin6_port);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(listener), 0);
}

/* One that listens for both tells where an IPv4 client is in its own family. */
static void mapped_client(void)
{
	struct sockaddr_storage at;
	int listener = rspair_listen("::", &at), fd = rsocket(AF_INET, SOCK_STREAM, 0), peer;
	struct sockaddr_storage to = world_addr(LOOPBACK, 0);
	struct sockaddr_in6 from;
	socklen_t len = sizeof(from);

	((struct sockaddr_in *)&to)->sin_port = ((struct sockaddr_in6 *)&at)->sin6_port;
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&to, sizeof(struct sockaddr_in)), 0);
	peer = raccept(listener, (struct sockaddr *)&from, &len);
	CHECK(peer >= 0);
	CHECK_EQ(len, sizeof(from));
	CHECK_EQ(check_mapped(peer, rgetpeername), from.sin6_port);
	CHECK_EQ(check_mapped(peer, rgetsockname), ((struct sockaddr_in6 *)&at)->sin6_port);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(peer), 0);
	CHECK_EQ(rclose(listener), 0);
}

/* ---- Memory ---- */

/* How many files with rings this process maps. */
static int ring_files(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "verbena-rsocket") != NULL;
	fclose(f);
	return n;
}

/* How many descriptors from `least` on are of such files. */
static int ring_descriptors(int least, int end)
{
	char path[32], name[64];
	ssize_t len;
	int n = 0;

	for (int fd = least; fd < end; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, name, sizeof(name) - 1);
		name[len < 0 ? 0 : len] = 0;
		n += strstr(name, "verbena-rsocket") != NULL;
	}
	return n;
}

/*
 * The rings lie in a file, unless its descriptor is in the upper half of those that the program may
 * have.  The lower half is taken here; a thread may still close some of an earlier rsocket, and
 * then those are used.
 */
static void few_descriptors(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	int held[FEW_FDS + 1], n = 0, files;
	struct rlimit many, few;

	CHECK(ring_files() >= 2);
	rspair_close(&p);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &many), 0);
	do {
		held[n] = dup(1);
		CHECK(held[n] >= 0);
	} while (held[n++] < FEW_FDS);
	few = (struct rlimit){ 2 * FEW_FDS, many.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	files = ring_descriptors(FEW_FDS, 2 * FEW_FDS);
	p = rspair_make(LOOPBACK, 0);
	CHECK(ring_descriptors(FEW_FDS, 2 * FEW_FDS) <= files);
	rspair_close(&p);
	many_bytes();
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &many), 0);
	while (n)
		close(held[--n]);
}

int main(void)
{
	struct sockaddr_in6 mapped;

	for (size_t i = 0; i < MANY; i++)
		bytes[i] = byte_at(i);
	echo();
	many_bytes();
	both_ways();
	vectors();
	transfer_cost();
	polling_cost();
	nonblocking();
	readable_while_writable();
	connect_later();
	refused();
	refused_when_asked_again();
	messages();
	peek_at_all();
	closed_under_poll();
	shut_down();
	both_shut_down_at_once();
	both_end();
	select_beyond_fd_setsize();
	wrong_states();
	connecting_listener();
	names();
	mapped_address(NULL);
	mapped_address(&(struct sockaddr_in6){ .sin6_family = AF_INET6 });
	mapped = mapped_loopback(0);
	mapped_address(&mapped);
	mapped_client();
	few_descriptors();
	return 0;
}
