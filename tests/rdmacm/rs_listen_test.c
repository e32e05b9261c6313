/* SPDX-License-Identifier: BSD-2-Clause */
/* The backlog of stream rsockets. */
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rspair.h"
#include "util/atomic.h"

enum { LIMIT_S = 30 };

static int full_for = -1;	/* a descriptor that no epoll instance takes any more */

__attribute__((visibility("default"))) int epoll_ctl(int epfd, int op, int fd,
						     struct epoll_event *e)
{
	static int (*real)(int, int, int, struct epoll_event *);

	if (!load_relaxed(&real))
		store_relaxed(&real, (__typeof__(real))dlsym(RTLD_NEXT, "epoll_ctl"));
	if (op == EPOLL_CTL_ADD && fd == load_relaxed(&full_for)) {
		errno = ENOSPC;
		return -1;
	}
	return load_relaxed(&real)(epfd, op, fd, e);
}

/* A connect completes before accept is called, as with TCP. limit 0: the default backlog. */
static void backlog(int limit)
{
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), fd[3], peer;

	CHECK_EQ(rlisten(listener, limit), 0);

	for (int i = 0; i < 3; i++) {
		fd[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK_EQ(rconnect(fd[i], (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
		CHECK_EQ(rsend(fd[i], &i, sizeof(i), 0), sizeof(i));
	}
	for (int i = 0; i < 3; i++) {
		int got;

		peer = raccept(listener, NULL, NULL);
		CHECK_EQ(rrecv(peer, &got, sizeof(got), MSG_WAITALL), sizeof(got));
		CHECK_EQ(got, i);
		CHECK_EQ(rclose(peer), 0);
		CHECK_EQ(rrecv(fd[i], &got, 1, 0), 0);
		CHECK_EQ(rclose(fd[i]), 0);
	}
	CHECK_EQ(rclose(listener), 0);
}

/*
 * A client that gives up before its connection is established leaves its place in the backlog to
 * others. It is a plain id without a QP, so nobody confirms the connection for it.
 */
static void backlog_of_one(void)
{
	/* A version, credits, and a list of one entry at an address that nobody uses. */
	uint8_t data[40] = { 1, 0, 0, 8, [8 + 15] = 1 };
	struct rdma_conn_param param = {
		.private_data = data, .private_data_len = sizeof(data), .qp_num = 5,
		.initiator_depth = 1, .responder_resources = 1,
	};
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), fd, peer;

	CHECK_EQ(rlisten(listener, 1), 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(rdma_connect(id, &param), 0);
	world_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);

	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	peer = raccept(listener, NULL, NULL);
	CHECK(peer >= 0);
	rclose(peer);
	rclose(fd);
	rclose(listener);
}

/* A listener whose backlog was full goes on, though the system takes no more descriptors. */
static void backlog_without_epoll(void)
{
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), fd, peer;

	CHECK_EQ(rlisten(listener, 1), 0);
	for (int i = 0; i < 2; i++) {
		fd = rsocket(AF_INET, SOCK_STREAM, 0);
		alarm(LIMIT_S);
		CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
		store_relaxed(&full_for, listener);
		peer = raccept(listener, NULL, NULL);
		CHECK(peer >= 0);
		alarm(0);
		CHECK_EQ(rclose(peer), 0);
		CHECK_EQ(rclose(fd), 0);
	}
	CHECK_EQ(rclose(listener), 0);
	store_relaxed(&full_for, -1);
}

int main(void)
{
	backlog(8);
	backlog(0);
	backlog_of_one();
	backlog_without_epoll();
	return 0;
}
