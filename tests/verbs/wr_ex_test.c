/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_wr_*: building, posting, aborting and failing batches of requests. */
#include <endian.h>
#include <errno.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct ibv_qp_ex *qpx;
static struct buffer src, dst;

static struct ibv_qp *make(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = w.pd,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4,
			 .max_recv_sge = 4, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &attr);

	CHECK(qp);
	return qp;
}

static void set_up(void)
{
	cq = world_cq(&w, 128);
	a = make(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				     IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH |
				     IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV |
				     IBV_QP_EX_WITH_BIND_MW);
	qpx = ibv_qp_to_qp_ex(a);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
	src = world_buffer(&w, 8192, WORLD_ACCESS);
	dst = world_buffer(&w, 8192, WORLD_ACCESS);
	for (int i = 0; i < 8192; i++)
		src.data[i] = i * 7;
}

static void next(uint64_t wr_id, unsigned int flags)
{
	qpx->wr_id = wr_id;
	qpx->wr_flags = flags;
}

static uint64_t remote(size_t offset)
{
	return (uintptr_t)dst.data + offset;
}

static uint64_t local(size_t offset)
{
	return (uintptr_t)src.data + offset;
}

/* Five requests in one batch, the last one signaled. */
static void test_batch(void)
{
	uint64_t value = 0x1122334455667788;

	ibv_wr_start(qpx);
	next(1, 0);
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(0));
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 3000);
	next(2, 0);
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(4000));
	ibv_wr_set_inline_data(qpx, src.data + 50, 60);
	next(3, 0);
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(5000));
	ibv_wr_set_sge_list(qpx, 2, (struct ibv_sge[]){ world_sge(&src, 100, 10),
							 world_sge(&src, 300, 20) });
	next(4, 0);
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(6000));
	ibv_wr_set_inline_data_list(qpx, 3, (struct ibv_data_buf[]){ { src.data + 1, 5 },
								      { NULL, 0 },
								      { src.data + 9, 6 } });
	next(5, IBV_SEND_SIGNALED);
	ibv_wr_atomic_write(qpx, dst.mr->rkey, remote(7000), &value);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	world_expect(cq, 5, IBV_WC_SUCCESS);
	CHECK_MEM(dst.data, src.data, 3000);
	CHECK_MEM(dst.data + 4000, src.data + 50, 60);
	CHECK_MEM(dst.data + 5000, src.data + 100, 10);
	CHECK_MEM(dst.data + 5010, src.data + 300, 20);
	CHECK_MEM(dst.data + 6000, src.data + 1, 5);
	CHECK_MEM(dst.data + 6005, src.data + 9, 6);
	CHECK_MEM(dst.data + 7000, &value, 8);
}

static void test_others(void)
{
	uint64_t *cell = (uint64_t *)dst.data, *result = (uint64_t *)src.data;
	struct ibv_wc wc;

	*cell = 10;
	ibv_wr_start(qpx);
	next(1, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(qpx, dst.mr->rkey, remote(0), 5);
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 8);
	next(2, IBV_SEND_SIGNALED);
	ibv_wr_atomic_cmp_swp(qpx, dst.mr->rkey, remote(0), 15, 99);
	ibv_wr_set_sge(qpx, src.mr->lkey, local(8), 8);
	next(3, IBV_SEND_SIGNALED);
	ibv_wr_rdma_read(qpx, dst.mr->rkey, remote(0));
	ibv_wr_set_sge(qpx, src.mr->lkey, local(16), 8);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	for (int i = 1; i <= 3; i++)
		world_expect(cq, i, IBV_WC_SUCCESS);
	CHECK_EQ(result[0], 10);
	CHECK_EQ(result[1], 15);
	CHECK_EQ(result[2], 99);

	world_recv(b, 8, world_sge(&dst, 0, 100));
	ibv_wr_start(qpx);
	next(4, 0);
	ibv_wr_send_imm(qpx, htobe32(1234));
	ibv_wr_set_sge(qpx, 0, 0, 0);	/* an empty message */
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	wc = world_expect(cq, 8, IBV_WC_SUCCESS);
	CHECK_EQ(wc.imm_data, htobe32(1234));
	CHECK_EQ(wc.byte_len, 0);
}

static void test_write_with_immediate(void)
{
	struct ibv_wc wc;

	memset(dst.data, 0, 64);
	world_recv(b, 8, world_sge(&dst, 100, 100));
	ibv_wr_start(qpx);
	next(1, 0);
	ibv_wr_rdma_write_imm(qpx, dst.mr->rkey, remote(0), htobe32(77));
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 64);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	wc = world_expect(cq, 8, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc.imm_data, htobe32(77));
	CHECK_EQ(wc.byte_len, 64);
	CHECK_MEM(dst.data, src.data, 64);
}

/* Accesses the memory that the window grants to the QP at the other end. */
static void write_through(struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_sge sge = world_sge(&src, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 30, &sge, &dst, 0);

	wr.wr.rdma.rkey = rkey;
	world_post(qp, &wr);
	world_expect(cq, 30, IBV_WC_SUCCESS);
}

/*
 * Binds a window on this QP, which the peer uses and this side invalidates; then invalidates one of
 * the peer's remotely.
 */
