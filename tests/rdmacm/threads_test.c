/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads connect to one listener and disconnect, while one thread serves all connections, and
 * ids are destroyed by threads that do not fetch their events; or while many threads fetch the
 * requests of a synchronous listener.
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

/* Refuses some requests.  Each is one thread's. */
static void *refuse_some(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id;

		CHECK_EQ(rdma_get_request(listener, &id), 0);
		CHECK(id->event && id->event->id == id);
		CHECK_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		CHECK_EQ(rdma_reject(id, NULL, 0), 0);
		rdma_destroy_ep(id);
	}
	return NULL;
}

static void *run_refused_client(void *ch)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK);

		world_qp(id);
		CHECK_EQ(rdma_connect(id, NULL), 0);
		CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
		rdma_destroy_qp(id);
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(ch);
	return NULL;
}

/* ThreadSanitizer finds what the threads share; without it a failure needs luck. */
static void shared_listener(void)
{
	pthread_t threads[2][CLIENTS];

	listener = world_listen(NULL, RDMA_PS_TCP, LOOPBACK);
	for (int i = 0; i < CLIENTS; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();

		CHECK_EQ(pthread_create(&threads[0][i], NULL, refuse_some, NULL), 0);
		CHECK_EQ(pthread_create(&threads[1][i], NULL, run_refused_client, ch), 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		for (int side = 0; side < 2; side++)
			CHECK_EQ(pthread_join(threads[side][i], NULL), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

static void *wait_for_event(void *ch)
{
	struct rdma_cm_event *e;

	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	return NULL;
}

/* A thread waits before any id has an address, which starts what the threads share. */
static void wait_early(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, wait_for_event, ch), 0);
	CHECK_EQ(rdma_destroy_id(world_listen(ch, RDMA_PS_TCP, LOOPBACK)), 0);
	CHECK_EQ(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t threads[CLIENTS];

	CHECK(ch);
	wait_early(ch);
	shared_listener();
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
