/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp_rate_limit: sending takes at least as long as the rate requires. The test sets no
 * upper bound on the time.
 */
#include <errno.h>

#include "world.h"

enum {
	LEN = 10000,
	MESSAGES = 10,
	KBPS = 8000,	/* one byte per microsecond */
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void writes(struct ibv_cq *cq, struct ibv_qp *qp, struct buffer *b, enum ibv_wr_opcode op)
{
	struct ibv_sge sge = world_sge(b, 0, LEN);
	struct ibv_send_wr wr = world_rdma(op, 1, &sge, b, LEN);
	struct ibv_wc wc[MESSAGES];

	for (int i = 0; i < MESSAGES; i++)
		world_post(qp, &wr);
	world_poll(cq, wc, MESSAGES);
	for (int i = 0; i < MESSAGES; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
}

static void requests_are_paced(struct world *w, enum ibv_qp_type type)
{
	struct ibv_cq *cq = world_cq(w, 64);
	struct ibv_qp *a = world_qp(w, type, cq, NULL), *b = world_qp(w, type, cq, NULL);
	struct buffer buf = world_buffer(w, 2 * LEN, WORLD_ACCESS);
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = KBPS, .max_burst_sz = LEN };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	double begin;

	world_connect(w, a, b);
	CHECK_EQ(ibv_modify_qp_rate_limit(a, &limit), 0);
	CHECK_EQ(ibv_query_qp(a, &attr, IBV_QP_RATE_LIMIT, &init), 0);
	CHECK_EQ(attr.rate_limit, KBPS);
	begin = seconds();
	writes(cq, a, &buf, IBV_WR_RDMA_WRITE);
	/* The last packet may leave earlier by one burst and one MTU. */
	CHECK(seconds() - begin >= ((MESSAGES - 1) * LEN - 1024) * 1e-6);

	limit.rate_limit = 0;
	CHECK_EQ(ibv_modify_qp_rate_limit(a, &limit), 0);
	writes(cq, a, &buf, IBV_WR_RDMA_WRITE);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
}

static void bad_arguments_are_refused(struct world *w)
{
	struct ibv_cq *cq = world_cq(w, 4);
	struct ibv_qp *qp = world_qp(w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000 };
	struct ibv_device_attr_ex dev;

	CHECK_EQ(ibv_modify_qp_rate_limit(qp, &limit), EINVAL);	/* RESET */
	world_connect(w, qp, qp);
	CHECK_EQ(ibv_query_device_ex(w->ctx, NULL, &dev), 0);
	CHECK(ibv_is_qpt_supported(dev.packet_pacing_caps.supported_qpts, IBV_QPT_RC));
	limit.rate_limit = dev.packet_pacing_caps.qp_rate_limit_max;
	CHECK_EQ(ibv_modify_qp_rate_limit(qp, &limit), 0);
	limit.rate_limit++;
	CHECK_EQ(ibv_modify_qp_rate_limit(qp, &limit), EINVAL);
	limit.rate_limit = dev.packet_pacing_caps.qp_rate_limit_min;
	CHECK_EQ(ibv_modify_qp_rate_limit(qp, &limit), 0);
	limit.comp_mask = 1;
	CHECK_EQ(ibv_modify_qp_rate_limit(qp, &limit), EINVAL);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	struct world w;

	world_open(&w);
	bad_arguments_are_refused(&w);
	requests_are_paced(&w, IBV_QPT_RC);
	requests_are_paced(&w, IBV_QPT_UC);
	world_close(&w);
	return 0;
}
