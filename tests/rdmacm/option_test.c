/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option(): each option, when it may be set and its effect; and ECE. */
#include "world.h"

static struct rdma_event_channel *ch;

static int set(struct rdma_cm_id *id, int name, int value, size_t len)
{
	return rdma_set_option(id, RDMA_OPTION_ID, name, &value, len);
}

static void refused(void)
{
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP), *ud = world_id(ch, RDMA_PS_UDP);
	uint8_t byte = 1;

	CHECK_FAILS(rdma_set_option(NULL, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), EINVAL);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_ID, 99, &byte, 1), ENOSYS);
	CHECK_FAILS(rdma_set_option(id, 7, 0, &byte, 1), ENOSYS);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_IB, 7, &byte, 1), ENOSYS);
	CHECK_FAILS(set(id, RDMA_OPTION_ID_TOS, 1, 4), EINVAL);
	CHECK_FAILS(set(id, RDMA_OPTION_ID_REUSEADDR, 1, 1), EINVAL);
	CHECK_FAILS(set(id, RDMA_OPTION_ID_AFONLY, 1, 1), EINVAL);
	CHECK_FAILS(set(ud, RDMA_OPTION_ID_ACK_TIMEOUT, 1, 1), EINVAL);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &byte,
				    sizeof(struct ibv_path_data)),
		    EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(ud), 0);
}

/* The option appears in the path and on both QPs. */
static void in_effect(void)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK),
			  *id = world_id(ch, RDMA_PS_TCP), *child;
	struct sockaddr_storage a = world_addr(LOOPBACK, ntohs(rdma_get_src_port(listener)));
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct rdma_cm_event *e;

	CHECK_EQ(set(id, RDMA_OPTION_ID_TOS, 0x68, 1), 0);
	CHECK_EQ(set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 12, 1), 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(id->route.path_rec->traffic_class, 0x68);
	CHECK_EQ(id->route.path_rec->packet_life_time, 11);
	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(child->route.path_rec->traffic_class, 0x68);
	world_qp(child);
	CHECK_EQ(rdma_accept(child, NULL), 0);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_AV, &init), 0);
	CHECK_EQ(attr.timeout, 12);
	CHECK_EQ(attr.ah_attr.grh.traffic_class, 0x68);
	CHECK_EQ(ibv_query_qp(child->qp, &attr, IBV_QP_AV, &init), 0);
	CHECK_EQ(attr.ah_attr.grh.traffic_class, 0x68);
	rdma_destroy_qp(id);
	rdma_destroy_qp(child);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

/* The program sets the route itself. */
static void path(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 1);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	struct ibv_path_data data[2] = {
		{ .flags = IBV_PATH_FLAG_ALTERNATE },
		{
			.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
				 IBV_PATH_FLAG_BIDIRECTIONAL,
			.path = {
				.flowlabel_hoplimit = htobe32(0x12345 << 8 | 9),
				.tclass = 0x20,
				.reversible_numpath = 0x81,
				.pkey = htobe16(0xffff),
				.mtu = 0x80 | IBV_MTU_1024,
				.packetlifetime = 0x80 | 15,
			},
		},
	};

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	memcpy(&data[1].path.sgid, &id->route.addr.addr.ibaddr.sgid, 16);
	memcpy(&data[1].path.dgid, &id->route.addr.addr.ibaddr.dgid, 16);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data, sizeof(data[0])),
		    EINVAL);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data,
				    sizeof(data) - 1),
		    EINVAL);
	CHECK_EQ(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data, sizeof(data)), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(id->route.num_paths, 1);
	CHECK_EQ(ntohl(id->route.path_rec->flow_label), 0x12345);
	CHECK_EQ(id->route.path_rec->hop_limit, 9);
	CHECK_EQ(id->route.path_rec->traffic_class, 0x20);
	CHECK_EQ(id->route.path_rec->mtu, IBV_MTU_1024);
	CHECK_EQ(id->route.path_rec->packet_life_time, 15);
	CHECK_FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data, sizeof(data)),
		    EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* A listener on :: and one on IPv4: which of them gets which requests. */
