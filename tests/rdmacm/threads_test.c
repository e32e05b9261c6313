/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads connect to one listener and disconnect, while one thread serves all connections, and
 * ids are destroyed by threads that do not fetch their events.
 */
#include <pthread.h>

#include "world.h"

enum {
	CLIENTS = 6,
	ROUNDS = 15,
};

static struct rdma_cm_id *listener;

static void connect_once(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);

	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(rdma_disconnect(id), 0);
	world_expect(ch, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

static void *run_client(void *arg)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	CHECK(ch);
	for (int i = 0; i < ROUNDS; i++)
		connect_once(ch);
	rdma_destroy_event_channel(ch);
	return NULL;
}

/* Destroying the id waits for the event that another thread has fetched. */
static void *destroy_id(void *arg)
{
	struct rdma_cm_id *id = arg;

	rdma_destroy_qp(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	return NULL;
}

static void serve(struct rdma_event_channel *ch)
{
	int gone = 0;

	while (gone < CLIENTS * ROUNDS) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;
		pthread_t thread;

		CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
		id = e->id;
		switch (e->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			world_qp(id);
			CHECK_EQ(rdma_accept(id, NULL), 0);
			CHECK_EQ(rdma_ack_cm_event(e), 0);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			CHECK_EQ(rdma_disconnect(id), 0);
			CHECK_EQ(pthread_create(&thread, NULL, destroy_id, id), 0);
			CHECK_EQ(rdma_ack_cm_event(e), 0);
			CHECK_EQ(pthread_join(thread, NULL), 0);
			gone++;
			break;
		default:
			CHECK_EQ(rdma_ack_cm_event(e), 0);
		}
	}
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t threads[CLIENTS];

	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	for (int i = 0; i < CLIENTS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run_client, NULL), 0);
	serve(ch);
	for (int i = 0; i < CLIENTS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	return 0;
}
