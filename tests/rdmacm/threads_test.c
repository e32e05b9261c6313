/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads connect to one listener and disconnect, while one thread serves all connections, and
 * ids are destroyed by threads that do not fetch their events; or while many threads fetch the
 * requests of a synchronous listener. The thread that gets the event of a call destroys the id
 * before the call returns.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "util/atomic.h"
#include "util/compiler.h"
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

/* ---- Ids that are destroyed before a call returns ---- */

enum { LINGER_MS = 500 };

static __thread bool counts;		/* this thread, the locks that it gives back */
static __thread unsigned int unlocks;	/* how many; */
static __thread unsigned int last_unlock;	/* behind that one it waits; 0: nowhere */
static uint32_t destroyed;		/* the id of the call */

/* At most so long: the call may give back more locks than before, and the event come later. */
static void linger(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (!load_acquire(&destroyed) &&
		 (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
			 LINGER_MS);
}

/* Replaces that of the C library. */
__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *m)
{
	static int (*next)(pthread_mutex_t *);
	int ret;

	if (!load_relaxed(&next))
		store_relaxed(&next, (__typeof__(next))dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
	ret = load_relaxed(&next)(m);
	if (counts && ++unlocks >= last_unlock && last_unlock)
		linger();
	return ret;
}

/* A call on the id of one side, the other side's answer, and the event of the call. */
struct call {
	void (*prepare)(struct pair *p);
	int (*make)(struct pair *p);
	void (*answer)(struct pair *p);
	int side;
	enum rdma_cm_event_type event;
	unsigned int more_unlocks; /* behind the last one that makes the id another thread's */
};

static void prepare_id(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		CHECK((p->ch[i] = rdma_create_event_channel()));
	p->listener = world_listen(p->ch[1], RDMA_PS_TCP, LOOPBACK);
	p->id[0] = world_id(p->ch[0], RDMA_PS_TCP);
}

static int resolve_addr(struct pair *p)
{
	struct sockaddr_storage a =
		world_addr(LOOPBACK, ntohs(p->listener->route.addr.src_sin.sin_port));

	return rdma_resolve_addr(p->id[0], NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS);
}

static void prepare_addr(struct pair *p)
{
	prepare_id(p);
	CHECK_EQ(resolve_addr(p), 0);
	world_expect(p->ch[0], RDMA_CM_EVENT_ADDR_RESOLVED);
}

static int resolve_route(struct pair *p)
{
	return rdma_resolve_route(p->id[0], WORLD_TIMEOUT_MS);
}

static void prepare_route(struct pair *p)
{
	prepare_addr(p);
	CHECK_EQ(resolve_route(p), 0);
	world_expect(p->ch[0], RDMA_CM_EVENT_ROUTE_RESOLVED);
	world_qp(p->id[0]);
}

static int connect_id(struct pair *p)
{
	return rdma_connect(p->id[0], NULL);
}

static void answer_connect(struct pair *p)
{
	struct rdma_cm_event *e = world_event(p->ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	p->id[1] = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(p->id[1]);
	CHECK_EQ(rdma_accept(p->id[1], NULL), 0);
}

static void prepare_request(struct pair *p)
{
	CHECK_EQ(rdma_ack_cm_event(pair_request(p, RDMA_PS_TCP, NULL)), 0);
	world_qp(p->id[1]);
}

static int accept_id(struct pair *p)
{
	return rdma_accept(p->id[1], NULL);
}

static void answer_accept(struct pair *p)
{
	world_expect(p->ch[0], RDMA_CM_EVENT_ESTABLISHED);
}

static void prepare_connection(struct pair *p)
{
	pair_connect(p, NULL);
}

static int disconnect_id(struct pair *p)
{
	return rdma_disconnect(p->id[0]);
}

static void answer_disconnect(struct pair *p)
{
	world_expect(p->ch[1], RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(rdma_disconnect(p->id[1]), 0);
}

/* The id has a channel of its own, with an event, up to the call. */
static void prepare_migration(struct pair *p)
{
	prepare_id(p);
	CHECK_EQ(rdma_destroy_id(p->id[0]), 0);
	p->id[0] = world_id(NULL, RDMA_PS_TCP);
	CHECK_EQ(rdma_write_cm_event(p->id[0], RDMA_CM_EVENT_USER, 0, 0), 0);
}

static int migrate_id(struct pair *p)
{
	return rdma_migrate_id(p->id[0], p->ch[0]);
}

static const struct call calls[] = {
	{ prepare_id, resolve_addr, NULL, 0, RDMA_CM_EVENT_ADDR_RESOLVED },
	{ prepare_addr, resolve_route, NULL, 0, RDMA_CM_EVENT_ROUTE_RESOLVED },
	{ prepare_route, connect_id, answer_connect, 0, RDMA_CM_EVENT_ESTABLISHED },
	{ prepare_request, accept_id, answer_accept, 1, RDMA_CM_EVENT_ESTABLISHED },
	{ prepare_connection, disconnect_id, answer_disconnect, 0, RDMA_CM_EVENT_DISCONNECTED },
	{ prepare_migration, migrate_id, NULL, 0, RDMA_CM_EVENT_USER, 1 },
};

struct early_end {
	const struct call *call;
	struct pair pair;
};

static void destroy_end(struct pair *p, int side)
{
	if (!p->id[side])
		return;
	if (p->id[side]->qp)
		rdma_destroy_qp(p->id[side]);
	CHECK_EQ(rdma_destroy_id(p->id[side]), 0);
	p->id[side] = NULL;
}

static void *destroy_at_event(void *arg)
{
	struct early_end *e = arg;

	world_expect(e->pair.ch[e->call->side], e->call->event);
	destroy_end(&e->pair, e->call->side);
	store_release(&destroyed, 1);
	return NULL;
}

static void *answer_call(void *arg)
{
	struct early_end *e = arg;

	if (e->call->answer)
		e->call->answer(&e->pair);
	return NULL;
}

/* Returns how many locks the call gave back. */
static unsigned int destroyed_in_call(const struct call *call, unsigned int last)
{
	struct early_end e = { .call = call };
	pthread_t threads[2];

	call->prepare(&e.pair);
	store_release(&destroyed, 0);
	CHECK_EQ(pthread_create(&threads[0], NULL, answer_call, &e), 0);
	CHECK_EQ(pthread_create(&threads[1], NULL, destroy_at_event, &e), 0);
	unlocks = 0;
	last_unlock = last;
	counts = true;
	CHECK_EQ(call->make(&e.pair), 0);
	counts = false;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 2; i++)
		destroy_end(&e.pair, i);
	CHECK_EQ(rdma_destroy_id(e.pair.listener), 0);
	for (int i = 0; i < 2; i++) {
		CHECK(e.pair.ch[i]->fd >= 0);
		rdma_destroy_event_channel(e.pair.ch[i]);
	}
	return unlocks - call->more_unlocks;
}

/* What a call reads of an id that was freed is no zero. */
static void destroyed_in_calls(void)
{
#ifdef M_PERTURB
	mallopt(M_PERTURB, 0x5a);
#endif
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		destroyed_in_call(&calls[i], 0);
		destroyed_in_call(&calls[i], destroyed_in_call(&calls[i], 0));
	}
#ifdef M_PERTURB
	mallopt(M_PERTURB, 0);
#endif
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	pthread_t threads[CLIENTS];

	CHECK(ch);
	wait_early(ch);
	destroyed_in_calls();
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
