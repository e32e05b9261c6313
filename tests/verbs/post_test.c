/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that posting refuses, the states in which it is allowed, and where posting a list stops.
 */
#include <errno.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static struct buffer buf;

static int try_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = ibv_post_send(qp, wr, &bad);

	CHECK((ret != 0) == (bad == wr));
	return ret;
}

static int try_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad = NULL;
	int ret = ibv_post_recv(qp, wr, &bad);

	CHECK((ret != 0) == (bad == wr));
	return ret;
}

/* Receives can be posted in every state, sends from RTS on. */
static void test_states(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr swr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 8);
	struct ibv_recv_wr rwr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 };

	CHECK_EQ(try_recv(qp, &rwr), 0);
	CHECK_EQ(try_send(qp, &swr), EINVAL);
	world_move(&w, qp, IBV_QPS_INIT, 0);
	CHECK_EQ(try_recv(qp, &rwr), 0);
	CHECK_EQ(try_send(qp, &swr), EINVAL);
	world_move(&w, qp, IBV_QPS_RTR, qp->qp_num);
	CHECK_EQ(try_recv(qp, &rwr), 0);
	CHECK_EQ(try_send(qp, &swr), EINVAL);
	world_move(&w, qp, IBV_QPS_RTS, 0);
	CHECK_EQ(try_send(qp, &swr), 0);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/*
 * Receives posted in RESET are there when the QP can receive; a transition back to RESET drops
 * them.
 */
static void test_receives_in_reset(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);

	world_recv(qp, 1, world_sge(&buf, 0, 8));
	world_recv(qp, 2, world_sge(&buf, 0, 8));
	world_connect(&w, qp, qp);
	world_send(qp, 3, world_sge(&buf, 64, 8));
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		world_poll(cq, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id == 1 || wc.wr_id == 3);
	}
	world_move(&w, qp, IBV_QPS_RESET, 0);
	world_recv(qp, 4, world_sge(&buf, 0, 8));
	world_move(&w, qp, IBV_QPS_INIT, 0);
	world_move(&w, qp, IBV_QPS_ERR, 0);
	world_expect(cq, 4, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/*
 * Polling a completion frees its slot and all slots before it; a queue full of unsignaled requests
 * stays full.
 */
static void test_full(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 1, &sge, &buf, 8);
	struct ibv_recv_wr rwr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;

	world_connect(&w, qp, qp);
	for (int round = 0; round < 3; round++) {
		wr.send_flags = 0;
		for (int i = 0; i < 15; i++)
			CHECK_EQ(try_send(qp, &wr), 0);
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
		wr.send_flags = IBV_SEND_SIGNALED;
		CHECK_EQ(try_send(qp, &wr), 0);
		CHECK_EQ(try_send(qp, &wr), ENOMEM);
		world_expect(cq, 1, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 16; i++)
		CHECK_EQ(try_recv(qp, &rwr), 0);
	CHECK_EQ(try_recv(qp, &rwr), ENOMEM);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void test_chain(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr[4], *bad;
	struct ibv_wc wc;

	world_connect(&w, qp, qp);
	for (int i = 0; i < 4; i++) {
		wr[i] = world_rdma(IBV_WR_RDMA_WRITE, i, &sge, &buf, 8);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	wr[2].opcode = 99;
	CHECK_EQ(ibv_post_send(qp, wr, &bad), EINVAL);
	CHECK(bad == &wr[2]);
	world_expect(cq, 0, IBV_WC_SUCCESS);	/* the requests before it are posted */
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void test_requests(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_sge sge[8];
	struct ibv_send_wr wr;
	struct ibv_recv_wr rwr = { .sg_list = sge, .num_sge = 5 };

	for (int i = 0; i < 8; i++)
		sge[i] = world_sge(&buf, i * 8, 8);
	world_connect(&w, qp, qp);
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		wr = world_rdma(IBV_WR_RDMA_WRITE, 1, sge, &buf, 64);                              \
		change;                                                                            \
		CHECK_EQ(try_send(qp, &wr), EINVAL);                                               \
	} while (0)
	REFUSED(wr.num_sge = 5);
	REFUSED(wr.num_sge = -1);
	REFUSED(wr.num_sge = INT32_MAX);
	REFUSED(wr.sg_list = NULL);
	REFUSED(wr.opcode = IBV_WR_DRIVER1);
	REFUSED(wr.opcode = IBV_WR_RDMA_READ; wr.send_flags = IBV_SEND_INLINE);
	REFUSED(wr.send_flags = IBV_SEND_INLINE; sge[0].length = 4096);
	sge[0].length = 8;
#undef REFUSED
	CHECK_EQ(try_recv(qp, &rwr), EINVAL);
	rwr.num_sge = -1;
	CHECK_EQ(try_recv(qp, &rwr), EINVAL);
	rwr.num_sge = 1;
	rwr.sg_list = NULL;
	CHECK_EQ(try_recv(qp, &rwr), EINVAL);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static struct ibv_ah *make_ah(struct ibv_pd *pd)
{
	struct ibv_ah_attr attr = {
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 },
		.is_global = 1,
		.port_num = 1,
	};
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	CHECK(ah);
	return ah;
}

static void test_datagrams(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct ibv_ah *ah = make_ah(w.pd);
	struct ibv_sge sge = world_sge(&buf, 0, 100), to = world_sge(&buf, 4096, 200);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	world_connect(&w, qp, qp);
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = WORLD_QKEY;
	CHECK_EQ(try_send(qp, &wr), EINVAL);	/* no address */
	wr.wr.ud.ah = ah;
	world_recv(qp, 2, to);
	memset(buf.data, 0x33, 100);
	CHECK_EQ(try_send(qp, &wr), 0);
	for (int i = 0; i < 2; i++) {
		world_poll(cq, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 1)
			continue;
		CHECK_EQ(wc.byte_len, 140);	/* includes the 40 bytes of the GRH */
		CHECK_EQ(wc.src_qp, qp->qp_num);
		CHECK(wc.wc_flags & IBV_WC_GRH);
	}
	CHECK_MEM(buf.data + 4096 + 40, buf.data, 100);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 256);
	buf = world_buffer(&w, 16384, WORLD_ACCESS);
	test_states();
	test_receives_in_reset();
	test_full();
	test_chain();
	test_requests();
	test_datagrams();
	world_free(&buf);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
