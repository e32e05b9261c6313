/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: each counts operations by kind, signaled or not, as requests or bytes, and
 * failures separately from successes.
 */
#include <errno.h>

#include "world.h"

enum { LEN = 100 };

static struct world w;

static struct ibv_comp_cntr *new_counter(enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr attr = { .type = type };
	struct ibv_comp_cntr *c = ibv_create_comp_cntr(w.ctx, &attr);

	CHECK(c);
	return c;
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *c, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = { .op_mask = ops };

	return ibv_qp_attach_comp_cntr(qp, c, &attr);
}

static uint64_t done(struct ibv_comp_cntr *c)
{
	uint64_t value;

	CHECK_EQ(ibv_read_comp_cntr(c, &value), 0);
	return value;
}

static uint64_t failed(struct ibv_comp_cntr *c)
{
	uint64_t value;

	CHECK_EQ(ibv_read_err_comp_cntr(c, &value), 0);
	return value;
}

static void counts_what_it_is_attached_to(void)
{
	struct ibv_comp_cntr *sends = new_counter(IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *written = new_counter(IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_comp_cntr *received = new_counter(IBV_COMP_CNTR_TYPE_WRS);
	struct buffer src = world_buffer(&w, LEN, WORLD_ACCESS);
	struct buffer dst = world_buffer(&w, LEN, WORLD_ACCESS);
	struct ibv_cq *cq = world_cq(&w, 64);
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_sge sge = world_sge(&src, 0, LEN);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &dst, 0);
	struct ibv_wc wc[2];

	CHECK_EQ(attach(a, sends, IBV_QP_ATTACH_COMP_CNTR_OP_SEND), 0);
	CHECK_EQ(attach(a, sends, IBV_QP_ATTACH_COMP_CNTR_OP_SEND), EBUSY);
	CHECK_EQ(attach(a, written, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE), 0);
	CHECK_EQ(attach(b, received, IBV_QP_ATTACH_COMP_CNTR_OP_RECV), 0);
	world_connect(&w, a, b);
	CHECK_EQ(attach(a, received, IBV_QP_ATTACH_COMP_CNTR_OP_RECV), EINVAL);

	world_recv(b, 1, world_sge(&dst, 0, LEN));
	world_send(a, 2, sge);
	world_poll(cq, wc, 2);
	CHECK_EQ(done(sends), 1);
	CHECK_EQ(done(received), 1);
	CHECK_EQ(done(written), 0);

	/* The first WRITE is unsignaled, but is counted. */
	wr.send_flags = 0;
	world_post(a, &wr);
	wr.send_flags = IBV_SEND_SIGNALED;
	world_post(a, &wr);
	world_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK_EQ(done(written), 2 * LEN);
	CHECK_EQ(done(sends), 1);

	world_move(&w, b, IBV_QPS_ERR, a->qp_num);
	world_recv(b, 5, world_sge(&dst, 0, LEN));
	world_expect(cq, 5, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(failed(received), 1);
	CHECK_EQ(done(received), 1);

	CHECK_EQ(ibv_destroy_comp_cntr(sends), EBUSY);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(sends), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(written), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(received), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&src);
	world_free(&dst);
}

/* ibv_qp_attach_comp_cntr(3): one counter adds up several operations of several QPs. */
static void several_operations_of_several_qps(void)
{
	const uint32_t all = IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RECV |
			     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;
	struct ibv_comp_cntr *c = new_counter(IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_comp_cntr *writes = new_counter(IBV_COMP_CNTR_TYPE_WRS);
	struct buffer buf = world_buffer(&w, 2 * LEN, WORLD_ACCESS);
	struct ibv_cq *cq = world_cq(&w, 64);
	struct ibv_qp *qp[2] = { world_qp(&w, IBV_QPT_RC, cq, NULL),
				 world_qp(&w, IBV_QPT_RC, cq, NULL) };
	struct ibv_sge sge = world_sge(&buf, 0, LEN);
	struct ibv_send_wr read = world_rdma(IBV_WR_RDMA_READ, 3, &sge, &buf, LEN);
	struct ibv_send_wr write = world_rdma(IBV_WR_RDMA_WRITE, 4, &sge, &buf, LEN);
	struct ibv_wc wc[2];

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(attach(qp[i], c, all), 0);
		CHECK_EQ(attach(qp[i], writes, all | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE), EBUSY);
		CHECK_EQ(attach(qp[i], writes, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE), 0);
	}
	world_connect(&w, qp[0], qp[1]);
	for (int i = 0; i < 2; i++) {
		world_recv(qp[!i], 1, world_sge(&buf, LEN, LEN));
		world_send(qp[i], 2, world_sge(&buf, 0, LEN / 2));
		world_poll(cq, wc, 2);
		world_post(qp[i], &read);
		world_expect(cq, 3, IBV_WC_SUCCESS);
		CHECK_EQ(done(c), (i + 1) * 2 * LEN);
	}
	write.wr.rdma.rkey++;
	world_post(qp[0], &write);
	world_expect(cq, 4, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(failed(writes), 1);
	CHECK_EQ(done(writes), 0);
	CHECK_EQ(failed(c), 0);
	CHECK_EQ(ibv_destroy_qp(qp[0]), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(c), EBUSY);
	CHECK_EQ(ibv_destroy_qp(qp[1]), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(c), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(writes), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&buf);
}

static void values_can_be_set(void)
{
	struct ibv_comp_cntr *c = new_counter(IBV_COMP_CNTR_TYPE_WRS);

	CHECK_EQ(ibv_set_comp_cntr(c, 40), 0);
	CHECK_EQ(ibv_inc_comp_cntr(c, 2), 0);
	CHECK_EQ(ibv_set_err_comp_cntr(c, 5), 0);
	CHECK_EQ(ibv_inc_err_comp_cntr(c, 2), 0);
	CHECK_EQ(done(c), 42);
	CHECK_EQ(failed(c), 7);
	CHECK_EQ(ibv_set_comp_cntr(c, UINT64_MAX), 0);	/* max_value of the capabilities */
	CHECK_EQ(ibv_inc_comp_cntr(c, 1), 0);
	CHECK_EQ(done(c), 0);
	CHECK_EQ(ibv_read_comp_cntr(c, NULL), EINVAL);
	CHECK_EQ(ibv_destroy_comp_cntr(c), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(NULL), EINVAL);
}

static void bad_requests_are_refused(void)
{
	struct ibv_comp_cntr_init_attr attr = { .comp_mask = 1 };
	struct ibv_comp_cntr *c = new_counter(IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_cq *cq = world_cq(&w, 4);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_comp_cntr_caps caps;

	CHECK_EQ(ibv_query_comp_cntr_caps(w.ctx, &caps), 0);
	CHECK(!(caps.supported_qp_attach_ops & IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ));
	CHECK(caps.max_counters > 0);
	CHECK_EQ(attach(qp, c, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ), EOPNOTSUPP);
	CHECK_EQ(attach(qp, c, 0), EINVAL);
	CHECK_EQ(attach(NULL, c, 1), EINVAL);
	errno = 0;
	CHECK(!ibv_create_comp_cntr(w.ctx, &attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr = (struct ibv_comp_cntr_init_attr){ .type = 9 };
	CHECK(!ibv_create_comp_cntr(w.ctx, &attr));
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_comp_cntr(c), 0);
}

int main(void)
{
	world_open(&w);
	counts_what_it_is_attached_to();
	several_operations_of_several_qps();
	values_can_be_set();
	bad_requests_are_refused();
	world_close(&w);
	return 0;
}