static void families(void)
{
	for (int only = 0; only < 2; only++) {
		struct sockaddr_storage any = world_addr("::", 0);
		struct rdma_cm_id *listener = world_id(ch, RDMA_PS_TCP), *id;
		struct rdma_conn_param param = { .qp_num = 0x123 };

		/* The option can also be changed on a bound id. */
		CHECK_EQ(set(listener, RDMA_OPTION_ID_AFONLY, !only, sizeof(int)), 0);
		CHECK_EQ(rdma_bind_addr(listener, (struct sockaddr *)&any), 0);
		CHECK_EQ(set(listener, RDMA_OPTION_ID_AFONLY, only, sizeof(int)), 0);
		CHECK_EQ(rdma_listen(listener, 0), 0);
		CHECK_FAILS(set(listener, RDMA_OPTION_ID_AFONLY, only, sizeof(int)), EINVAL);
		CHECK_FAILS(set(listener, RDMA_OPTION_ID_REUSEADDR, 1, sizeof(int)), EINVAL);
		id = world_route(ch, listener, LOOPBACK);
		CHECK_EQ(rdma_connect(id, &param), 0);
		if (only) {
			CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 8)), 0);
		} else {
			struct rdma_cm_event *e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
			struct rdma_cm_id *child = e->id;

			CHECK_EQ(child->route.addr.src_addr.sa_family, AF_INET);
			CHECK_EQ(rdma_ack_cm_event(e), 0);
			CHECK_EQ(rdma_destroy_id(child), 0);
			CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
		}
		CHECK_EQ(rdma_destroy_id(id), 0);
		CHECK_EQ(rdma_destroy_id(listener), 0);
	}
}

static void check_ece(struct rdma_cm_id *id, uint32_t vendor, uint32_t options)
{
	struct ibv_ece ece = { .comp_mask = ~0u };

	CHECK_EQ(rdma_get_remote_ece(id, &ece), 0);
	CHECK_EQ(ece.vendor_id, vendor);
	CHECK_EQ(ece.options, options);
	CHECK_EQ(ece.comp_mask, 0);
}

/*
 * ECE options of a vendor reach the other side, and its reply comes back, for QPs that the program
 * created. A side that replies without options of its own repeats the vendor id with options 0.
 */
static void ece(bool answered)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK), *child, *id;
	struct ibv_ece mine = { .vendor_id = 0x123456, .options = 0xa5a50001 };
	struct ibv_ece theirs = { .vendor_id = 0x123456, .options = 1 };
	struct rdma_conn_param param = { .qp_num = 0x1000 + answered };
	struct rdma_conn_param answer = { .qp_num = 0x2000 + answered };
	struct rdma_cm_event *e;

	id = world_route(ch, listener, LOOPBACK);
	CHECK_FAILS(rdma_set_local_ece(NULL, &mine), EINVAL);
	CHECK_FAILS(rdma_set_local_ece(id, NULL), EINVAL);
	CHECK_EQ(rdma_set_local_ece(id, &mine), 0);
	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	check_ece(child, mine.vendor_id, mine.options);
	if (answered)
		CHECK_EQ(rdma_set_local_ece(child, &theirs), 0);
	CHECK_EQ(rdma_accept(child, &answer), 0);
	world_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	check_ece(id, mine.vendor_id, answered ? 1 : 0);
	world_qp(id);
	CHECK_FAILS(rdma_set_local_ece(id, &mine), EINVAL);
	CHECK_FAILS(rdma_get_remote_ece(id, &mine), EINVAL);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

/* The passive side rejects ECE options that it does not support. */
static void ece_refused(void)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK), *id, *child;
	struct rdma_conn_param param = { .qp_num = 0x1002 };
	struct rdma_cm_event *e;

	id = world_route(ch, listener, LOOPBACK);
	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	check_ece(child, 0, 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_reject_ece(child, "no", 2), 0);
	CHECK_EQ(rdma_destroy_id(child), 0);
	e = world_event(ch, RDMA_CM_EVENT_REJECTED, 35);
	CHECK_MEM(e->param.conn.private_data, "no", 3);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

int main(void)
{
	ch = rdma_create_event_channel();
	CHECK(ch);
	ece(true);
	ece(false);
	ece_refused();
	refused();
	in_effect();
	path();
	families();
	rdma_destroy_event_channel(ch);
	return 0;
}
