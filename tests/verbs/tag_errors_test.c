/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors of tag matching: buffers that are too small or not writable, READs and FINs that fail, and
 * queue pairs that end in the middle of a message.
 */
#include <endian.h>

#include "tags/bench.h"

static void test_too_long(void)
{
	static const uint32_t lengths[] = { 65, 3000 };

	for (int i = 0; i < 2; i++) {
		struct bench b;

		bench_open(&b, 0, 1);
		b.mtu = i ? IBV_MTU_256 : IBV_MTU_1024;
		connect_qps(&b);
		add_tag(&b, 1, 1, FULL_MASK, 0, 64);
		add_tag(&b, 2, 2, FULL_MASK, 0, 64);
		put_tmh(&b, IBV_TMH_EAGER, 1);
		world_send(b.from, 1, world_sge(&b.src, 0, TMH + lengths[i]));
		for (struct seen s = next_seen(&b); s.flags != 0 || s.status; s = next_seen(&b)) {
			if (s.status == IBV_WC_SUCCESS)
				continue;
			CHECK_EQ(s.wr_id, 1);
			CHECK_EQ(s.status, IBV_WC_LOC_LEN_ERR);
			break;
		}
		world_expect(b.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
		expect_dead(&b, b.to);
		/* The other tags in the list remain usable for other QPs. */
		CHECK_EQ(ibv_destroy_qp(b.to), 0);
		CHECK_EQ(ibv_destroy_qp(b.from), 0);
		b.from = world_qp(&b.w, IBV_QPT_RC, b.send_cq, NULL);
		b.to = new_receiver(&b, 0);
		connect_qps(&b);
		send_tag(&b, IBV_TMH_EAGER, 2, 8);
		expect(&b, 2, IBV_WC_TM_RECV, BOTH);
		bench_close(&b);
	}
}

/* A key without write access, for both ways to fill the buffer. */
static void test_bad_buffer(void)
{
	for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
		struct buffer closed;
		struct bench b;
		struct ibv_sge sge;
		struct ibv_ops_wr wr;

		bench_open(&b, 0, 0);
		connect_qps(&b);
		closed = world_buffer(&b.w, 4096, 0);
		sge = world_sge(&closed, 0, 64);
		wr = tag_at(&b, 1, 1, FULL_MASK, &sge);
		CHECK_EQ(post_op(&b, &wr), 0);
		expect(&b, 77, IBV_WC_TM_ADD, 0);
		if (rendezvous) {
			send_request(&b, 1, 512, 64, 0);
			expect(&b, 1, IBV_WC_TM_RECV, MATCH);
		} else {
			put_tmh(&b, IBV_TMH_EAGER, 1);
			world_send(b.from, 1, world_sge(&b.src, 0, TMH + 8));
		}
		expect_error(&b, 1, IBV_WC_LOC_PROT_ERR);
		if (!rendezvous)
			world_expect(b.send_cq, 1, IBV_WC_REM_OP_ERR);
		expect_dead(&b, b.to);
		world_free(&closed);
		bench_close(&b);
	}
}

