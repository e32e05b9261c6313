/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reported ODP capabilities are true: every operation of every transport works on an on-demand
 * region, here one that covers all memory.
 */
#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static uint64_t memory[64];

static void on_demand_op(struct ibv_qp *qp, struct ibv_srq *srq, struct ibv_mr *all, int opcode,
			 struct ibv_ah *ah)
{
	bool receives = opcode == IBV_WR_SEND;
	struct ibv_sge sge = { (uintptr_t)memory, 8, all->lkey };
	struct ibv_sge to = { (uintptr_t)(memory + 32), 64, all->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = &to, .num_sge = 1 }, *bad;
	struct ibv_wc wc[2];

	wr.wr.rdma.remote_addr = (uintptr_t)(memory + 16);
	wr.wr.rdma.rkey = all->rkey;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)(memory + 16);
		wr.wr.atomic.rkey = all->rkey;
	}
	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
		wr.wr.ud.remote_qkey = WORLD_QKEY;
	}
	if (receives)
		CHECK_EQ(srq ? ibv_post_srq_recv(srq, &recv, &bad) : ibv_post_recv(qp, &recv, &bad),
			 0);
	world_post(qp, &wr);
	world_poll(cq, wc, receives ? 2 : 1);
	for (int i = 0; i <= receives; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
}

/* FLUSH and ATOMIC WRITE, which only ibv_wr_* offers. */
static void on_demand_a19(struct ibv_mr *all)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = w.pd,
		.cap = { .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &init);
	struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	struct ibv_qp_attr attr;
	struct ibv_wc wc[2];
	uint64_t value = 7;

	CHECK(ex);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		int mask = world_attr(&w, IBV_QPT_RC, s, qp->qp_num, &attr);

		if (s == IBV_QPS_INIT)
			attr.qp_access_flags |= IBV_ACCESS_FLUSH_GLOBAL;
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	}
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(ex, all->rkey, (uintptr_t)memory, &value);
	ibv_wr_flush(ex, all->rkey, (uintptr_t)memory, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	CHECK_EQ(ibv_wr_complete(ex), 0);
	world_poll(cq, wc, 2);
	CHECK_EQ(wc[0].status, IBV_WC_SUCCESS);
	CHECK_EQ(wc[1].status, IBV_WC_SUCCESS);
	CHECK_EQ(memory[0], 7);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void test_operations(void)
{
	static const struct {
		enum ibv_qp_type type;
		int opcode[5];
	} rows[] = {
		{ IBV_QPT_RC, { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
				IBV_WR_ATOMIC_CMP_AND_SWP, -1 } },
		{ IBV_QPT_UC, { IBV_WR_SEND, IBV_WR_RDMA_WRITE, -1 } },
		{ IBV_QPT_UD, { IBV_WR_SEND, -1 } },
	};
	struct ibv_mr *all = ibv_reg_mr(w.pd, NULL, SIZE_MAX, WORLD_ACCESS | IBV_ACCESS_ON_DEMAND |
							      IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_ah_attr to_self = {
		.is_global = 1, .port_num = 1,
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 4 },
	};
	struct ibv_ah *ah = ibv_create_ah(w.pd, &to_self);
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(w.pd, &init);

	CHECK(all && ah && srq);
	for (size_t i = 0; i < 2 * (sizeof(rows) / sizeof(rows[0])); i++) {
		struct ibv_srq *shared = i & 1 ? srq : NULL;
		struct ibv_qp *qp = world_qp(&w, rows[i / 2].type, cq, shared);

		world_connect(&w, qp, qp);
		for (const int *op = rows[i / 2].opcode; *op >= 0; op++)
			on_demand_op(qp, shared, all, *op,
				     rows[i / 2].type == IBV_QPT_UD ? ah : NULL);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	on_demand_a19(all);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_dereg_mr(all), 0);
}

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 16);
	test_operations();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
