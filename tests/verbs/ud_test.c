/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams and the unreliable connection: delivery, dropped packets, the SQE state and the
 * recovery from it.
 */
#include <endian.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;
static struct ibv_ah *ah;
static struct buffer src, dst;

enum {
	GRH = 40,
	BUF = 16384,
};

static void set_up(enum ibv_qp_type type)
{
	struct ibv_ah_attr attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 3,
			 .traffic_class = 0x20 },
		.is_global = 1,
		.port_num = 1,
	};

	cq_a = world_cq(&w, 64);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, type, cq_a, NULL);
	b = world_qp(&w, type, cq_b, NULL);
	world_connect(&w, a, b);
	ah = ibv_create_ah(w.pd, &attr);
	CHECK(ah);
	src = world_buffer(&w, BUF, WORLD_ACCESS);
	dst = world_buffer(&w, BUF, WORLD_ACCESS);
	for (int i = 0; i < BUF; i++)
		src.data[i] = i * 13 + 1;
}

static void tear_down(void)
{
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	world_destroy_pair(a, b, cq_a, cq_b);
	world_free(&src);
	world_free(&dst);
}

static void datagram(uint64_t wr_id, struct ibv_sge sge, uint32_t qkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(wr_id),
		.wr.ud = { .ah = ah, .remote_qpn = b->qp_num, .remote_qkey = qkey },
	};

	world_post(a, &wr);
}

/*
 * A queued request goes to the address of its handle as posted, although the handle has been
 * destroyed and its memory reused.
 */
static void test_stale_handle(void)
{
	struct ibv_ah_attr elsewhere = {
		.grh = { .dgid.raw = { [10] = 0xff, 0xff, 127, 0, 0, 99 },
			 .sgid_index = w.gid_index },
		.is_global = 1,
		.port_num = 1,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct ibv_ah *own = ah, *next[64];

	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
	world_recv(b, 1, world_sge(&dst, 0, BUF));
	datagram(2, world_sge(&src, 0, 64), WORLD_QKEY);
	CHECK_EQ(ibv_destroy_ah(own), 0);
	for (int i = 0; i < 64; i++)
		CHECK((next[i] = ibv_create_ah(w.pd, &elsewhere)));
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE), 0);
	world_expect(cq_a, 2, IBV_WC_SUCCESS);
	world_expect(cq_b, 1, IBV_WC_SUCCESS);
	ah = next[0];
	for (int i = 1; i < 64; i++)
		CHECK_EQ(ibv_destroy_ah(next[i]), 0);
}

static void test_delivery(void)
{
	static const uint32_t sizes[] = { 0, 1, 2, 3, 4, 255, 1024 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_wc wc;

		world_recv(b, i, world_sge(&dst, 0, BUF));
		datagram(50 + i, world_sge(&src, i, sizes[i]), WORLD_QKEY);
		world_expect(cq_a, 50 + i, IBV_WC_SUCCESS);
		wc = world_expect(cq_b, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, sizes[i] + GRH);
		CHECK_EQ(wc.src_qp, a->qp_num);
		CHECK_EQ(wc.sl, w.gid.raw[10] == 0xff ? 0xa : 0x9); /* IPv4 or IPv6 */
		CHECK_EQ(wc.imm_data, htobe32(50 + i));
		CHECK(wc.wc_flags & IBV_WC_GRH);
		CHECK_MEM(dst.data + GRH, src.data + i, sizes[i]);
	}
}

/* A reply can be addressed by the completion and the GRH. */
static void test_reply(void)
{
	struct ibv_ah *back;
	struct ibv_wc wc;

	world_recv(b, 1, world_sge(&dst, 0, BUF));
	datagram(2, world_sge(&src, 0, 8), WORLD_QKEY);
	world_expect(cq_a, 2, IBV_WC_SUCCESS);
	wc = world_expect(cq_b, 1, IBV_WC_SUCCESS);
	back = ibv_create_ah_from_wc(w.pd, &wc, (struct ibv_grh *)dst.data, 1);
	CHECK(back);
	CHECK_EQ(ibv_destroy_ah(back), 0);
}

static uint32_t qkey_violations(void)
{
	struct ibv_port_attr port;

	CHECK_EQ(ibv_query_port(w.ctx, 1, &port), 0);
	CHECK_EQ(port.bad_pkey_cntr, 0);
	return port.qkey_viol_cntr;
}

/*
 * Wrong Q_Key, or no receive: neither is reported, but the port counts the wrong key, and the next
 * datagram arrives.
 */
