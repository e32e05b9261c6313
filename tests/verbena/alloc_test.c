/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop allocates nothing: neither the library nor the verbs below it, in the thread that loops.
 * Both directions are counted, from the second callback on (the first follows what is set up once).
 *
 * Only a packet that overtakes another needs memory, to wait in. By UDP that happens now and then,
 * when a thread loses its CPU between building and sending packets; not in every one of RUNS.
 */
#include <pthread.h>
#include <stdlib.h>

#include "allocator.h"
#include "pair.h"

enum {
	WRS = 8,
	SIZE = 64,
	ENOUGH = 500,
	RUNS = 10,
};

static int on_received(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	int *received = arg;

	(void)wrs;
	for (int i = 0; i < num_wc; i++)
		CHECK_EQ(wcs[i].status, IBV_WC_SUCCESS);
	*received += num_wc;
	allocator_counts = *received > WRS && *received < ENOUGH;
	return *received >= ENOUGH ? -1 : num_wc;
}

/* RC: the peer's receives hold us back, no sender runs ahead. */
static int on_sent(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs, void *arg)
{
	int *done = arg;

	(void)wrs;
	for (int i = 0; i < num_wc; i++)
		CHECK_EQ(wcs[i].status, IBV_WC_SUCCESS);
	*done += num_wc;
	allocator_counts = *done > WRS && *done < ENOUGH;
	return *done >= ENOUGH ? -1 : num_wc < ENOUGH + WRS - *done ? num_wc : 0;
}

struct sender {
	struct verbena_context *ctx;
	struct verbena_send_wrs wrs;
	unsigned long allocations;
};

static void *send_all(void *arg)
{
	struct sender *me = arg;
	int done = 0;

	OK(verbena_repost_loop(on_sent, me->ctx, me->wrs.wrs, WRS, -1, &done) == 0);
	me->allocations = allocator_calls;
	return NULL;
}

/* Returns how often the two threads allocated. */
static unsigned long run(void)
{
	struct verbena_context_options opt = options_of(IBV_QPT_RC);
	static uint8_t out[WRS][SIZE], in[2 * WRS][SIZE];
	struct verbena_buf from = { .addr = out, .row = SIZE, .num_pkt = WRS };
	struct verbena_buf to = { .addr = in, .row = SIZE, .num_pkt = 2 * WRS };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct verbena_recv_wrs recvs;
	struct sender me = { 0 };
	pthread_t thread;
	struct pair p;
	int received = 0;

	opt.max_send_wr = WRS;
	opt.max_recv_wr = 2 * WRS;
	p = pair_create(&opt);
	me.ctx = p.a;
	allocator_calls = 0;
	OK(verbena_create_recv_wrs(p.b, &to, 1, 2 * WRS, VERBENA_POST, &recvs) == 0);
	OK(verbena_create_send_wrs(p.a, &from, 1, WRS, VERBENA_POST, &me.wrs) == 0);
	CHECK_EQ(pthread_create(&thread, NULL, send_all, &me), 0);
	OK(verbena_repost_loop(on_received, p.b, recvs.wrs, 2 * WRS, 20, &received) == 0);
	/* What the sender still has in flight finds receives posted. */
	CHECK_EQ(pthread_join(thread, NULL), 0);

	CHECK_EQ(ibv_modify_qp(p.a->qp, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_modify_qp(p.b->qp, &attr, IBV_QP_STATE), 0);
	OK(verbena_destroy_send_wrs(&me.wrs) == 0);
	OK(verbena_destroy_recv_wrs(&recvs) == 0);
	pair_destroy(&p);
	return me.allocations + allocator_calls;
}

int main(void)
{
	unsigned long allocations = 1;
	void *volatile any;

	/* Two pollers that meet open further receive queues: once, but at any time. */
	CHECK_EQ(setenv("VERBENA_RECEIVERS", "1", 1), 0);
	/* The counter counts. */
	allocator_counts = true;
	any = malloc(1);
	allocator_counts = false;
	free(any);
	CHECK_EQ(allocator_calls, 1);

	for (int i = 0; allocations && i < RUNS; i++)
		allocations = run();
	CHECK_EQ(allocations, 0);
	return 0;
}