/* The READ is refused: its tag completes in error, and the other rendezvous are flushed. */
static void test_read_fails(void)
{
	struct bench b;
	struct ibv_rvh *rvh;
	struct seen s;

	bench_open(&b, 0, 0);
	connect_qps(&b);
	move_qp(&b, b.to, IBV_QPS_SQD, 0);
	for (unsigned int i = 0; i < 12; i++) {
		add_tag(&b, i, i, FULL_MASK, i * 64, 64);
		rvh = (struct ibv_rvh *)(b.src.data + TMH);
		*rvh = (struct ibv_rvh){ htobe64((uintptr_t)b.src.data),
					 htobe32(b.src.mr->rkey ^ (i == 0)), htobe32(64) };
		put_tmh(&b, IBV_TMH_RNDV, i);
		send_raw(&b, REQUEST);
		expect(&b, i, IBV_WC_TM_RECV, MATCH);
	}
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	CHECK_EQ(ibv_modify_qp(b.to, &attr, IBV_QP_STATE), 0);
	s = expect_error(&b, 0, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(s.opcode, IBV_WC_TM_RECV);
	for (unsigned int i = 1; i < 12; i++)
		expect_error(&b, i, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	while (world_has_event(&b.w)) {
		struct ibv_async_event e;

		CHECK_EQ(ibv_get_async_event(b.w.ctx, &e), 0);
		ibv_ack_async_event(&e);
	}
	bench_close(&b);
}

/* The FIN has no receive: the data has arrived, but the connection fails. */
static void test_fin_fails(void)
{
	struct bench b;

	bench_open(&b, 0, 0);
	b.rnr_retry = 1;
	connect_qps(&b);
	add_tag(&b, 1, 1, FULL_MASK, 0, 64);
	send_request(&b, 1, 512, 64, 0);
	expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	expect(&b, 1, IBV_WC_TM_RECV, VALID);
	CHECK_MEM(b.dst.data, b.src.data + 512, 64);
	for (int i = 0; i < 100; i++)
		expect_nothing(&b);
	world_event(&b.w, IBV_EVENT_QP_FATAL);
	expect_dead(&b, b.to);
	bench_close(&b);
}

/* The sender is destroyed during a rendezvous: the READ gets no response. */
static void test_sender_gone(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct bench b;

	bench_open(&b, 0, 0);
	b.timeout = 8;
	connect_qps(&b);
	move_qp(&b, b.to, IBV_QPS_SQD, 0);
	add_tag(&b, 1, 1, FULL_MASK, 0, 64);
	send_request(&b, 1, 512, 64, 0);
	expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	CHECK_EQ(ibv_destroy_qp(b.from), 0);
	b.from = NULL;
	CHECK_EQ(ibv_modify_qp(b.to, &attr, IBV_QP_STATE), 0);
	expect_error(&b, 1, IBV_WC_RETRY_EXC_ERR);
	expect_dead(&b, b.to);
	bench_close(&b);
}

enum end { TO_ERROR, TO_RESET, DESTROYED };

static void end_qp(struct bench *b, enum end how)
{
	if (how == DESTROYED) {
		CHECK_EQ(ibv_destroy_qp(b->to), 0);
		b->to = NULL;
		return;
	}
	move_qp(b, b->to, how == TO_ERROR ? IBV_QPS_ERR : IBV_QPS_RESET, 0);
	if (how == TO_ERROR)
		world_event(&b->w, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* A QP ends during rendezvous: each tag completes once, and its slot is free. */
static void ends_in_rendezvous(enum end how)
{
	struct bench b;

	bench_open(&b, 0, 0);
	connect_qps(&b);
	move_qp(&b, b.to, IBV_QPS_SQD, 0);
	for (unsigned int i = 0; i < 10; i++) {
		add_tag(&b, i, i, FULL_MASK, i * 64, 64);
		send_request(&b, i, 512, 64, 0);
		expect(&b, i, IBV_WC_TM_RECV, MATCH);
	}
	end_qp(&b, how);
	for (unsigned int i = 0; i < 10; i++)
		expect_error(&b, i, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	for (unsigned int i = 0; i < TAGS; i++)
		add_tag(&b, i, i, FULL_MASK, 0, 64);
	bench_close(&b);
}

/*
 * A QP ends in the middle of an eager message: its sender fails at the second SGE, whose key is
 * wrong, after packets of the first SGE have arrived.
 */
static void ends_in_message(enum end how, bool expected)
{
	struct bench b;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2 };
	struct ibv_srq_attr limit = { .srq_limit = 2 };

	bench_open(&b, 0, 2);
	CHECK_EQ(ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT), 0);
	b.mtu = IBV_MTU_256;
	connect_qps(&b);
	if (expected)
		add_tag(&b, 1, 1, FULL_MASK, 0, 4096);
	put_tmh(&b, IBV_TMH_EAGER, 1);
	sge[0] = world_sge(&b.src, 0, 1024);
	sge[1] = world_sge(&b.src, 1024, 512);
	sge[1].lkey ^= 0x00010000;
	world_post(b.from, &wr);
	world_expect(b.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	/* The first packet has arrived. */
	if (expected)
		expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	else
		world_event(&b.w, IBV_EVENT_SRQ_LIMIT_REACHED);
	expect_nothing(&b);
	end_qp(&b, how);
	if (expected)
		expect_error(&b, 1, IBV_WC_WR_FLUSH_ERR);
	else if (how == TO_ERROR)
		expect_error(&b, ORDINARY_ID, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	/* The incomplete message is not counted: the list stays in step. */
	add_tag(&b, 2, 2, FULL_MASK, 0, 64);
	bench_close(&b);
}

static void test_ends(void)
{
	for (enum end how = TO_ERROR; how <= DESTROYED; how++) {
		ends_in_rendezvous(how);
		ends_in_message(how, true);
		ends_in_message(how, false);
	}
}

/* Completions polled after their QP was destroyed, and ones that were never polled. */
static void test_destroy_order(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_ops_wr wr;
	struct seen s;

	bench_open(&b, 0, 1);
	connect_qps(&b);
	sge = world_sge(&b.dst, 0, 64);
	wr = tag_at(&b, 1, 1, FULL_MASK, &sge);
	CHECK_EQ(post_op(&b, &wr), 0);
	send_tag(&b, IBV_TMH_EAGER, 1, 8);
	CHECK_EQ(ibv_destroy_qp(b.to), 0);
	b.to = NULL;
	expect(&b, 77, IBV_WC_TM_ADD, 0);
	expect(&b, 1, IBV_WC_TM_RECV, BOTH);
	CHECK_EQ(post_op(&b, &wr), 0);
	CHECK_EQ(ibv_destroy_srq(b.srq), 0);
	CHECK(!try_poll(&b, &s));
	struct ibv_srq_init_attr_ex attr = srq_attr(&b);
	b.srq = ibv_create_srq_ex(b.w.ctx, &attr);
	CHECK(b.srq);
	bench_close(&b);
}

int main(void)
{
	test_too_long();
	test_bad_buffer();
	test_read_fails();
	test_fin_fails();
	test_sender_gone();
	test_ends();
	test_destroy_order();
	return 0;
}
