/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RC data path between two queue pairs of one process: every operation, sizes around the MTU,
 * ordering, errors.
 */
#include <endian.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq_a, *cq_b;
static struct ibv_qp *a, *b;
static struct buffer src, dst;

enum {
	BUF = 64 * 1024,
};

static void set_up(void)
{
	cq_a = world_cq(&w, 64);
	cq_b = world_cq(&w, 64);
	a = world_qp(&w, IBV_QPT_RC, cq_a, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq_b, NULL);
	world_connect(&w, a, b);
	src = world_buffer(&w, BUF, WORLD_ACCESS);
	dst = world_buffer(&w, BUF, WORLD_ACCESS);
	for (size_t i = 0; i < BUF; i++)
		src.data[i] = i * 31 + (i >> 8);
}

static void tear_down(void)
{
	world_destroy_pair(a, b, cq_a, cq_b);
	world_free(&src);
	world_free(&dst);
}

static const uint32_t sizes[] = { 0, 1, 3, 4, 1023, 1024, 1025, 4096, 5000, BUF };

static void test_send(void)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_wc wc;

		memset(dst.data, 0, BUF);
		world_recv(b, 100 + i, world_sge(&dst, 0, BUF));
		world_send(a, i, world_sge(&src, 0, sizes[i]));
		wc = world_expect(cq_b, 100 + i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.byte_len, sizes[i]);
		CHECK_EQ(wc.qp_num, b->qp_num);
		CHECK_EQ(wc.wc_flags & IBV_WC_WITH_IMM, 0);
		CHECK_MEM(dst.data, src.data, sizes[i]);
		wc = world_expect(cq_a, i, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_SEND);
		CHECK_EQ(wc.qp_num, a->qp_num);
	}
}

