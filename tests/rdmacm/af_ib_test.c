/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of the family AF_IB: GIDs with service ids, on ports that route by IP. The GID belongs
 * to the loopback device.
 */
#include <infiniband/ib.h>

#include "world.h"

#define GID "::ffff:127.0.0.1"

static struct rdma_event_channel *ch;

static struct sockaddr_ib address(const char *gid, uint64_t sid, uint64_t mask)
{
	struct sockaddr_storage six = world_addr(gid, 0);
	struct sockaddr_ib ib = {
		.sib_family = AF_IB,
		.sib_pkey = htobe16(0xffff),
		.sib_sid = htobe64(sid),
		.sib_sid_mask = htobe64(mask),
	};

	memcpy(&ib.sib_addr, &((struct sockaddr_in6 *)&six)->sin6_addr, 16);
	return ib;
}

static struct rdma_cm_id *bound(enum rdma_port_space ps, const char *gid, uint64_t sid,
				uint64_t mask)
{
	struct sockaddr_ib a = address(gid, sid, mask);
	struct rdma_cm_id *id = world_id(ch, ps);

	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	return id;
}

static const struct sockaddr_ib *src_of(const struct rdma_cm_id *id)
{
	return (const void *)&id->route.addr.src_storage;
}

/* The port space is the id's, or the one in the service id, as far as its mask covers it. */
static void service_ids(void)
{
	static const struct {
		enum rdma_port_space ps;
		uint64_t sid, mask;
		uint64_t space; /* 0: refused */
	} rows[] = {
		{ RDMA_PS_TCP, 0, 0, 0x01060000 },
		{ RDMA_PS_UDP, 0, 0, 0x01110000 },
		{ RDMA_PS_IB, 0, 0, 0x013f0000 },
		{ RDMA_PS_TCP, 0x01060000, ~0xffffull, 0x01060000 },
		{ RDMA_PS_IB, 0x01060000, ~0xffffull, 0x01060000 },
		{ RDMA_PS_IB, 0x01110000, ~0xffffull, 0x01110000 },
		{ RDMA_PS_TCP, 0x01110000, ~0xffffull, 0 },
		{ RDMA_PS_TCP, 0x013f0000, ~0xffffull, 0 },
		{ RDMA_PS_IB, 0x12340000, ~0xffffull, 0 },
		/* Bits outside the mask are ignored. */
		{ RDMA_PS_TCP, 0x990106abcd, 0xffff0000, 0x01060000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct sockaddr_ib a = address("::", rows[i].sid, rows[i].mask);
		struct rdma_cm_id *id = world_id(ch, rows[i].ps);

		if (rows[i].space) {
			CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
			CHECK_EQ(be64toh(src_of(id)->sib_sid) & ~0xffffull, rows[i].space);
			CHECK_EQ(be64toh(src_of(id)->sib_sid_mask), UINT64_MAX);
			CHECK_EQ(be64toh(src_of(id)->sib_sid) & 0xffff,
				 ntohs(rdma_get_src_port(id)));
			CHECK(rdma_get_src_port(id) && !id->verbs);
		} else {
			CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&a), EPROTONOSUPPORT);
		}
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
}

/* Ports are shared by all address families. */
static void one_port(void)
{
	struct rdma_cm_id *id = bound(RDMA_PS_TCP, GID, 0x01060000, ~0xffffull), *other;
	struct sockaddr_storage ip = world_addr("0.0.0.0", ntohs(rdma_get_src_port(id)));
	struct sockaddr_ib same = *src_of(id), far = address("2001:db8::7", 0, 0);

	CHECK(id->verbs && id->pd);
	CHECK_EQ(id->port_num, 1);
	CHECK_EQ(id->route.addr.addr.ibaddr.sgid.raw[12], 127);
	other = world_id(ch, RDMA_PS_TCP);
	CHECK_FAILS(rdma_bind_addr(other, (struct sockaddr *)&ip), EADDRNOTAVAIL);
	CHECK_FAILS(rdma_bind_addr(other, (struct sockaddr *)&same), EADDRINUSE);
	CHECK_FAILS(rdma_bind_addr(other, (struct sockaddr *)&far), ENODEV);
	CHECK_EQ(rdma_destroy_id(other), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static struct rdma_cm_id *routed(enum rdma_port_space ps, struct sockaddr_ib *to)
{
	struct rdma_cm_id *id = world_id(ch, ps);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)to, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(src_of(id)->sib_family, AF_IB);
	CHECK_MEM(&src_of(id)->sib_addr, &to->sib_addr, 16);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

/*
 * Without an IP header in the REQ all 92 bytes of private data belong to the program, also if they
 * begin as such a header would: they name no address.
 */
static void connects(const char *where, uint8_t first, uint8_t second)
{
	struct rdma_cm_id *listener = bound(RDMA_PS_TCP, where, 0x01060000, ~0xffffull), *id;
	struct sockaddr_ib to = address(GID, be64toh(src_of(listener)->sib_sid), UINT64_MAX);
	struct rdma_conn_param param = { .private_data_len = 92 };
	uint8_t data[93];
	struct rdma_cm_event *e;
	struct rdma_cm_id *child;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i + 0x60);
	data[0] = first;
	data[1] = second;
	param.private_data = data;
	CHECK_EQ(rdma_listen(listener, 0), 0);
	id = routed(RDMA_PS_TCP, &to);
	world_qp(id);
	param.private_data_len = 93;
	CHECK_FAILS(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 92;
	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK_EQ(e->param.conn.private_data_len, 92);
	CHECK_MEM(e->param.conn.private_data, data, 92);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(src_of(child)->sib_family, AF_IB);
	CHECK_EQ(src_of(child)->sib_sid, to.sib_sid);
	CHECK_MEM(&src_of(child)->sib_addr, &to.sib_addr, 16);
	CHECK_MEM(child->route.addr.addr.ibaddr.dgid.raw, &to.sib_addr, 16);
	world_qp(child);
	CHECK_EQ(rdma_accept(child, NULL), 0);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(id);
	rdma_destroy_qp(child);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_DISCONNECTED, 0)), 0);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

