/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo() and rdma_resolve_addrinfo(), its asynchronous form. */
#include <netdb.h>
#include <netinet/in.h>

#include <infiniband/ib.h>

#include "world.h"

static struct rdma_addrinfo *look_up(const char *node, const char *service,
				     const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *res = NULL;

	CHECK_EQ(rdma_getaddrinfo(node, service, hints, &res), 0);
	CHECK(res && !res->ai_next);
	return res;
}

static void addresses(void)
{
	struct rdma_addrinfo passive = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo datagram = { .ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_UDP };
	struct rdma_addrinfo *res = look_up(LOOPBACK, "4711", NULL);

	CHECK_EQ(res->ai_family, AF_INET);
	CHECK_EQ(res->ai_qp_type, IBV_QPT_RC);
	CHECK_EQ(res->ai_port_space, RDMA_PS_TCP);
	CHECK_EQ(res->ai_dst_len, sizeof(struct sockaddr_in));
	CHECK_EQ(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(4711));
	CHECK(!res->ai_src_addr && !res->ai_flags && !res->ai_route_len && !res->ai_connect_len);
	rdma_freeaddrinfo(res);

	res = look_up(NULL, "4711", &passive);
	CHECK_EQ(res->ai_flags, RAI_PASSIVE);
	CHECK(res->ai_src_addr && !res->ai_dst_addr);
	rdma_freeaddrinfo(res);

	res = look_up("::1", "4711", &datagram);
	CHECK_EQ(res->ai_family, AF_INET6);
	CHECK_EQ(res->ai_qp_type, IBV_QPT_UD);
	CHECK_EQ(res->ai_port_space, RDMA_PS_UDP);
	rdma_freeaddrinfo(res);
}

/*
 * Without a name the result follows from the hints; with one, the source address of the hints is
 * kept.
 */
static void hints(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 1), b = world_addr(LOOPBACK, 2);
	struct rdma_addrinfo h = {
		.ai_family = AF_INET,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP,
		.ai_src_addr = (struct sockaddr *)&a,
		.ai_src_len = sizeof(struct sockaddr_in),
		.ai_dst_addr = (struct sockaddr *)&b,
		.ai_dst_len = sizeof(struct sockaddr_in),
	};
	struct rdma_addrinfo *res = look_up(NULL, NULL, &h);

	CHECK(res->ai_dst_addr != h.ai_dst_addr);
	CHECK_MEM(res->ai_dst_addr, h.ai_dst_addr, sizeof(struct sockaddr_in));
	CHECK_MEM(res->ai_src_addr, h.ai_src_addr, sizeof(struct sockaddr_in));
	rdma_freeaddrinfo(res);
	res = look_up(LOOPBACK, "3", &h);
	CHECK_MEM(res->ai_src_addr, h.ai_src_addr, sizeof(struct sockaddr_in));
	CHECK_EQ(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(3));
	rdma_freeaddrinfo(res);
}

/* A GID as an AF_IB address. */
static void gids(void)
{
	struct rdma_addrinfo h = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY,
		.ai_family = AF_IB,
		.ai_port_space = RDMA_PS_TCP,
	};
	struct rdma_addrinfo *res = look_up("fe80::7", "5", &h);
	const struct sockaddr_ib *ib = (const void *)res->ai_dst_addr;

	CHECK_EQ(res->ai_family, AF_IB);
	CHECK_EQ(res->ai_dst_len, sizeof(*ib));
	CHECK_EQ(ib->sib_family, AF_IB);
	CHECK_EQ(be16toh(ib->sib_pkey), 0xffff);
	CHECK_EQ(be64toh(ib->sib_sid), 0x01060005);
	CHECK_EQ(be64toh(ib->sib_sid_mask), UINT64_MAX);
	rdma_freeaddrinfo(res);
	res = look_up("fe80::7", NULL, &h);
	ib = (const void *)res->ai_dst_addr;
	CHECK_EQ(be64toh(ib->sib_sid), 0x01060000);
	CHECK_EQ(be64toh(ib->sib_sid_mask), RDMA_IB_IP_PS_MASK);
	rdma_freeaddrinfo(res);
}

/* Hints without a type get that of their port space. */
static void types(void)
{
	static const struct {
		int port_space, type;
	} row[] = {
		{ RDMA_PS_TCP, IBV_QPT_RC },
		{ RDMA_PS_UDP, IBV_QPT_UD },
		{ RDMA_PS_IPOIB, IBV_QPT_UD },
		{ RDMA_PS_IB, IBV_QPT_RC },
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct rdma_addrinfo h = { .ai_port_space = row[i].port_space };
		struct rdma_addrinfo *res = look_up(LOOPBACK, "5", &h);

		CHECK_EQ(res->ai_port_space, row[i].port_space);
		CHECK_EQ(res->ai_qp_type, row[i].type);
		rdma_freeaddrinfo(res);
	}
}

static void refused(void)
{
	struct rdma_addrinfo numeric = { .ai_flags = RAI_NUMERICHOST }, *res;

	CHECK_FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	CHECK_FAILS(rdma_getaddrinfo(LOOPBACK, NULL, NULL, NULL), EINVAL);
	CHECK_EQ(rdma_getaddrinfo("no-address", NULL, &numeric, &res), EAI_NONAME);
	rdma_freeaddrinfo(NULL);
}

static void asynchronous(void)
{
	struct rdma_addrinfo sa = { .ai_flags = RAI_SA }, numeric = { .ai_flags = RAI_NUMERICHOST },
			     *res;
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_FAILS(rdma_query_addrinfo(id, &res), ENOENT);
	CHECK_EQ(rdma_resolve_addrinfo(id, LOOPBACK, "4711", &numeric), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	CHECK_EQ(rdma_query_addrinfo(id, &res), 0);
	CHECK_EQ(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(4711));
	rdma_freeaddrinfo(res);
	/* The result can be fetched only once. */
	CHECK_FAILS(rdma_query_addrinfo(id, &res), ENOENT);

	CHECK_EQ(rdma_resolve_addrinfo(id, "no-address", NULL, &numeric), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_ADDRINFO_ERROR, EAI_NONAME)), 0);
	CHECK_FAILS(rdma_query_addrinfo(id, &res), ENOENT);

	CHECK_FAILS(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_resolve_addrinfo(id, NULL, "1", &sa), ENOENT);
	CHECK_FAILS(rdma_resolve_addrinfo(id, "x", "1", &sa), EOPNOTSUPP);
	/* An id can be destroyed while its lookup is in progress. */
	CHECK_EQ(rdma_resolve_addrinfo(id, LOOPBACK, "4711", &numeric), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

int main(void)
{
	addresses();
	hints();
	gids();
	types();
	refused();
	asynchronous();
	return 0;
}
