/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An interface whose link address changes, and one that is deleted, while ids use them. Runs in a
 * network namespace of its own.
 */
#include <pthread.h>

#include "../unit/place.h"
#include "descriptors.h"
#include "world.h"

#define ADDRESS  "10.77.0.1"
#define ADDRESS6 "fd00:77::1"

enum { ROUNDS = 10 };

static void ip(const char *args)
{
	char line[200];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin ip %s", args);
	CHECK_EQ(system(line), 0);
}

static void make_interface(void)
{
	ip("link add vrbt0 type veth peer name vrbt1");
	ip("addr add " ADDRESS "/24 dev vrbt0");
	ip("link set vrbt0 up");
	ip("link set vrbt1 up");
}

/* Both ends of a connection over the interface. */
struct ends {
	struct rdma_event_channel *ch[2]; /* active, passive */
	struct rdma_cm_id *listener, *id[2];
};

static void connect_ends(struct ends *p)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_event *e;

	for (int i = 0; i < 2; i++)
		CHECK((p->ch[i] = rdma_create_event_channel()));
	p->listener = world_listen(p->ch[1], RDMA_PS_TCP, ADDRESS);
	p->id[0] = world_route(p->ch[0], p->listener, ADDRESS);
	world_qp(p->id[0]);
	CHECK_EQ(rdma_connect(p->id[0], &param), 0);
	e = world_event(p->ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	p->id[1] = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(p->id[1]);
	CHECK_EQ(rdma_accept(p->id[1], &param), 0);
	world_expect(p->ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p->ch[1], RDMA_CM_EVENT_ESTABLISHED);
}

static void destroy_ends(struct ends *p)
{
	for (int i = 0; i < 2; i++) {
		rdma_destroy_qp(p->id[i]);
		CHECK_EQ(rdma_destroy_id(p->id[i]), 0);
	}
	CHECK_EQ(rdma_destroy_id(p->listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(p->ch[i]);
}

/* Every id on the interface gets ADDR_CHANGE, whatever its use, and remains usable. */
static void new_link_address(struct ends *p, struct rdma_event_channel *others)
{
	ip("link set vrbt0 address 02:00:00:00:77:01");
	world_expect(p->ch[0], RDMA_CM_EVENT_ADDR_CHANGE);
	world_expect(p->ch[1], RDMA_CM_EVENT_ADDR_CHANGE);
	world_expect(p->ch[1], RDMA_CM_EVENT_ADDR_CHANGE);
	world_no_event(others);
}

static void interface_deleted(struct ends *p)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	struct sockaddr_storage a = world_addr(ADDRESS, 1);

	world_expect(p->ch[0], RDMA_CM_EVENT_DEVICE_REMOVAL);
	/* one event for the listener, one for its connection */
	world_expect(p->ch[1], RDMA_CM_EVENT_DEVICE_REMOVAL);
	world_expect(p->ch[1], RDMA_CM_EVENT_DEVICE_REMOVAL);
	CHECK_FAILS(rdma_connect(p->id[0], &param), EINVAL);
	CHECK_FAILS(rdma_accept(p->id[1], &param), EINVAL);
	CHECK_FAILS(rdma_listen(p->listener, 0), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(p->listener, NULL, (struct sockaddr *)&a, 1), EINVAL);
}

/* The port can be bound again once the interface is back. */
static void bind_again(uint16_t port)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_storage a = world_addr(ADDRESS, port);
	struct rdma_cm_id *id;

	CHECK(ch);
	make_interface();
	id = world_id(ch, RDMA_PS_TCP);
	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	CHECK_EQ(rdma_listen(id, 0), 0);
	world_no_event(ch);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	ip("link del vrbt0");
}

/* Connections over other interfaces and wildcard listeners get no event. */
static void removal(void)
{
	struct rdma_event_channel *others;
	struct rdma_cm_id *any;
	struct pair loop;
	struct ends p;
	uint16_t port;

	make_interface();
	CHECK((others = rdma_create_event_channel()));
	any = world_listen(others, RDMA_PS_TCP, "0.0.0.0");
	pair_connect(&loop, NULL);
	connect_ends(&p);
	new_link_address(&p, others);
	port = ntohs(rdma_get_src_port(p.listener));
	ip("link del vrbt0");
	interface_deleted(&p);
	world_no_event(others);
	world_no_event(loop.ch[0]);
	world_no_event(loop.ch[1]);
	pair_disconnect(&loop);
	bind_again(port);
	for (int i = 0; i < 2; i++)
		world_no_event(p.ch[i]);
	destroy_ends(&p);
	pair_destroy(&loop);
	CHECK_EQ(rdma_destroy_id(any), 0);
	rdma_destroy_event_channel(others);
}

/* An id with an SRQ in the library's XRC domain of the device. */
static void use_xrc_domain(struct sockaddr_storage *at)
{
	struct rdma_addrinfo res = {
		.ai_flags = RAI_PASSIVE,
		.ai_port_space = RDMA_PS_TCP,
		.ai_qp_type = IBV_QPT_XRC_RECV,
		.ai_src_addr = (struct sockaddr *)at,
		.ai_src_len = sizeof(struct sockaddr_in),
	};
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct rdma_cm_id *id;

	CHECK_EQ(rdma_create_ep(&id, &res, NULL, NULL), 0);
	CHECK_EQ(rdma_create_srq(id, NULL, &attr), 0);
	rdma_destroy_ep(id);
}

/* With another name each time, as those of containers; else it would be the same device. */
static void use_interface(char name)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_storage a = world_addr(ADDRESS, 0);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	char line[80];

	make_interface();
	ip("link set vrbt0 down");
	snprintf(line, sizeof(line), "link set vrbt0 name vrbt%c up", name);
	ip(line);
	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	use_xrc_domain(&a);
	ip("link del vrbt1");
}

/* The device of an interface that has gone does not stay open for ever. */
static void interfaces_come_and_go(void)
{
	unsigned int before;

	use_interface('a');
	before = settled_descriptors();
	for (char name = 'b'; name < 'e'; name++)
		use_interface(name);
	CHECK_EQ(settled_descriptors(), before);
}

static void *delete_interface(void *arg)
{
	ip("link del vrbt0");
	return NULL;
}

/* Binds and listens, until the interface is gone. */
static void listen_until_removed(struct rdma_event_channel *ch)
{
	struct sockaddr_storage a = world_addr(ADDRESS6, 0);
	int on = 1;

	for (;;) {
		struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
		bool gone = rdma_bind_addr(id, (struct sockaddr *)&a);

		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
		gone |= rdma_listen(id, 0) != 0;
		CHECK_EQ(rdma_destroy_id(id), 0);
		if (gone)
			return;
	}
}

/* The ports of ids are given back while other calls use them. */
static void removal_during_calls(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	CHECK(ch);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;

		make_interface();
		ip("addr add " ADDRESS6 "/64 dev vrbt0 nodad");
		CHECK_EQ(pthread_create(&thread, NULL, delete_interface, NULL), 0);
		listen_until_removed(ch);
		CHECK_EQ(pthread_join(thread, NULL), 0);
	}
	rdma_destroy_event_channel(ch);
}

int main(void)
{
	if (!place_enter_netns())
		SKIP("no network namespaces");
	removal();
	interfaces_come_and_go();
	removal_during_calls();
	return 0;
}
