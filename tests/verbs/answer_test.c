/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A refusal is said once, so it must not get lost or wait in its own process: behind an ACK that
 * waits for company, or because the QP did not know yet where its peer is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

enum { ROUNDS = 20, POLLS = 200 };

static struct world w;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;
static struct buffer src, dst;

static void set_up(void)
{
	cq_a = world_cq(&w, 16);
	cq_b = world_cq(&w, 16);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
	src = world_buffer(&w, 64, WORLD_ACCESS);
	dst = world_buffer(&w, 64, WORLD_ACCESS);
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq_a), 0);
	CHECK_EQ(ibv_destroy_cq(cq_b), 0);
	world_free(&src);
	world_free(&dst);
}

static void message(uint64_t wr_id, enum ibv_wc_status status)
{
	world_send(a, wr_id, world_sge(&src, 0, 8));
	world_expect(cq_b, wr_id, status);
}

/* Returns whether the refusal was there at the initiator's first poll. */
static bool refusal_came_at_once(void)
{
	struct ibv_wc wc[2];
	int n;

	set_up();
	world_connect(&w, a, b);
	for (int i = 1; i <= 3; i++)
		world_recv(b, i, world_sge(&dst, 0, i == 3 ? 4 : 8));
	message(1, IBV_WC_SUCCESS);	/* it establishes the connection, and is answered at once */
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < POLLS; i++)
		CHECK_EQ(ibv_poll_cq(cq_b, 1, wc), 0);
	message(2, IBV_WC_SUCCESS);
	message(3, IBV_WC_LOC_LEN_ERR);
	n = ibv_poll_cq(cq_a, 2, wc);
	world_poll(cq_a, wc + n, 2 - n);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_REM_INV_REQ_ERR);
	tear_down();
	return n == 2;
}

/*
 * The receiver owes an ACK, which waits for company; the refusal that follows does not. Other
 * threads may be in the way at times.
 */
static void test_refusal_behind_an_ack(void)
{
	int at_once = 0;

	for (int i = 0; i < ROUNDS; i++)
		at_once += refusal_came_at_once();
	printf("%d of %d refusals at once\n", at_once, ROUNDS);
	CHECK(at_once > 0);
}

/* The responder was ready to receive before there was a peer. */
static void test_refusal_to_a_latecomer(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	set_up();
	sge = world_sge(&src, 0, 8);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &dst, 0);
	wr.wr.rdma.rkey ^= 1;
	world_move(&w, a, IBV_QPS_INIT, 0);
	world_move(&w, b, IBV_QPS_INIT, 0);
	world_move(&w, b, IBV_QPS_RTR, a->qp_num);
	world_move(&w, a, IBV_QPS_RTR, b->qp_num);
	world_move(&w, a, IBV_QPS_RTS, b->qp_num);
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_REM_ACCESS_ERR);
	world_event(&w, IBV_EVENT_COMM_EST);
	world_event(&w, IBV_EVENT_QP_ACCESS_ERR);
	tear_down();
}

int main(void)
{
	setenv("VERBENA_LOG", "error", 1);	/* refusals are what this is about */
	world_open(&w);
	test_refusal_behind_an_ack();
	for (int i = 0; i < ROUNDS; i++)
		test_refusal_to_a_latecomer();
	world_close(&w);
	return 0;
}
