/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fatal NAK is sent only once, so the sending process must neither lose nor delay it: not when an
 * ACK is being delayed, and not when the QP has not yet resolved the location of its peer.
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
	world_destroy_pair(a, b, cq_a, cq_b);
	world_free(&src);
	world_free(&dst);
}

static void message(uint64_t wr_id, enum ibv_wc_status status)
{
	world_send(a, wr_id, world_sge(&src, 0, 8));
	world_expect(cq_b, wr_id, status);
}

/* Returns whether the NAK had arrived at the first poll of the requester. */
static bool nak_came_at_once(void)
{
	struct ibv_wc wc[2];
	int n;

	set_up();
	world_connect(&w, a, b);
	for (int i = 1; i <= 3; i++)
		world_recv(b, i, world_sge(&dst, 0, i == 3 ? 4 : 8));
	/* the first message sets up the connection and is acknowledged at once */
	message(1, IBV_WC_SUCCESS);
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
 * The receiver delays an ACK, but must send the NAK that follows it at once. Other threads may get
 * in the way, so not every round has to succeed.
 */
static void test_nak_behind_delayed_ack(void)
{
	int at_once = 0;

	for (int i = 0; i < ROUNDS; i++)
		at_once += nak_came_at_once();
	printf("%d of %d NAKs at once\n", at_once, ROUNDS);
	CHECK(at_once > 0);
}

/* The responder became ready to receive before its peer existed. */
static void test_nak_to_late_peer(void)
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
	setenv("VERBENA_LOG", "error", 1);	/* keeps the expected errors out of the log */
	world_open(&w);
	test_nak_behind_delayed_ack();
	for (int i = 0; i < ROUNDS; i++)
		test_nak_to_late_peer();
	world_close(&w);
	return 0;
}
