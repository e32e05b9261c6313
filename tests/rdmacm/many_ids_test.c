/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ten thousand ids in one process: all are bound and listen, each is found by its port, and all
 * resources are freed.
 */
#include <stdlib.h>

#include "world.h"

enum {
	IDS = 10000,
	STEP = 997, /* one in so many listeners gets a connection */
};

static struct rdma_event_channel *ch;

static void connect_to(const struct rdma_cm_id *listener, uint32_t qpn)
{
	struct rdma_conn_param param = { .qp_num = qpn };
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_event *e;
	struct rdma_cm_id *id, *child;

	CHECK(own);
	id = world_route(own, listener, LOOPBACK);
	CHECK_EQ(rdma_connect(id, &param), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(e->listen_id == listener);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_reject(child, NULL, 0), 0);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(own, RDMA_CM_EVENT_REJECTED, 28)), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(own);
}

int main(void)
{
	struct rdma_cm_id **ids = calloc(IDS, sizeof(*ids));

	ch = rdma_create_event_channel();
	CHECK(ch && ids);
	for (int i = 0; i < IDS; i++)
		ids[i] = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	for (int i = 0; i < IDS; i += STEP)
		connect_to(ids[i], 0x1000 + (uint32_t)i);
	world_no_event(ch);
	for (int i = 0; i < IDS; i++)
		CHECK_EQ(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(ch);
	free(ids);
	return 0;
}