static void test_windows(void)
{
	struct ibv_mr *mr = ibv_reg_mr(w.pd, dst.data, dst.len, WORLD_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = { .mr = mr, .addr = (uintptr_t)dst.data, .length = 64,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	uint32_t rkey;
	struct ibv_send_wr bind = { .wr_id = 4,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	CHECK(mr && mw);
	rkey = ibv_inc_rkey(mw->rkey);
	ibv_wr_start(qpx);
	next(1, IBV_SEND_SIGNALED);
	ibv_wr_bind_mw(qpx, mw, rkey, &info);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	CHECK_EQ(world_expect(cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	write_through(b, rkey);
	ibv_wr_start(qpx);
	next(2, IBV_SEND_SIGNALED);
	ibv_wr_local_inv(qpx, rkey);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	CHECK_EQ(world_expect(cq, 2, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);

	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = rkey = ibv_inc_rkey(rkey);
	bind.bind_mw.bind_info = info;
	world_post(b, &bind);
	world_expect(cq, 4, IBV_WC_SUCCESS);
	write_through(a, rkey);
	world_recv(b, 8, world_sge(&dst, 100, 100));
	ibv_wr_start(qpx);
	next(3, 0);
	ibv_wr_send_inv(qpx, rkey);
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 16);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	wc = world_expect(cq, 8, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, rkey);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* Calls outside a batch have no effect. */
static void test_no_batch(void)
{
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	ibv_wr_abort(qpx);
	qpx->wr_id = 99;
	ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, 0, 0, 0);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	ibv_wr_start(qpx);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	CHECK_EQ(ibv_poll_cq(qpx->qp_base.send_cq, 1, &(struct ibv_wc){ 0 }), 0);
}

static void test_abort(void)
{
	struct ibv_wc wc;

	memset(dst.data, 0, 64);
	ibv_wr_start(qpx);
	next(1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(0));
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 64);
	ibv_wr_abort(qpx);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CHECK_EQ(dst.data[1], 0);
}

static void write_one(void)
{
	next(1, IBV_SEND_SIGNALED);
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(0));
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 8);
}

static void too_many(void)
{
	for (int i = 0; i < 17; i++)
		write_one();
}

static void too_many_sges(void)
{
	struct ibv_sge list[5];

	for (int i = 0; i < 5; i++)
		list[i] = world_sge(&src, 0, 8);
	write_one();
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(0));
	ibv_wr_set_sge_list(qpx, 5, list);
}

static void too_much_inline(void)
{
	write_one();
	ibv_wr_rdma_write(qpx, dst.mr->rkey, remote(0));
	ibv_wr_set_inline_data(qpx, src.data, 8000);
	write_one();
}

static void not_of_the_type(void)
{
	static uint8_t header[14];

	ibv_wr_send_tso(qpx, header, sizeof(header), 100);
	write_one();
}

static void setter_first(void)
{
	ibv_wr_set_sge(qpx, src.mr->lkey, local(0), 8);
	write_one();
}

static const struct {
	void (*build)(void);
	int error;
} failures[] = {
	{ too_many, ENOMEM },	     { too_many_sges, EINVAL }, { too_much_inline, EINVAL },
	{ not_of_the_type, EINVAL }, { setter_first, EINVAL },
};

/* The first error is returned at the end, and nothing of the batch is posted. */
static void test_failures(void)
{
	struct ibv_wc wc;

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		ibv_wr_start(qpx);
		failures[i].build();
		CHECK_EQ(ibv_wr_complete(qpx), failures[i].error);
		for (int j = 0; j < 50; j++)
			CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
		ibv_wr_start(qpx);
		write_one();
		CHECK_EQ(ibv_wr_complete(qpx), 0);
		world_expect(cq, 1, IBV_WC_SUCCESS);
	}
	ibv_wr_start(qpx);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
}

/* While a batch is being built, the program can poll and post to other QPs. */
static void test_poll_within(void)
{
	ibv_wr_start(qpx);
	write_one();
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	ibv_wr_start(qpx);
	write_one();
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	world_expect(cq, 1, IBV_WC_SUCCESS);
}

/* As on mlx5, whatever was asked for: send_ops_flags must only be legal. */
static void test_all_operations(void)
{
	struct ibv_qp *own[] = { make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND), make(IBV_QPT_RC, 0) };

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(own[i]);

		CHECK(ex);
		world_connect(&w, own[i], own[i]);
		ibv_wr_start(ex);
		ex->wr_id = 5;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_read(ex, dst.mr->rkey, remote(0));
		ibv_wr_set_sge(ex, src.mr->lkey, local(0), 8);
		CHECK_EQ(ibv_wr_complete(ex), 0);
		world_expect(cq, 5, IBV_WC_SUCCESS);
		CHECK_EQ(ibv_destroy_qp(own[i]), 0);
	}
}

static void test_state(void)
{
	struct ibv_qp *fresh = make(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(fresh);

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, src.mr->lkey, local(0), 8);
	CHECK_EQ(ibv_wr_complete(ex), EINVAL);
	CHECK_EQ(ibv_destroy_qp(fresh), 0);
}

static void test_datagram(void)
{
	struct ibv_qp *ud = make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(ud);
	struct ibv_ah_attr attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 },
		.is_global = 1,
		.port_num = 1,
	};
	struct ibv_ah *ah = ibv_create_ah(w.pd, &attr);

	CHECK(ah);
	world_connect(&w, ud, ud);
	world_recv(ud, 2, world_sge(&dst, 0, 140));
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, ud->qp_num, WORLD_QKEY);
	ibv_wr_set_sge(ex, src.mr->lkey, local(0), 100);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	CHECK_EQ(world_expect(cq, 2, IBV_WC_SUCCESS).byte_len, 140);
	CHECK_MEM(dst.data + 40, src.data, 100);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	CHECK_EQ(ibv_wr_complete(ex), EINVAL);	/* no destination */
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
}

int main(void)
{
	world_open(&w);
	set_up();
	test_batch();
	test_others();
	test_write_with_immediate();
	test_windows();
	test_no_batch();
	test_abort();
	test_failures();
	test_poll_within();
	test_all_operations();
	test_state();
	test_datagram();
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&src);
	world_free(&dst);
	world_close(&w);
	return 0;
}