/* Gathered from three SGEs, scattered to two. */
static void test_scatter_gather(void)
{
	struct ibv_sge from[] = { world_sge(&src, 10, 700), world_sge(&src, 5000, 1),
				  world_sge(&src, 2000, 900) };
	struct ibv_sge to[] = { world_sge(&dst, 0, 650), world_sge(&dst, 1000, 4000) };
	struct ibv_recv_wr rwr = { .wr_id = 2, .sg_list = to, .num_sge = 2 }, *bad;
	struct ibv_send_wr swr = { .wr_id = 1, .sg_list = from, .num_sge = 3,
				   .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	uint8_t flat[1601];

	memcpy(flat, src.data + 10, 700);
	flat[700] = src.data[5000];
	memcpy(flat + 701, src.data + 2000, 900);
	CHECK_EQ(ibv_post_recv(b, &rwr, &bad), 0);
	world_post(a, &swr);
	CHECK_EQ(world_expect(cq_b, 2, IBV_WC_SUCCESS).byte_len, sizeof(flat));
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	CHECK_MEM(dst.data, flat, 650);
	CHECK_MEM(dst.data + 1000, flat + 650, sizeof(flat) - 650);
}

static void test_immediate(void)
{
	struct ibv_sge sge = world_sge(&src, 0, 100);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, &dst, 512);
	struct ibv_wc wc;

	wr.imm_data = htobe32(0xcafe0001);
	world_recv(b, 7, world_sge(&dst, 0, 0));
	world_post(a, &wr);
	wc = world_expect(cq_b, 7, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.byte_len, 100);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(wc.imm_data, htobe32(0xcafe0001));
	CHECK_MEM(dst.data + 512, src.data, 100);
	CHECK_EQ(world_expect(cq_a, 1, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
}

static void test_write_and_read(void)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_sge sge = world_sge(&src, 0, sizes[i]);
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, i, &sge, &dst, 0);

		memset(dst.data, 0, BUF);
		world_post(a, &wr);
		CHECK_EQ(world_expect(cq_a, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
		CHECK_MEM(dst.data, src.data, sizes[i]);

		memset(src.data, 0, sizes[i]);
		wr = world_rdma(IBV_WR_RDMA_READ, i, &sge, &dst, 0);
		world_post(a, &wr);
		CHECK_EQ(world_expect(cq_a, i, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
		CHECK_MEM(src.data, dst.data, sizes[i]);
	}
}

static void test_atomics(void)
{
	struct ibv_sge sge = world_sge(&src, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, &dst, 64);
	uint64_t *cell = (uint64_t *)(dst.data + 64), *result = (uint64_t *)src.data;

	*cell = 40;
	wr.wr.atomic.compare_add = 2;
	world_post(a, &wr);
	CHECK_EQ(world_expect(cq_a, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	CHECK_EQ(*result, 40);
	CHECK_EQ(*cell, 42);

	wr = world_rdma(IBV_WR_ATOMIC_CMP_AND_SWP, 2, &sge, &dst, 64);
	wr.wr.atomic.compare_add = 41;
	wr.wr.atomic.swap = 1;
	world_post(a, &wr);
	CHECK_EQ(world_expect(cq_a, 2, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	CHECK_EQ(*result, 42);
	CHECK_EQ(*cell, 42);
	wr.wr.atomic.compare_add = 42;
	world_post(a, &wr);
	world_expect(cq_a, 2, IBV_WC_SUCCESS);
	CHECK_EQ(*cell, 1);
}

/* Inline data is copied when it is posted: the buffer may change at once and needs no key. */
static void test_inline(void)
{
	uint8_t local[64];
	struct ibv_sge sge = { .addr = (uintptr_t)local, .length = sizeof(local), .lkey = 0 };
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &dst, 0);

	memset(local, 0x5a, sizeof(local));
	wr.send_flags |= IBV_SEND_INLINE;
	world_post(a, &wr);
	memset(local, 0, sizeof(local));
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	for (size_t i = 0; i < sizeof(local); i++)
		CHECK_EQ(dst.data[i], 0x5a);
}

/* An empty SGE needs no address, inline too (UCX): UBSan must see no copy from NULL. */
static void test_empty_inline(void)
{
	uint64_t local = 0x0102030405060708;
	struct ibv_sge sge[] = { { .addr = (uintptr_t)&local, .length = sizeof(local) }, { 0 } };
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, sge, &dst, 0);

	wr.num_sge = 2;
	wr.send_flags |= IBV_SEND_INLINE;
	memset(dst.data, 0, sizeof(local));
	world_post(a, &wr);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
	CHECK_MEM(dst.data, &local, sizeof(local));
}

/* A list of requests completes in order, and only signaled ones give completions. */
static void test_chain(void)
{
	struct ibv_sge sge = world_sge(&src, 0, 8);
	struct ibv_send_wr wr[10];
	struct ibv_wc wc[2];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 10; i++) {
			wr[i] = world_rdma(IBV_WR_RDMA_WRITE, i, &sge, &dst, i * 8);
			wr[i].next = i < 9 ? &wr[i + 1] : NULL;
			wr[i].send_flags = i == 4 || i == 9 ? IBV_SEND_SIGNALED : 0;
		}
		world_post(a, wr);
		world_poll(cq_a, wc, 2);
		CHECK_EQ(wc[0].wr_id, 4);
		CHECK_EQ(wc[1].wr_id, 9);
	}
	CHECK_EQ(ibv_poll_cq(cq_a, 1, wc), 0);
}

/*
 * A request that arrives before its receive gets an RNR NAK and is retried; rnr_retry 7 means
 * without end.
 */
static void test_receiver_not_ready(void)
{
	world_send(a, 1, world_sge(&src, 0, 16));
	for (int i = 0; i < 100; i++) {
		struct ibv_wc wc;

		CHECK_EQ(ibv_poll_cq(cq_b, 1, &wc), 0);
	}
	world_recv(b, 2, world_sge(&dst, 0, 16));
	world_expect(cq_b, 2, IBV_WC_SUCCESS);
	world_expect(cq_a, 1, IBV_WC_SUCCESS);
}

struct fault {
	const char *name;
	void (*spoil)(struct ibv_send_wr *wr);
	enum ibv_wc_status status;
};

static void wrong_rkey(struct ibv_send_wr *wr)
{
	wr->wr.rdma.rkey ^= 0x100;
}

static void beyond_end(struct ibv_send_wr *wr)
{
	wr->wr.rdma.remote_addr = (uintptr_t)dst.data + BUF - 1;
}

static void wrong_lkey(struct ibv_send_wr *wr)
{
	wr->sg_list->lkey ^= 0x100;
}

static const struct fault faults[] = {
	{ "wrong rkey", wrong_rkey, IBV_WC_REM_ACCESS_ERR },
	{ "beyond the end", beyond_end, IBV_WC_REM_ACCESS_ERR },
	{ "wrong lkey", wrong_lkey, IBV_WC_LOC_PROT_ERR },
};

/*
 * The failed request completes with the status of the fault, all later ones are flushed in order,
 * and both ends are in ERR where the specification requires it.
 */
static void test_fault(const struct fault *f)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	set_up();
	sge = world_sge(&src, 0, 64);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &dst, 0);
	f->spoil(&wr);
	wr.send_flags = 0;	/* errors complete even if unsignaled */
	world_recv(a, 50, world_sge(&dst, 0, 64));
	world_post(a, &wr);
	wc = world_expect(cq_a, 1, f->status);
	CHECK(wc.vendor_err);
	world_expect(cq_a, 50, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_query_qp(a, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	world_send(a, 2, world_sge(&src, 0, 8));
	world_expect(cq_a, 2, IBV_WC_WR_FLUSH_ERR);
	if (f->status == IBV_WC_REM_ACCESS_ERR)
		world_event(&w, IBV_EVENT_QP_ACCESS_ERR);
	tear_down();
}

int main(void)
{
	world_open(&w);
	set_up();
	test_send();
	test_scatter_gather();
	test_immediate();
	test_write_and_read();
	test_atomics();
	test_inline();
	test_empty_inline();
	test_chain();
	test_receiver_not_ready();
	tear_down();
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		test_fault(&faults[i]);
	world_close(&w);
	return 0;
}
