/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interfaces of old distributions on the real device: the XRC calls of OFED and the
 * experimental verbs.
 */
#define VERBENA_LEGACY_XRC

#include <errno.h>
#include <fcntl.h>

#include <infiniband/verbs_exp.h>

#include "world.h"

static struct world w;

/* ---- XRC: one connection, two SRQs ---- */

static void check_srq(struct ibv_srq *srq, struct ibv_xrc_domain *d, struct ibv_cq *cq)
{
	uint32_t num;

	CHECK_EQ(ibv_get_srq_num(srq, &num), 0);
	CHECK_EQ(srq->xrc_srq_num, num);
	CHECK(srq->xrc_domain == d && srq->xrc_cq == cq);
}

static void connect_xrc(struct ibv_qp *ini, struct ibv_xrc_domain *d, uint32_t rcv_qpn)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr;
		int mask = world_attr(&w, IBV_QPT_XRC_SEND, s, rcv_qpn, &attr);

		CHECK_EQ(ibv_modify_qp(ini, &attr, mask), 0);
		mask = world_attr(&w, IBV_QPT_XRC_RECV, s, ini->qp_num, &attr);
		if (s <= IBV_QPS_RTR)
			CHECK_EQ(ibv_modify_xrc_rcv_qp(d, rcv_qpn, &attr, mask), 0);
	}
}

static void send_xrc(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge, uint32_t srqn)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .xrc_remote_srq_num = srqn,
	}, *bad;

	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

static void test_xrc(void)
{
	struct ibv_cq *send_cq = world_cq(&w, 16), *recv_cq = world_cq(&w, 16);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr init = { .send_cq = send_cq, .recv_cq = send_cq };
	struct buffer src = world_buffer(&w, 64, WORLD_ACCESS),
		      dst = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_xrc_domain *d = ibv_open_xrc_domain(w.ctx, -1, O_CREAT);
	struct ibv_srq *srq[2];
	struct ibv_qp *ini;
	uint32_t rcv_qpn;

	CHECK(d);
	for (int i = 0; i < 2; i++) {
		srq[i] = ibv_create_xrc_srq(w.pd, d, recv_cq, &srq_attr);
		CHECK(srq[i]);
		check_srq(srq[i], d, recv_cq);
	}
	CHECK(srq[0]->xrc_srq_num != srq[1]->xrc_srq_num);

	init.xrc_domain = d;
	CHECK_EQ(ibv_create_xrc_rcv_qp(&init, &rcv_qpn), 0);
	init.qp_type = IBV_QPT_XRC;
	init.cap.max_send_wr = 4;
	init.cap.max_send_sge = 1;
	ini = ibv_create_qp(w.pd, &init);
	CHECK(ini);
	connect_xrc(ini, d, rcv_qpn);

	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge into = world_sge(&dst, 32 * i, 32);
		struct ibv_recv_wr recv = { .wr_id = 10 + i, .sg_list = &into, .num_sge = 1 }, *bad;

		src.data[0] = (uint8_t)(50 + i);
		CHECK_EQ(ibv_post_srq_recv(srq[i], &recv, &bad), 0);
		send_xrc(ini, i, world_sge(&src, 0, 32), srq[i]->xrc_srq_num);
		world_expect(recv_cq, 10 + i, IBV_WC_SUCCESS);
		world_expect(send_cq, i, IBV_WC_SUCCESS);
		CHECK_EQ(dst.data[32 * i], 50 + i);
	}

	CHECK_EQ(ibv_reg_xrc_rcv_qp(d, rcv_qpn ^ 1), EINVAL);
	CHECK_EQ(ibv_destroy_qp(ini), 0);
	CHECK_EQ(ibv_unreg_xrc_rcv_qp(d, rcv_qpn), 0);
	CHECK_EQ(ibv_unreg_xrc_rcv_qp(d, rcv_qpn), EINVAL);
	CHECK_EQ(ibv_destroy_srq(srq[0]), 0);
	CHECK_EQ(ibv_close_xrc_domain(d), EBUSY);
	CHECK_EQ(ibv_destroy_srq(srq[1]), 0);
	CHECK_EQ(ibv_close_xrc_domain(d), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
	CHECK_EQ(ibv_destroy_cq(recv_cq), 0);
	world_free(&src);
	world_free(&dst);
}

/* ---- Experimental verbs: an RC pair created, connected and used by them alone ---- */

static struct ibv_qp *exp_qp(struct ibv_cq *cq)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_EXP_QP_INIT_ATTR_PD, .pd = w.pd,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(w.ctx, &attr);

	CHECK(qp);
	CHECK(attr.cap.max_send_wr >= 8);
	return qp;
}

static void exp_move(struct ibv_qp *qp, enum ibv_qp_state next, uint32_t peer)
{
	struct ibv_exp_qp_attr exp = { .comp_mask = 0 };
	struct ibv_qp_attr attr;
	int mask = world_attr(&w, IBV_QPT_RC, next, peer, &attr);

	memcpy(&exp, &attr, offsetof(struct ibv_qp_attr, rate_limit));
	CHECK_EQ(ibv_exp_modify_qp(qp, &exp, (uint64_t)mask), 0);
}

static void test_exp(void)
{
	struct ibv_exp_device_attr dev = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS };
	struct ibv_exp_gid_attr gid = { .comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE };
	struct ibv_cq *cq = ibv_exp_create_cq(w.ctx, 16, NULL, NULL, 0, NULL);
	struct ibv_qp *qp[2] = { exp_qp(cq), exp_qp(cq) };
	uint64_t cell[2] = { 40, 0 };
	struct ibv_exp_reg_mr_in in = {
		.pd = w.pd, .addr = cell, .length = sizeof(cell),
		.exp_access = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct ibv_sge sge = { .addr = (uintptr_t)&cell[1], .length = 8 };
	struct ibv_exp_send_wr wr = {
		.wr_id = 5, .sg_list = &sge, .num_sge = 1,
		.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
	}, *bad;
	struct ibv_exp_wc wc;

	CHECK(cq && mr);
	CHECK_EQ(ibv_exp_query_device(w.ctx, &dev), 0);
	CHECK_EQ(dev.comp_mask, IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS);
	CHECK(dev.exp_device_cap_flags & IBV_EXP_DEVICE_XRC);
	CHECK_EQ(ibv_exp_query_gid_attr(w.ctx, 1, (unsigned int)w.gid_index, &gid), 0);
	CHECK_EQ(gid.type, IBV_EXP_ROCE_V2_GID_TYPE);

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++)
		for (int i = 0; i < 2; i++)
			exp_move(qp[i], s, qp[!i]->qp_num);
	sge.lkey = mr->lkey;
	wr.wr.atomic.remote_addr = (uintptr_t)cell;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 2;
	CHECK_EQ(ibv_exp_post_send(qp[0], &wr, &bad), 0);
	for (int n = 0; n == 0;) {
		n = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
		CHECK(n >= 0);
	}
	CHECK_EQ(wc.wr_id, 5);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.exp_opcode, IBV_EXP_WC_FETCH_ADD);
	CHECK_EQ(cell[0], 42);
	CHECK_EQ(cell[1], 40);

	CHECK_EQ(ibv_destroy_qp(qp[0]), 0);
	CHECK_EQ(ibv_destroy_qp(qp[1]), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	world_open(&w);
	test_xrc();
	test_exp();
	world_close(&w);
	return 0;
}
