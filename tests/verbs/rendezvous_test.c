/* SPDX-License-Identifier: BSD-2-Clause */
/* Rendezvous messages to a tag-matching SRQ: executed by the device, or left to the program. */
#include <endian.h>

#include "tags/bench.h"

static void test_rendezvous(void)
{
	static const uint32_t lengths[] = { 0, 1, 1024, 1025, 100000, 3 << 20 };
	struct bench b;

	bench_open(&b, 0, 0);
	connect_qps(&b);
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		struct seen s;

		memset(b.dst.data, 0, len + 1);
		b.dst.data[len] = 0xee;
		add_tag(&b, 70 + i, 7, 0xff, 0, len + i % 2);
		post_fin(&b, i);
		send_request(&b, 0x1107, 512, len, i * 8);
		s = expect(&b, 70 + i, IBV_WC_TM_RECV, MATCH);
		CHECK_EQ(s.info.tag, 0x1107);
		CHECK_EQ(s.info.priv, PRIV);
		s = expect(&b, 70 + i, IBV_WC_TM_RECV, VALID);
		CHECK_EQ(s.byte_len, len);
		CHECK_EQ(s.info.tag, 0);
		CHECK_EQ(s.qp_num, b.to->qp_num);
		CHECK_MEM(b.dst.data, b.src.data + 512, len);
		CHECK_EQ(b.dst.data[len], 0xee);
		expect_fin(&b, i, 0x1107, len);
	}
	expect_nothing(&b);
	bench_close(&b);
}

/* More rendezvous than the device's send queue holds, while it cannot send. */
static void test_many_rendezvous(void)
{
	struct bench b;
	unsigned int matched = 0, valid = 0;

	bench_open(&b, 0, 0);
	connect_qps(&b);
	move_qp(&b, b.to, IBV_QPS_SQD, 0);
	for (unsigned int i = 0; i < 14; i++) {
		add_tag(&b, i, i, FULL_MASK, i * 4096, 4096);
		post_fin(&b, i);
		send_request(&b, i, 4096 * (i + 1), 4096, 0);
		expect(&b, i, IBV_WC_TM_RECV, MATCH);
	}
	expect_nothing(&b);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	CHECK_EQ(ibv_modify_qp(b.to, &attr, IBV_QP_STATE), 0);
	while (valid < 14) {
		struct seen s = expect(&b, valid, IBV_WC_TM_RECV, VALID);

		CHECK_EQ(s.byte_len, 4096);
		CHECK_MEM(b.dst.data + valid * 4096, b.src.data + 4096 * (valid + 1), 4096);
		valid++;
	}
	for (; matched < 14; matched++)
		expect_fin(&b, matched, matched, 4096);
	bench_close(&b);
}

/* A request that arrives before the receiver can send waits; nothing is lost. */
static void test_early_request(void)
{
	struct bench b;

	bench_open(&b, 0, 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		move_qp(&b, b.from, s, b.to->qp_num);
		if (s < IBV_QPS_RTS)
			move_qp(&b, b.to, s, b.from->qp_num);
	}
	add_tag(&b, 1, 1, FULL_MASK, 0, 64);
	post_fin(&b, 0);
	*(struct ibv_rvh *)(b.src.data + TMH) = (struct ibv_rvh){
		htobe64((uintptr_t)b.src.data + 512), htobe32(b.src.mr->rkey), htobe32(64)
	};
	put_tmh(&b, IBV_TMH_RNDV, 1);
	world_send(b.from, 1, world_sge(&b.src, 0, REQUEST));
	for (int i = 0; i < 1000; i++)
		expect_nothing(&b);
	move_qp(&b, b.to, IBV_QPS_RTS, b.from->qp_num);
	expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	expect(&b, 1, IBV_WC_TM_RECV, VALID);
	CHECK_MEM(b.dst.data, b.src.data + 512, 64);
	bench_close(&b);
}

/* The device leaves a rendezvous to the program, which receives the request. */
static void expect_left_to_program(uint32_t max_send_wr, uint8_t rd_atomic, uint32_t room,
				   uint32_t len)
{
	struct bench b;
	struct seen s;
	uint32_t placed = room < REQUEST + 24 ? room : REQUEST + 24;

	bench_open(&b, max_send_wr, 0);
	b.rd_atomic = rd_atomic;
	connect_qps(&b);
	memset(b.dst.data, 0xee, 4096);
	add_tag(&b, 1, 1, FULL_MASK, 0, room);
	send_request(&b, 1, 512, len, 24);
	s = expect_error(&b, 1, IBV_WC_TM_RNDV_INCOMPLETE);
	CHECK_EQ(s.opcode, IBV_WC_TM_RECV);
	CHECK(s.vendor_err != 0);
	CHECK_EQ(s.byte_len, placed);
	CHECK_EQ(s.info.tag, 1);
	CHECK_MEM(b.dst.data, b.src.data, placed);
	CHECK_EQ(b.dst.data[placed], 0xee);
	/* This is not an error of the QP. */
	add_tag(&b, 2, 2, FULL_MASK, 0, 64);
	send_tag(&b, IBV_TMH_EAGER, 2, 8);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	bench_close(&b);
}

static void test_left_to_program(void)
{
	/* the buffer is too small for the message, */
	expect_left_to_program(0, 4, 99, 100);
	expect_left_to_program(0, 4, 20, 100);		/* and for the request */
	expect_left_to_program(0, 4, 0, 1);
	/* the program has a send queue of its own */
	expect_left_to_program(8, 4, 4096, 100);
	expect_left_to_program(0, 0, 4096, 100);		/* no READ allowed */
}

int main(void)
{
	test_rendezvous();
	test_many_rendezvous();
	test_early_request();
	test_left_to_program();
	return 0;
}
