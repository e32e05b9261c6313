/* SPDX-License-Identifier: BSD-2-Clause */
/* See world.h. */
#include "world.h"

#include <netdb.h>
#include <poll.h>

struct sockaddr_storage world_addr(const char *text, uint16_t port)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;
	struct sockaddr_storage a = { .ss_family = 0 };

	CHECK_EQ(getaddrinfo(text, NULL, &hints, &found), 0);
	memcpy(&a, found->ai_addr, found->ai_addrlen);
	((struct sockaddr_in *)&a)->sin_port = htons(port);
	freeaddrinfo(found);
	return a;
}

static bool readable(struct rdma_event_channel *ch, int ms)
{
	struct pollfd fd = { .fd = ch->fd, .events = POLLIN };

	return poll(&fd, 1, ms) == 1;
}

struct rdma_cm_event *world_event(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
				  int status)
{
	struct rdma_cm_event *e;

	if (!readable(ch, WORLD_LIMIT_S * 1000)) {
		fprintf(stderr, "no %s came\n", rdma_event_str(type));
		exit(1);
	}
	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	if (e->event != type || e->status != status) {
		fprintf(stderr, "%s %d came, not %s %d\n", rdma_event_str(e->event), e->status,
			rdma_event_str(type), status);
		exit(1);
	}
	return e;
}

void world_expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, type, 0)), 0);
}

void world_wait(struct rdma_event_channel *ch)
{
	CHECK(readable(ch, WORLD_LIMIT_S * 1000));
}

void world_no_event(struct rdma_event_channel *ch)
{
	CHECK(!readable(ch, 0));
}

struct rdma_cm_id *world_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK_EQ(rdma_create_id(ch, &id, NULL, ps), 0);
	return id;
}

struct rdma_cm_id *world_listen(struct rdma_event_channel *ch, enum rdma_port_space ps,
				const char *address)
{
	struct sockaddr_storage a = world_addr(address, 0);
	struct rdma_cm_id *id = world_id(ch, ps);

	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	CHECK_EQ(rdma_listen(id, 0), 0);
	return id;
}

struct rdma_cm_id *world_route(struct rdma_event_channel *ch, const struct rdma_cm_id *listener,
			       const char *address)
{
	struct sockaddr_storage a =
		world_addr(address, ntohs(listener->route.addr.src_sin.sin_port));
	struct rdma_cm_id *id = world_id(ch, listener->ps);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

void world_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	CHECK_EQ(rdma_create_qp(id, NULL, &attr), 0);
	CHECK(id->qp && id->send_cq && id->recv_cq);
}

struct rdma_cm_event *pair_request(struct pair *p, enum rdma_port_space ps,
				   struct rdma_conn_param *param)
{
	struct rdma_cm_event *e;

	for (int i = 0; i < 2; i++) {
		p->ch[i] = rdma_create_event_channel();
		CHECK(p->ch[i]);
	}
	p->listener = world_listen(p->ch[1], ps, LOOPBACK);
	p->id[0] = world_route(p->ch[0], p->listener, LOOPBACK);
	world_qp(p->id[0]);
	CHECK_EQ(rdma_connect(p->id[0], param), 0);
	e = world_event(p->ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	p->id[1] = e->id;
	return e;
}

void pair_connect(struct pair *p, struct rdma_conn_param *param)
{
	CHECK_EQ(rdma_ack_cm_event(pair_request(p, RDMA_PS_TCP, param)), 0);
	world_qp(p->id[1]);
	CHECK_EQ(rdma_accept(p->id[1], NULL), 0);
	world_expect(p->ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p->ch[1], RDMA_CM_EVENT_ESTABLISHED);
}

void pair_disconnect(struct pair *p)
{
	CHECK_EQ(rdma_disconnect(p->id[0]), 0);
	world_expect(p->ch[1], RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_disconnect(p->id[1]), 0);
	world_expect(p->ch[0], RDMA_CM_EVENT_DISCONNECTED);
}

void pair_destroy(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->id[i]->qp)
			rdma_destroy_qp(p->id[i]);
		CHECK_EQ(rdma_destroy_id(p->id[i]), 0);
	}
	CHECK_EQ(rdma_destroy_id(p->listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(p->ch[i]);
}
