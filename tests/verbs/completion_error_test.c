/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that a device accepts when they are posted and fails when it executes them: the
 * completion must report the error. Also errors that devices tolerate: the size of an atomic's SGE,
 * bits above a QP number, and datagrams that do not fit the receive.
 */
#include "world.h"

enum {
	BUF = 8192,
	GRH = 40,
	HUGE = 1u << 31,	/* two SGEs of this length are 4 GiB */
};

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static struct world w;
static struct ibv_cq *cq;
static struct ibv_pd *other_pd;
static struct ibv_ah *ah, *other_ah;
static struct buffer src, dst;
static struct ibv_sge sge[2];

static struct ibv_ah *make_ah(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 },
		.is_global = 1,
		.port_num = 1,
	};
	struct ibv_ah *made = ibv_create_ah(pd, &attr);

	CHECK(made);
	return made;
}

/* A request of 8 bytes that this type of QP executes, before a row of the table changes it. */
static struct ibv_send_wr good(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	sge[0] = sge[1] = world_sge(&src, 0, 8);
	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
		wr.wr.ud.remote_qkey = WORLD_QKEY;
	}
	return wr;
}

static void rdma(struct ibv_send_wr *wr, enum ibv_wr_opcode opcode)
{
	wr->opcode = opcode;
	wr->wr.rdma.remote_addr = (uintptr_t)dst.data;
	wr->wr.rdma.rkey = dst.mr->rkey;
}

static void atomic_at(struct ibv_send_wr *wr, enum ibv_wr_opcode opcode, unsigned int offset)
{
	wr->opcode = opcode;
	wr->wr.atomic.remote_addr = (uintptr_t)dst.data + offset;
	wr->wr.atomic.rkey = dst.mr->rkey;
}

static void op_read(struct ibv_send_wr *wr) { rdma(wr, IBV_WR_RDMA_READ); }
static void op_write(struct ibv_send_wr *wr) { rdma(wr, IBV_WR_RDMA_WRITE); }
static void op_write_imm(struct ibv_send_wr *wr) { rdma(wr, IBV_WR_RDMA_WRITE_WITH_IMM); }
static void op_add(struct ibv_send_wr *wr) { atomic_at(wr, IBV_WR_ATOMIC_FETCH_AND_ADD, 0); }
static void op_invalidate(struct ibv_send_wr *wr) { wr->opcode = IBV_WR_LOCAL_INV; }
static void op_send_inv(struct ibv_send_wr *wr) { wr->opcode = IBV_WR_SEND_WITH_INV; }
static void op_tso(struct ibv_send_wr *wr)
{
	wr->opcode = IBV_WR_TSO;
	wr->tso.hdr = src.data;
	wr->tso.hdr_sz = 20;
	wr->tso.mss = 100;
}
static void misaligned(struct ibv_send_wr *wr) { atomic_at(wr, IBV_WR_ATOMIC_FETCH_AND_ADD, 1); }
static void misaligned_swap(struct ibv_send_wr *wr) { atomic_at(wr, IBV_WR_ATOMIC_CMP_AND_SWP, 4); }
static void no_result(struct ibv_send_wr *wr) { op_add(wr); sge[0].length = 0; }
static void other_domain(struct ibv_send_wr *wr) { wr->wr.ud.ah = other_ah; }
static void beyond_mtu(struct ibv_send_wr *wr) { sge[0].length = (128 << w.port.active_mtu) + 1; }
static void huge(struct ibv_send_wr *wr)
{
	sge[0].length = HUGE;
	sge[1].length = 1;
	wr->num_sge = 2;
}
static void huge_sum(struct ibv_send_wr *wr)
{
	sge[0].length = sge[1].length = HUGE;
	wr->num_sge = 2;
}

