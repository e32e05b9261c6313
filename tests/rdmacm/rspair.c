/* SPDX-License-Identifier: BSD-2-Clause */
/* See rspair.h. */
#include "rspair.h"

static socklen_t size_of(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

int rspair_listen(const char *address, struct sockaddr_storage *at)
{
	struct sockaddr_storage a = world_addr(address, 0);
	int fd = rsocket(a.ss_family, SOCK_STREAM, 0);
	socklen_t len = sizeof(*at);

	CHECK(fd >= 0);
	CHECK_EQ(rbind(fd, (struct sockaddr *)&a, size_of(&a)), 0);
	CHECK_EQ(rlisten(fd, 8), 0);
	CHECK_EQ(rgetsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

struct rspair rspair_make(const char *address, int iomap)
{
	struct sockaddr_storage a;
	struct rspair p = { .listener = rspair_listen(address, &a) };

	p.fd[0] = rsocket(a.ss_family, SOCK_STREAM, 0);
	CHECK(p.fd[0] >= 0);
	if (iomap) {
		CHECK_EQ(rsetsockopt(p.listener, SOL_RDMA, RDMA_IOMAPSIZE, &iomap, sizeof(iomap)),
			 0);
		CHECK_EQ(rsetsockopt(p.fd[0], SOL_RDMA, RDMA_IOMAPSIZE, &iomap, sizeof(iomap)), 0);
	}
	CHECK_EQ(rconnect(p.fd[0], (struct sockaddr *)&a, size_of(&a)), 0);
	p.fd[1] = raccept(p.listener, NULL, NULL);
	CHECK(p.fd[1] >= 0);
	return p;
}

void rspair_close(struct rspair *p)
{
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rclose(p->fd[i]), 0);
	CHECK_EQ(rclose(p->listener), 0);
}

short rspair_poll(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	CHECK(rpoll(&p, 1, ms) >= 0);
	return p.revents;
}
