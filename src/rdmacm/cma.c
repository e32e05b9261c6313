/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State of the process: the lock, the engine, its registration with QP 1, and what fork and exit do
 * to them.
 */
#include "rdmacm/cma.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "rdmacm/conn.h"
#include "rdmacm/device.h"
#include "rdmacm/event.h"
#include "rdmacm/hotplug.h"
#include "rdmacm/id.h"
#include "rdmacm/resolver.h"
#include "rdmacm/route.h"
#include "rdmacm/rs.h"
#include "rdmacm/view.h"
#include "run/clock.h"
#include "run/log.h"

/* A program that waits for itself says so after this time. */
enum { ACK_LONG_S = 2 };

struct cma cma = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.acked = PTHREAD_COND_INITIALIZER,
	.ids = { &cma.ids, &cma.ids },
	.listeners = { &cma.listeners, &cma.listeners },
	.discarded = { &cma.discarded, &cma.discarded },
	.silent = { &cma.silent, &cma.silent },
};

/* ---- Callbacks of the engine.  Under the cma lock ---- */

static void engine_send(void *arg, const struct net_path *path, const uint8_t mad[CM_MAD_LEN])
{
	/* A lost MAD is repeated by the engine or by the peer. */
	if (qp1.send(cma.mad, path, mad) == ETIMEDOUT)
		cm_give_up(&cma.engine);
}

static void engine_exit_mad(void *arg, struct cm_conn *c, const struct net_path *path,
			const uint8_t *mad)
{
	if (mad || !cma.ending)
		qp1.at_exit(cma.mad, c->local_id, path, mad);
}

static void engine_release(void *arg, struct cm_conn *c)
{
	free(container_of(c, struct conn, cm));
}

static const struct cm_ops engine_ops = {
	.send = engine_send,
	.event = conn_event,
	.request = conn_request,
	.late = conn_late,
	.release = engine_release,
	.exit_mad = engine_exit_mad,
};

/* ---- Callbacks of libibverbs ---- */

/* Set by qp1.open() before the first callback. cma.mad gets the same value a little later. */
static struct vrb_mad *opened;

static void mad_receive(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
			uint64_t now)
{
	cma_lock();
	/* The callback ran before qp1.open() returned. */
	if (!cma.mad)
		store_release(&cma.mad, opened);
	cm_input(&cma.engine, path, mad, VRB_MAD_LEN, now);
	cma_unlock();
}

static void mad_timeout(void *arg, uint64_t now)
{
	cma_lock();
	cm_timeout(&cma.engine, now);
	cma_unlock();
}

static const struct vrb_mad_ops mad_ops = {
	.receive = mad_receive,
	.timeout = mad_timeout,
	.device = hotplug,
	.ids = view_ids,
};

/* ---- Locking ---- */

void cma_lock(void)
{
	pthread_mutex_lock(&cma.lock);
}

void cma_discard_later(struct cma_id *id)
{
	list_del(&id->node);
	list_add_tail(&cma.discarded, &id->node);
}

void cma_unlock(void)
{
	while (!list_empty(&cma.discarded))
		id_discard(list_entry(cma.discarded.next, struct cma_id, node));
	if (cma.mad)
		qp1.arm(cma.mad, cm_next_timeout(&cma.engine));
	channels_ring_and_unlock();
}

void cma_wait_acked(void)
{
	static bool told;	/* under the lock */
	struct timespec end;

	channels_ring();
	if (told) {
		pthread_cond_wait(&cma.acked, &cma.lock);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &end);	/* that of a condition variable */
	end.tv_sec += ACK_LONG_S;
	if (!pthread_cond_timedwait(&cma.acked, &cma.lock, &end))
		return;
	told = true;
	log_warn(LOG_VERBS, "the destruction or migration of an id, or leaving a group, waits for "
			    "the program to acknowledge its events: rdma_ack_cm_event()");
}

void cma_settle(void)
{
	if (cma_mad())
		qp1.settle(cma_mad());
}

/* ---- Start, fork and exit ---- */

/*
 * Serializes cma_start().  inherited: the parent's registration in a forked child,
 * which is closed by the next cma_start().
 */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static struct vrb_mad *inherited;

/* Secret, so that peers cannot predict ids or hash values. */
static uint64_t random_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) ? seed : clock_now();
}

static int start(void)
{
	int err;

	if (inherited)
		qp1.close(inherited);
	inherited = NULL;
	cma_lock();
	cm_init(&cma.engine, &engine_ops, NULL, random_seed());
	cma_unlock();
	err = qp1.open(&mad_ops, NULL, &opened);
	if (err)
		return err;
	cma_lock();
	store_release(&cma.mad, opened);
	cma_unlock();
	return 0;
}

int cma_start(void)
{
	int err;

	pthread_mutex_lock(&starting);
	err = qp1_find();
	if (!err && !cma_mad())
		err = start();
	pthread_mutex_unlock(&starting);
	return err;
}

/*
 * All state belongs to the parent.  Ids and channels of its generation are rejected from now on;
 * their memory is not touched, because a thread of the parent may have been changing it during
 * fork().
 */
static void after_fork(void)
{
	pthread_mutex_init(&starting, NULL);
	pthread_mutex_init(&cma.lock, NULL);
	pthread_cond_init(&cma.acked, NULL);
	list_init(&cma.ids);
	list_init(&cma.listeners);
	list_init(&cma.discarded);
	list_init(&cma.silent);
	channels_forget();
	cma.generation++;
	if (cma.mad)
		inherited = cma.mad;
	cma.mad = NULL;
	resolver_forget();
	device_forget();
	route_forget();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

static void end_ids(void)
{
	struct list *pos;

	cma_lock();
	cma.ending = true;
	list_for_each (pos, &cma.ids)
		id_end_conn(list_entry(pos, struct cma_id, node));
	cma_unlock();
}

/*
 * Notifies the peers that the process ends, as the kernel does for its ids. These messages cannot
 * be repeated, so other processes of the host send them once more (exit MADs).
 */
__attribute__((destructor)) static void end_conns(void)
{
	rs_flush_all();
	if (cma_mad())
		qp1.run_last(cma_mad(), end_ids);
}

/* ---- Results ---- */

int cma_result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int cma_verb(int ret)
{
	return ret < 0 ? errno : ret;
}