static const struct row {
	enum ibv_qp_type type;
	const char *name;
	void (*spoil)(struct ibv_send_wr *wr);
	enum ibv_wc_status status;
	bool no_reads;	/* max_rd_atomic is 0 */
} rows[] = {
	{ IBV_QPT_UD, "READ", op_read, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "WRITE", op_write, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "WRITE with immediate", op_write_imm, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "atomic", op_add, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "local invalidate", op_invalidate, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "handle of another PD", other_domain, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "longer than the MTU", beyond_mtu, IBV_WC_LOC_LEN_ERR },
	{ IBV_QPT_UD, "two SGEs of 2 GiB", huge, IBV_WC_LOC_LEN_ERR },
	{ IBV_QPT_UC, "READ", op_read, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UC, "atomic", op_add, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UC, "4 GiB", huge_sum, IBV_WC_LOC_LEN_ERR },
	{ IBV_QPT_RC, "segmented send", op_tso, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_RC, "more than 2 GiB", huge, IBV_WC_LOC_LEN_ERR },
	{ IBV_QPT_RC, "4 GiB", huge_sum, IBV_WC_LOC_LEN_ERR },
	{ IBV_QPT_RC, "misaligned fetch-and-add", misaligned, IBV_WC_REM_INV_REQ_ERR },
	{ IBV_QPT_RC, "misaligned compare-and-swap", misaligned_swap, IBV_WC_REM_INV_REQ_ERR },
	{ IBV_QPT_RC, "atomic without a buffer", no_result, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_RC, "READ without max_rd_atomic", op_read, IBV_WC_LOC_QP_OP_ERR, true },
	{ IBV_QPT_RC, "atomic without max_rd_atomic", op_add, IBV_WC_LOC_QP_OP_ERR, true },
	{ IBV_QPT_XRC_SEND, "segmented send", op_tso, IBV_WC_LOC_QP_OP_ERR },
	{ IBV_QPT_UD, "SEND with invalidate", op_send_inv, IBV_WC_LOC_QP_OP_ERR },
};

static void connect_pair(const struct row *row, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr;
	int mask;

	if (!row->no_reads) {
		world_connect(&w, qp, peer);
		return;
	}
	world_move(&w, qp, IBV_QPS_INIT, peer->qp_num);
	world_move(&w, qp, IBV_QPS_RTR, peer->qp_num);
	mask = world_attr(&w, row->type, IBV_QPS_RTS, peer->qp_num, &attr);
	attr.max_rd_atomic = 0;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

/* The peer of a misaligned atomic gets an asynchronous event. */
static void acknowledge_peer_event(void)
{
	struct ibv_async_event event;

	CHECK_EQ(ibv_get_async_event(w.ctx, &event), 0);
	ibv_ack_async_event(&event);
}

/*
 * Posts the bad request between two good ones: the first is executed, the last is flushed, and
 * `bad_wr` is not touched.
 */
static void run_row(const struct row *row)
{
	struct ibv_qp *qp = world_qp(&w, row->type, cq, NULL),
		      *peer = world_qp(&w, row->type, cq, NULL);
	struct ibv_send_wr wr = good(qp), *bad = NULL;
	bool sends = row->type == IBV_QPT_UD;
	int err;

	printf("%d: %s\n", row->type, row->name);
	connect_pair(row, qp, peer);
	if (sends) {
		wr.send_flags = IBV_SEND_SIGNALED;
		world_post(qp, &wr);
		world_expect(cq, 1, IBV_WC_SUCCESS);
		wr.send_flags = 0;
	}
	wr.wr_id = 2;
	row->spoil(&wr);
	err = ibv_post_send(qp, &wr, &bad);
	CHECK_EQ(err, 0);
	CHECK(!bad);
	CHECK(world_expect(cq, 2, row->status).vendor_err);
	wr = good(qp);
	wr.wr_id = 3;
	world_post(qp, &wr);
	world_expect(cq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(peer), 0);
	while (world_has_event(&w))
		acknowledge_peer_event();
}

/* Only the low 24 bits are a QP number; programs may leave anything in the others. */
static void test_long_qpn(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct ibv_send_wr wr = good(qp);

	world_connect(&w, qp, qp);
	world_recv(qp, 5, world_sge(&dst, 0, 100));
	wr.wr.ud.remote_qpn |= 0xde000000;
	world_post(qp, &wr);
	world_expect(cq, 5, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* mlx5 writes eight bytes to the first SGE that is not empty, and so does this library. */
static void test_atomic_sizes(void)
{
	static const uint32_t sizes[][2] = { { 4, 0 },  { 7, 100 }, { 9, 0 },
					     { 64, 0 }, { 0, 16 },  { 4, 4 } };
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	uint64_t value = 0x1122334455667788, *remote = (uint64_t *)(void *)dst.data;

	world_connect(&w, qp, qp);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_send_wr wr = good(qp);
		bool split = sizes[i][0] + sizes[i][1] == 8, second = !sizes[i][0];
		uint8_t got[8];

		memset(src.data, 0, 256);
		*remote = value;
		atomic_at(&wr, IBV_WR_ATOMIC_FETCH_AND_ADD, 0);
		wr.wr.atomic.compare_add = 1;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.num_sge = 2;
		sge[0] = world_sge(&src, 0, sizes[i][0]);
		sge[1] = world_sge(&src, 128, sizes[i][1]);
		world_post(qp, &wr);
		CHECK_EQ(world_expect(cq, 1, IBV_WC_SUCCESS).byte_len, 8);
		CHECK_EQ(*remote, value + 1);
		memcpy(got, src.data + (second ? 128 : 0), split ? 4 : 8);
		if (split)
			memcpy(got + 4, src.data + 128, 4);
		CHECK_MEM(got, (uint8_t *)&value, 8);
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static uint64_t dropped(void)
{
	char value[32];

	CHECK(ibv_read_sysfs_file(w.ctx->device->ibdev_path, "ports/1/hw_counters/dropped_pkts",
				  value, sizeof(value)) > 0);
	return strtoull(value, NULL, 10);
}

/*
 * Any sender with the Q_Key can send datagrams of any size. A datagram that does not fit the
 * receive is dropped, and the receive, of a QP or a shared receive queue, waits for the next one.
 */
static void test_too_long_for_the_receive(bool shared)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = shared ? ibv_create_srq(w.pd, &init) : NULL;
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, srq);
	struct ibv_sge small = world_sge(&dst, 0, GRH + 100);
	struct ibv_recv_wr *bad, rwr = { .wr_id = 7, .sg_list = &small, .num_sge = 1 };
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init_attr;
	struct ibv_send_wr wr = good(qp);
	uint64_t before = dropped();

	world_connect(&w, qp, qp);
	CHECK_EQ(srq ? ibv_post_srq_recv(srq, &rwr, &bad) : ibv_post_recv(qp, &rwr, &bad), 0);
	wr.send_flags = IBV_SEND_SIGNALED;
	sge[0].length = 101;
	world_post(qp, &wr);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	sge[0].length = 99;
	wr.send_flags = 0;
	world_post(qp, &wr);
	CHECK_EQ(world_expect(cq, 7, IBV_WC_SUCCESS).byte_len, GRH + 99);
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS);
	CHECK_EQ(dropped(), before + 1);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	if (srq)
		CHECK_EQ(ibv_destroy_srq(srq), 0);
}

static struct ibv_qp *make_ex(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 4,
			 .max_recv_sge = 4 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = w.pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &init);

	CHECK(qp);
	return qp;
}