/* A listener bound to an IP address rejects requests without an IP header. */
static void refused_by_ip(void)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, "::"), *id;
	struct sockaddr_ib to =
		address(GID, 0x01060000 | ntohs(rdma_get_src_port(listener)), UINT64_MAX);
	struct rdma_conn_param param = { .qp_num = 0x77 };

	id = routed(RDMA_PS_TCP, &to);
	CHECK_EQ(rdma_connect(id, &param), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

/* In the other direction the IP header is ordinary data. */
static void ip_to_gid(void)
{
	struct rdma_cm_id *listener = bound(RDMA_PS_TCP, "::", 0, 0), *id;
	struct sockaddr_storage to = world_addr(LOOPBACK, ntohs(rdma_get_src_port(listener)));
	struct rdma_conn_param param = { .qp_num = 0x78,
					 .private_data = "hi",
					 .private_data_len = 2 };
	struct rdma_cm_event *e;

	CHECK_EQ(rdma_listen(listener, 0), 0);
	id = world_id(ch, RDMA_PS_TCP);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK_EQ(e->param.conn.private_data_len, 92);
	CHECK_MEM((const uint8_t *)e->param.conn.private_data + 36, "hi", 3);
	CHECK_EQ(rdma_destroy_id(id), 0);
	id = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

static void datagrams(void)
{
	struct rdma_cm_id *listener = bound(RDMA_PS_UDP, GID, 0, 0), *id, *child;
	struct sockaddr_ib to = *src_of(listener);
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 216 };
	uint8_t data[216] = "hello";
	struct rdma_cm_event *e;

	param.private_data = data;
	CHECK_EQ(rdma_listen(listener, 0), 0);
	id = routed(RDMA_PS_UDP, &to);
	world_qp(id);
	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK_EQ(e->param.ud.private_data_len, 216);
	CHECK_MEM(e->param.ud.private_data, data, 216);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	param = (struct rdma_conn_param){ .qp_num = 0x99 };
	CHECK_EQ(rdma_accept(child, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(e->param.ud.qp_num, 0x99);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

/*
 * Addresses from rdma_getaddrinfo(), used by endpoints; source and destination of two families are
 * refused.
 */
static void by_name(void)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY | RAI_PASSIVE,
		.ai_family = AF_IB,
		.ai_port_space = RDMA_PS_IB,
		.ai_qp_type = IBV_QPT_RC,
	};
	struct sockaddr_storage ip = world_addr(LOOPBACK, 0);
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id, *wrong = world_id(ch, RDMA_PS_TCP);
	struct sockaddr_ib to = address(GID, 0x01060001, UINT64_MAX);

	CHECK_EQ(rdma_getaddrinfo(GID, "4711", &hints, &res), 0);
	CHECK_EQ(rdma_create_ep(&id, res, NULL, NULL), 0);
	CHECK_EQ(be64toh(src_of(id)->sib_sid), 0x013f0000 + 4711);
	CHECK_EQ(rdma_listen(id, 0), 0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	CHECK_FAILS(rdma_resolve_addr(wrong, (struct sockaddr *)&ip, (struct sockaddr *)&to, 1),
		    EINVAL);
	CHECK_EQ(rdma_destroy_id(wrong), 0);
}

int main(void)
{
	ch = rdma_create_event_channel();
	CHECK(ch);
	service_ids();
	one_port();
	connects("::", 0x60, 0x61);
	connects(GID, 0x60, 0x61);
	connects("::", 0, 0x40);
	connects(GID, 0, 0x60);
	refused_by_ip();
	ip_to_gid();
	datagrams();
	by_name();
	rdma_destroy_event_channel(ch);
	return 0;
}
