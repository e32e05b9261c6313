/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets: sent to an address and connected; sizes, names, error precedence, forged
 * datagrams.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../unit/place.h"
#include "rspair.h"

enum {
	MANY = 100,
	WAIT_MS = WORLD_LIMIT_S * 1000,
};

static int bound_to(const char *address, struct sockaddr_in *at)
{
	struct sockaddr_storage a = world_addr(address, 0);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(*at);

	CHECK(fd >= 0);
	CHECK_EQ(rbind(fd, (struct sockaddr *)&a, sizeof(*at)), 0);
	CHECK_EQ(rgetsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

static int bound(struct sockaddr_in *at)
{
	return bound_to(LOOPBACK, at);
}

/* The first datagram travels over UDP; after the reply the others travel between queue pairs. */
static void send_and_reply(const char *address, const char *other)
{
	struct sockaddr_in a, b, from;
	int fd[2] = { bound_to(address, &a), bound_to(other, &b) };
	socklen_t len;

	for (int i = 0; i < MANY; i++) {
		int got = -1;

		len = sizeof(from);
		CHECK_EQ(rsendto(fd[0], &i, sizeof(i), 0, (struct sockaddr *)&b, sizeof(b)),
			 sizeof(i));
		CHECK_EQ(rspair_poll(fd[1], POLLIN, WAIT_MS), POLLIN);
		CHECK_EQ(rrecvfrom(fd[1], &got, sizeof(got), 0, (struct sockaddr *)&from, &len),
			 sizeof(got));
		CHECK_EQ(got, i);
		CHECK_EQ(len, sizeof(from));
		CHECK_EQ(from.sin_port, a.sin_port);
		CHECK_EQ(from.sin_addr.s_addr, a.sin_addr.s_addr);
		CHECK_EQ(rsendto(fd[1], &i, sizeof(i), 0, (struct sockaddr *)&from, len),
			 sizeof(i));
		CHECK_EQ(rrecv(fd[0], &got, sizeof(got), 0), sizeof(got));
	}
	CHECK_FAILS(rrecv(fd[0], &len, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(rclose(fd[0]), 0);
	CHECK_EQ(rclose(fd[1]), 0);
}

static void connected(void)
{
	static char big[4096];
	struct sockaddr_in at;
	int server = bound(&at), fd = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP);
	struct iovec iov[2] = { { big, 3 }, { big, 5 } };

	CHECK_FAILS(rsend(fd, big, 1, 0), EDESTADDRREQ);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_FAILS(rsend(fd, big, sizeof(big), 0), EMSGSIZE);
	CHECK_EQ(rwritev(fd, iov, 2), 8);
	CHECK_EQ(rrecv(server, big, 4, MSG_TRUNC), 8);
	CHECK_EQ(rsend(fd, "", 0, 0), 0);
	CHECK_EQ(rrecv(server, big, sizeof(big), 0), 0);
	CHECK_EQ(rsend(fd, big, 1000, 0), 1000);
	CHECK_EQ(rrecv(server, big, 10, MSG_PEEK), 10);
	CHECK_EQ(rrecv(server, big, sizeof(big), 0), 1000);
	CHECK_FAILS(rlisten(fd, 1), EOPNOTSUPP);
	CHECK_FAILS(raccept(fd, NULL, NULL), EOPNOTSUPP);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(server), 0);
}

/* A connected socket receives from its peer only, though others know its queue pair. */
static void connected_to_one(void)
{
	struct sockaddr_in at, peer, other;
	int fd = bound(&at), from[2] = { bound(&peer), bound(&other) };
	char c;

	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(rsendto(from[i & 1], "a", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
		CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
	}
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&peer, sizeof(peer)), 0);
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(rsendto(from[1], "b", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
		CHECK_EQ(rsendto(from[0], "c", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
		CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
		CHECK_EQ(c, 'c');
	}
	CHECK_FAILS(rrecv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(rclose(from[0]), 0);
	CHECK_EQ(rclose(from[1]), 0);
	CHECK_EQ(rclose(fd), 0);
}

/* As with UDP, an address without family ends the association; the port stays. */
static void dissolved(void)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_in at, peer, other, from;
	int fd = bound(&at), first = bound(&peer), second = bound(&other);
	socklen_t len = sizeof(from);
	char c;

	CHECK_EQ(rconnect(fd, (struct sockaddr *)&peer, sizeof(peer)), 0);
	CHECK_EQ(rsend(fd, "a", 1, 0), 1);
	CHECK_EQ(rrecv(first, &c, 1, 0), 1);
	CHECK_EQ(rconnect(fd, &none, sizeof(none)), 0);
	CHECK_EQ(rgetsockname(fd, (struct sockaddr *)&from, &len), 0);
	CHECK_EQ(from.sin_port, at.sin_port);
	CHECK_FAILS(rgetpeername(fd, (struct sockaddr *)&from, &len), ENOTCONN);
	CHECK_FAILS(rsend(fd, "b", 1, 0), EDESTADDRREQ);
	CHECK_EQ(rsendto(second, "c", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
	CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
	CHECK_EQ(c, 'c');
	CHECK_EQ(rsendto(fd, "d", 1, 0, (struct sockaddr *)&other, sizeof(other)), 1);
	CHECK_EQ(rrecvfrom(second, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
	CHECK_EQ(from.sin_port, at.sin_port);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&other, sizeof(other)), 0);
	CHECK_EQ(rsend(fd, "e", 1, 0), 1);
	CHECK_EQ(rrecv(second, &c, 1, 0), 1);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(first), 0);
	CHECK_EQ(rclose(second), 0);
}

/* Another rsocket takes the peer's address: datagrams reach it after a while. */
static void peer_restarted(void)
{
	struct sockaddr_in at;
	int server = bound(&at), fd = rsocket(AF_INET, SOCK_DGRAM, 0), sent = 0;
	char c;

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(rsendto(fd, "a", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
		CHECK_EQ(rrecv(server, &c, 1, 0), 1);
	}
	CHECK_EQ(rclose(server), 0);
	server = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK_EQ(rbind(server, (struct sockaddr *)&at, sizeof(at)), 0);
	do {
		CHECK(sent++ < WORLD_LIMIT_S * 20);
		CHECK_EQ(rsendto(fd, "b", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
	} while (!rspair_poll(server, POLLIN, 50));
	CHECK_EQ(rrecv(server, &c, 1, 0), 1);
	CHECK_EQ(c, 'b');
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(server), 0);
}

static uint8_t gid_index(const struct rdma_cm_id *id)
{
	union ibv_gid gid;
	int i = 0;

	do
		CHECK_EQ(ibv_query_gid(id->verbs, id->port_num, i, &gid), 0);
	while (memcmp(&gid, &id->route.addr.addr.ibaddr.sgid, sizeof(gid)) && ++i);
	return (uint8_t)i;
}

/* Sends from a queue pair of our own on the loopback device. */
static void send_from_qp(struct rdma_cm_id *id, uint32_t qpn, uint8_t *data, size_t len)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = id->port_num,
		.grh = { .dgid = id->route.addr.addr.ibaddr.dgid,
			 .sgid_index = gid_index(id),
			 .hop_limit = 64 },
	};
	struct ibv_ah *ah = ibv_create_ah(id->pd, &attr);
	struct ibv_mr *mr = rdma_reg_msgs(id, data, len);
	struct ibv_wc wc;

	CHECK(ah && mr);
	CHECK_EQ(rdma_post_ud_send(id, NULL, data, len, mr, 0, ah, qpn), 0);
	CHECK_EQ(rdma_get_send_comp(id, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
}

/* Between queue pairs, too, the sender is who the packet says, not who its header says. */
static void forged_by_queue_pair(void)
{
	static const uint8_t hello[] = { 0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0,  0,
					 0,    0,    9,    127,  0, 0, 1,  'a' };
	uint8_t claims[] = { 4, 8, 0, 99, 10, 1, 1, 1, 'x' };
	uint8_t true_one[] = { 4, 8, 0, 99, 127, 0, 0, 1, 'y' };
	struct sockaddr_in at, from;
	int fd = bound(&at), udp = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage to = world_addr(LOOPBACK, 1);
	struct rdma_cm_id *id = world_id(NULL, RDMA_PS_UDP);
	socklen_t len = sizeof(from);
	uint32_t answer[4], qpn;
	char got[8];

	CHECK_EQ(sendto(udp, hello, sizeof(hello), 0, (struct sockaddr *)&at, sizeof(at)),
		 sizeof(hello));
	CHECK_EQ(rrecv(fd, got, sizeof(got), 0), 1);
	CHECK_EQ(recv(udp, answer, sizeof(answer), 0), sizeof(answer));
	qpn = ntohl(answer[2]) & 0xffffff;
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WORLD_TIMEOUT_MS), 0);
	world_qp(id);
	send_from_qp(id, qpn, claims, sizeof(claims));
	send_from_qp(id, qpn, true_one, sizeof(true_one));
	CHECK_EQ(rrecvfrom(fd, got, sizeof(got), 0, (struct sockaddr *)&from, &len), 1);
	CHECK_EQ(got[0], 'y');
	CHECK_EQ(ntohs(from.sin_port), 99);
	CHECK_FAILS(rrecv(fd, got, 1, MSG_DONTWAIT), EAGAIN);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	close(udp);
	CHECK_EQ(rclose(fd), 0);
}

/*
 * Datagrams without a valid header, or whose header names another address than their source, are
 * dropped.
 */
static void forged_datagrams(void)
{
	static const uint8_t claims[] = { 0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0,  0,
					  0,    0,    9,    10,   1, 1, 1,  'x' };
	static const uint8_t true_one[] = { 0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0,  0,
					    0,    0,    9,    127,  0, 0, 1,  'y' };
	struct sockaddr_in at;
	int fd = bound(&at), udp = socket(AF_INET, SOCK_DGRAM, 0);
	char got[8];

	CHECK_EQ(sendto(udp, "hello", 5, 0, (struct sockaddr *)&at, sizeof(at)), 5);
	for (size_t len = 0; len < 16; len++)
		CHECK_EQ(sendto(udp, true_one, len, 0, (struct sockaddr *)&at, sizeof(at)), len);
	CHECK_EQ(sendto(udp, claims, sizeof(claims), 0, (struct sockaddr *)&at, sizeof(at)),
		 sizeof(claims));
	CHECK_EQ(sendto(udp, true_one, sizeof(true_one), 0, (struct sockaddr *)&at, sizeof(at)),
		 sizeof(true_one));
	CHECK_EQ(rrecv(fd, got, sizeof(got), 0), 1);
	CHECK_EQ(got[0], 'y');
	CHECK_FAILS(rrecv(fd, got, 1, MSG_DONTWAIT), EAGAIN);
	close(udp);
	CHECK_EQ(rclose(fd), 0);
}

/* ---- Buffers and floods ---- */

enum {
	BURST = 150, /* datagrams */
	LARGE = 1000,
};

/* How many of a burst of datagrams arrive, with a receive buffer of some size; 0: the default. */
static int burst(int rcvbuf)
{
	static char data[LARGE];
	struct sockaddr_in a, b;
	int fd[2] = { bound(&a), bound(&b) }, got = -1, n = 0;
	socklen_t len = sizeof(got);

	if (rcvbuf) {
		CHECK_EQ(rsetsockopt(fd[1], SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf)), 0);
		CHECK_EQ(rgetsockopt(fd[1], SOL_SOCKET, SO_RCVBUF, &got, &len), 0);
		CHECK_EQ(got, 2 * rcvbuf);
	}
	/* Each learns the other's queue pair. */
	CHECK_EQ(rsendto(fd[0], data, 1, 0, (struct sockaddr *)&b, sizeof(b)), 1);
	CHECK_EQ(rrecv(fd[1], data, 1, 0), 1);
	CHECK_EQ(rsendto(fd[1], data, 1, 0, (struct sockaddr *)&a, sizeof(a)), 1);
	CHECK_EQ(rrecv(fd[0], data, 1, 0), 1);
	for (int i = 0; i < BURST; i++)
		CHECK_EQ(rsendto(fd[0], data, LARGE, 0, (struct sockaddr *)&b, sizeof(b)), LARGE);
	while (n < BURST && rspair_poll(fd[1], POLLIN, rcvbuf ? WAIT_MS : 0)) {
		CHECK_EQ(rrecv(fd[1], data, LARGE, 0), LARGE);
		n++;
	}
	CHECK_EQ(rclose(fd[0]), 0);
	CHECK_EQ(rclose(fd[1]), 0);
	return n;
}

static void receive_buffer(void)
{
	CHECK(burst(0) < BURST);
	CHECK_EQ(burst(1 << 20), BURST);
}

static int flooded = -1; /* the descriptor to which garbage comes without end */

/* The library calls it, too.  The headers' recvfrom() has a parameter of another type. */
__attribute__((visibility("default"))) ssize_t receive(int fd, void *buf, size_t n, int flags,
						       struct sockaddr *from, socklen_t *len)
	__asm__("recvfrom");

ssize_t receive(int fd, void *buf, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
	struct sockaddr_storage a;

	if (fd != flooded)
		return syscall(SYS_recvfrom, fd, buf, n, flags, from, len);
	a = world_addr(LOOPBACK, 1);
	memcpy(from, &a, sizeof(struct sockaddr_in));
	*len = sizeof(struct sockaddr_in);
	memset(buf, 0, 1);
	return 1;
}

static int (*poll_cq)(struct ibv_cq *cq, int most, struct ibv_wc *wc);
static const struct ibv_cq *busy;

/* Receives that failed come without end to the first CQ. */
static int poll_busy_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	if (!busy)
		busy = cq;
	if (cq != busy)
		return poll_cq(cq, most, wc);
	for (int i = 0; i < most; i++)
		wc[i] = (struct ibv_wc){ .wr_id = 1 << 16, .status = IBV_WC_GENERAL_ERR };
	return most;
}

static void make_busy(bool on)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	for (int i = 0; list[i]; i++) {
		if (on)
			poll_cq = list[i]->ops.poll_cq;
		list[i]->ops.poll_cq = on ? poll_busy_cq : poll_cq;
	}
	rdma_free_devices(list);
}

/* A flood of packets that are not for the program does not hold a call that may not wait. */
static void floods(void)
{
	struct sockaddr_in at;
	int fd = bound(&at);
	char c;

	flooded = fd;
	CHECK_FAILS(rrecv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(rspair_poll(fd, POLLIN, 0), 0);
	flooded = -1;
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	make_busy(true);
	CHECK_FAILS(rrecv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
	CHECK(busy);
	CHECK_EQ(rspair_poll(fd, POLLIN, 0), 0);
	make_busy(false);
	CHECK_EQ(rclose(fd), 0);
}

static void addresses_of_one_interface(void)
{
	CHECK_EQ(system("PATH=$PATH:/usr/sbin:/sbin; ip link add vrbt0 type veth peer name vrbt1 &&"
			" ip addr add 10.77.0.1/24 dev vrbt0 &&"
			" ip addr add 10.77.0.2/24 dev vrbt0 &&"
			" ip link set vrbt0 up && ip link set vrbt1 up"),
		 0);
	send_and_reply("10.77.0.2", "10.77.0.1");
	send_and_reply("10.77.0.1", "10.77.0.2");
}

int main(void)
{
	bool alone = place_enter_netns();

	if (alone)
		addresses_of_one_interface();
	send_and_reply(LOOPBACK, LOOPBACK);
	/* Not the address that the system's routes to the peer would choose. */
	send_and_reply("127.0.0.2", LOOPBACK);
	send_and_reply(LOOPBACK, "127.0.0.2");
	connected();
	connected_to_one();
	dissolved();
	peer_restarted();
	forged_datagrams();
	forged_by_queue_pair();
	receive_buffer();
	floods();
	return 0;
}