/* The same through ibv_wr_*. */
static void test_by_function(void)
{
	struct ibv_qp *qp = make_ex(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	struct ibv_qp *peer = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *ud = make_ex(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp), *udx = ibv_qp_to_qp_ex(ud);

	world_connect(&w, qp, peer);
	world_connect(&w, ud, ud);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 1u << 20;	/* a flag without meaning */
	ibv_wr_atomic_fetch_add(ex, dst.mr->rkey, (uintptr_t)dst.data + 4, 1);
	ibv_wr_set_sge(ex, src.mr->lkey, (uintptr_t)src.data, 8);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	world_expect(cq, 1, IBV_WC_REM_INV_REQ_ERR);
	ibv_wr_start(udx);
	udx->wr_id = 2;
	udx->wr_flags = 0;
	ibv_wr_send(udx);
	ibv_wr_set_ud_addr(udx, other_ah, ud->qp_num, WORLD_QKEY);
	ibv_wr_set_sge(udx, src.mr->lkey, (uintptr_t)src.data, 8);
	CHECK_EQ(ibv_wr_complete(udx), 0);
	world_expect(cq, 2, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_qp(peer), 0);
	CHECK_EQ(ibv_destroy_qp(ud), 0);
}

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 64);
	other_pd = ibv_alloc_pd(w.ctx);
	CHECK(other_pd);
	ah = make_ah(w.pd);
	other_ah = make_ah(other_pd);
	src = world_buffer(&w, BUF, WORLD_ACCESS);
	dst = world_buffer(&w, BUF, WORLD_ACCESS);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	test_long_qpn();
	test_atomic_sizes();
	test_too_long_for_the_receive(false);
	test_too_long_for_the_receive(true);
	test_by_function();
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_ah(other_ah), 0);
	CHECK_EQ(ibv_dealloc_pd(other_pd), 0);
	world_free(&src);
	world_free(&dst);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