static void test_drops(void)
{
	uint32_t before = qkey_violations();
	struct ibv_wc wc;

	datagram(1, world_sge(&src, 0, 8), WORLD_QKEY);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(ibv_poll_cq(cq_b, 1, &wc), 0);
	world_recv(b, 7, world_sge(&dst, 0, BUF));
	datagram(2, world_sge(&src, 0, 8), WORLD_QKEY + 1);
	datagram(3, world_sge(&src, 0, 16), WORLD_QKEY);
	world_expect(cq_a, 2, IBV_WC_SUCCESS);
	world_expect(cq_a, 3, IBV_WC_SUCCESS);
	wc = world_expect(cq_b, 7, IBV_WC_SUCCESS);
	if (wc.imm_data == htobe32(1)) {
		/* The network delayed it until the receive was posted. */
		world_recv(b, 7, world_sge(&dst, 0, BUF));
		datagram(3, world_sge(&src, 0, 16), WORLD_QKEY);
		world_expect(cq_a, 3, IBV_WC_SUCCESS);
		wc = world_expect(cq_b, 7, IBV_WC_SUCCESS);
	}
	CHECK_EQ(wc.imm_data, htobe32(3));
	CHECK_EQ(wc.byte_len, 16 + GRH);
	CHECK_EQ(qkey_violations(), before + 1);
}

/* The Q_Key violation counter has 16 bits and saturates. */
static void test_key_counter_ends(void)
{
	uint32_t count = qkey_violations();

	for (uint32_t beyond = 0; beyond < 2; beyond += count == UINT16_MAX) {
		for (int i = 0; i < 1000; i++) {
			datagram(1, world_sge(&src, 0, 0), WORLD_QKEY + 1);
			world_expect(cq_a, 1, IBV_WC_SUCCESS);
		}
		CHECK(qkey_violations() >= count);
		count = qkey_violations();
	}
	CHECK_EQ(count, UINT16_MAX);
}

/*
 * IBTA: a failed send moves an unreliable QP to SQE; receives continue; a transition from SQE to
 * RTS is allowed.
 */
static void test_send_queue_error(void)
{
	struct ibv_sge bad = world_sge(&src, 0, 8);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_init_attr init;

	bad.lkey ^= 0x1000;
	datagram(1, bad, WORLD_QKEY);
	CHECK(world_expect(cq_a, 1, IBV_WC_LOC_PROT_ERR).vendor_err);
	CHECK_EQ(ibv_query_qp(a, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_SQE);
	datagram(2, world_sge(&src, 0, 8), WORLD_QKEY);
	world_expect(cq_a, 2, IBV_WC_WR_FLUSH_ERR);
	attr.qp_state = IBV_QPS_RTS;
	attr.cur_qp_state = IBV_QPS_SQE;
	CHECK_EQ(ibv_modify_qp(a, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	world_recv(b, 3, world_sge(&dst, 0, BUF));
	datagram(4, world_sge(&src, 0, 8), WORLD_QKEY);
	world_expect(cq_a, 4, IBV_WC_SUCCESS);
	world_expect(cq_b, 3, IBV_WC_SUCCESS);
}

/* Destroying an address handle does not affect requests posted with it. */
static void test_handle_destroyed(void)
{
	struct ibv_ah *first = ah;
	struct ibv_ah_attr attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 3 },
		.is_global = 1,
		.port_num = 1,
	};

	world_recv(b, 1, world_sge(&dst, 0, BUF));
	datagram(2, world_sge(&src, 0, 8), WORLD_QKEY);
	CHECK_EQ(ibv_destroy_ah(first), 0);
	ah = ibv_create_ah(w.pd, &attr);
	CHECK(ah);
	world_expect(cq_a, 2, IBV_WC_SUCCESS);
	world_expect(cq_b, 1, IBV_WC_SUCCESS);
}

static void test_unreliable_connection(void)
{
	struct ibv_sge sge = world_sge(&src, 0, 5000);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, &dst, 100);
	struct ibv_wc wc;

	world_recv(b, 5, world_sge(&dst, 0, 0));
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	wc = world_expect(cq_b, 5, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.byte_len, 5000);
	CHECK_MEM(dst.data + 100, src.data, 5000);
	world_recv(b, 6, world_sge(&dst, 0, BUF));
	world_send(a, 2, world_sge(&src, 3, 3000));
	world_expect(cq_a, 2, IBV_WC_SUCCESS);
	CHECK_EQ(world_expect(cq_b, 6, IBV_WC_SUCCESS).byte_len, 3000);
	CHECK_MEM(dst.data, src.data + 3, 3000);
}

int main(void)
{
	world_open(&w);
	set_up(IBV_QPT_UD);
	test_delivery();
	test_stale_handle();
	tear_down();
	set_up(IBV_QPT_UD);
	test_reply();
	test_drops();
	test_key_counter_ends();
	test_send_queue_error();
	test_handle_destroyed();
	tear_down();
	set_up(IBV_QPT_UC);
	test_unreliable_connection();
	tear_down();
	world_close(&w);
	return 0;
}
