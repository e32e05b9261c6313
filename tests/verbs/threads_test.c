/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several threads on the same objects: they post to one queue pair and poll one queue, while others
 * create and destroy objects.
 */
#include <pthread.h>
#include <sched.h>

#include "world.h"

enum {
	POSTERS = 3,
	EACH = 300,
	PAIRS = 2,
};

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *from[PAIRS], *to[PAIRS];
static struct buffer buf;
static int completed[PAIRS];	/* atomic */
static int stop;		/* atomic */

/* Posts WRITEs to its queue pair whenever there is room. */
static void *poster(void *arg)
{
	struct ibv_sge sge = world_sge(&buf, 0, 256);
	int pair = (int)(intptr_t)arg;
	int posted = 0;

	while (posted < EACH) {
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, pair, &sge, &buf, 4096);
		struct ibv_send_wr *bad;

		if (ibv_post_send(from[pair], &wr, &bad) == 0)
			posted++;
		else
			sched_yield();
	}
	return NULL;
}

static void *poller(void *arg)
{
	struct ibv_wc wc[4];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int n = ibv_poll_cq(cq, 4, wc);

		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			__atomic_fetch_add(&completed[wc[i].wr_id], 1, __ATOMIC_RELAXED);
		}
		if (!n)
			sched_yield();
	}
	return NULL;
}

/* Creates and destroys queue pairs during the traffic. */
static void *creator(void *arg)
{
	struct ibv_cq *own = world_cq(&w, 16);

	for (int i = 0; i < 30; i++) {
		struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, own, NULL);
		struct ibv_qp *b = world_qp(&w, IBV_QPT_RC, own, NULL);

		world_connect(&w, a, b);
		world_recv(b, 1, world_sge(&buf, 8192, 64));
		world_send(a, 2, world_sge(&buf, 0, 64));
		CHECK_EQ(ibv_destroy_qp(a), 0);	/* with requests in flight */
		CHECK_EQ(ibv_destroy_qp(b), 0);
	}
	CHECK_EQ(ibv_destroy_cq(own), 0);
	return NULL;
}

static bool all_done(void)
{
	for (int i = 0; i < PAIRS; i++)
		if (__atomic_load_n(&completed[i], __ATOMIC_RELAXED) < POSTERS * EACH)
			return false;
	return true;
}

int main(void)
{
	pthread_t posters[PAIRS * POSTERS], pollers[2], other;
	int n = 0;

	world_open(&w);
	cq = world_cq(&w, 256);
	buf = world_buffer(&w, 16384, WORLD_ACCESS);
	for (int i = 0; i < PAIRS; i++) {
		from[i] = world_qp(&w, IBV_QPT_RC, cq, NULL);
		to[i] = world_qp(&w, IBV_QPT_RC, cq, NULL);
		world_connect(&w, from[i], to[i]);
	}
	for (int i = 0; i < PAIRS * POSTERS; i++, n++)
		CHECK_EQ(pthread_create(&posters[i], NULL, poster,
					(void *)(intptr_t)(i % PAIRS)), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&pollers[i], NULL, poller, NULL), 0);
	CHECK_EQ(pthread_create(&other, NULL, creator, NULL), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(pthread_join(posters[i], NULL), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
	while (!all_done())
		sched_yield();
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(pollers[i], NULL), 0);
	for (int i = 0; i < PAIRS; i++) {
		CHECK_EQ(completed[i], POSTERS * EACH);
		CHECK_EQ(ibv_destroy_qp(from[i]), 0);
		CHECK_EQ(ibv_destroy_qp(to[i]), 0);
	}
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
	world_close(&w);
	return 0;
}
