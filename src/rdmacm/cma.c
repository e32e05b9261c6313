/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What exists once per process: the lock, the engine, its tie to QP 1, and the ends of it all by
 * fork and exit.
 */
#include "rdmacm/cma.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rdmacm/conn.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/resolver.h"
#include "run/clock.h"

struct cma cma = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.acked = PTHREAD_COND_INITIALIZER,
	.ids = { &cma.ids, &cma.ids },
	.listeners = { &cma.listeners, &cma.listeners },
	.doomed = { &cma.doomed, &cma.doomed },
};

/* ---- The engine's calls.  Under the cma lock ---- */

static void engine_send(void *arg, const struct net_path *path, const uint8_t mad[CM_MAD_LEN])
{
	/* What is lost is sent again by the engine, or by the peer. */
	qp1.send(cma.mad, path, mad);
}

static void engine_will(void *arg, struct cm_conn *c, const struct net_path *path,
			const uint8_t *mad)
{
	if (mad || !cma.ending)
		qp1.will(cma.mad, c->local_id, path, mad);
}

static void engine_release(void *arg, struct cm_conn *c)
{
	free(container_of(c, struct conn, cm));
}

static const struct cm_ops engine_ops = {
	.send = engine_send,
	.event = conn_event,
	.request = conn_request,
	.release = engine_release,
	.will = engine_will,
};

/* ---- And what comes in for it ---- */

static void mad_receive(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
			uint64_t now)
{
	cma_lock();
	/* While vrb_mad_open() runs there is nothing to answer by, and nobody whom it could be for. */
	if (cma.mad)
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
};

/* ---- Locking ---- */

void cma_lock(void)
{
	pthread_mutex_lock(&cma.lock);
}

void cma_doom(struct cma_id *id)
{
	list_del(&id->node);
	list_add_tail(&cma.doomed, &id->node);
}

void cma_unlock(void)
{
	while (!list_empty(&cma.doomed))
		id_discard(list_entry(cma.doomed.next, struct cma_id, node));
	if (cma.mad)
		qp1.arm(cma.mad, cm_next_timeout(&cma.engine));
	pthread_mutex_unlock(&cma.lock);
}

void cma_settle(void)
{
	if (cma.mad)
		qp1.settle(cma.mad);
}

/* ---- Beginning and end ---- */

/*
 * Serialises cma_start(); outermost.  inherited: of the parent of a forked child, which has not
 * closed it yet.
 */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static struct vrb_mad *inherited;

/* Nobody else's to know. */
static uint64_t random_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) ? seed : clock_now();
}

static int start(void)
{
	struct vrb_mad *mad;
	int err;

	if (inherited)
		qp1.close(inherited);
	inherited = NULL;
	cma_lock();
	cm_init(&cma.engine, &engine_ops, NULL, random_seed());
	cma_unlock();
	err = qp1.open(&mad_ops, NULL, &mad);
	if (err)
		return err;
	cma_lock();
	cma.mad = mad;
	cma_unlock();
	return 0;
}

int cma_start(void)
{
	int err;

	pthread_mutex_lock(&starting);
	err = qp1_find();
	if (!err && !cma.mad)
		err = start();
	pthread_mutex_unlock(&starting);
	return err;
}

/*
 * Everything there is belongs to the parent.  Its ids and channels are of another generation now,
 * and their memory is left alone: a thread of the parent may have been about to change it.
 */
static void after_fork(void)
{
	pthread_mutex_init(&starting, NULL);
	pthread_mutex_init(&cma.lock, NULL);
	pthread_cond_init(&cma.acked, NULL);
	list_init(&cma.ids);
	list_init(&cma.listeners);
	list_init(&cma.doomed);
	cma.generation++;
	if (cma.mad)
		inherited = cma.mad;
	cma.mad = NULL;
	resolver_forget();
	device_forget();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

/*
 * Peers are told at once that the process ends, as the kernel does for its ids.  What is lost of that, nobody here will repeat: so
 * other processes of the host say it once more.
 */
__attribute__((destructor)) static void end_conns(void)
{
	struct list *pos;

	cma_lock();
	cma.ending = true;
	list_for_each (pos, &cma.ids)
		id_end_conn(list_entry(pos, struct cma_id, node));
	cma_unlock();
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
