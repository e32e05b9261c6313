/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended completion queues: polling one entry at a time, every field, timestamps, options. */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

static struct world w;
static struct buffer buf;

enum {
	ALL_FIELDS = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
		     IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO,
};

static struct ibv_cq_ex *make(uint64_t fields, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 7,
		.wc_flags = fields,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = flags,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(w.ctx, &attr);

	CHECK(ex);
	CHECK(ibv_cq_ex_to_cq(ex)->cqe >= 8);
	return ex;
}

static void expect_refused(struct ibv_cq_init_attr_ex attr, int error)
{
	errno = 0;
	CHECK(!ibv_create_cq_ex(w.ctx, &attr));
	CHECK_EQ(errno, error);
}

static void test_create(void)
{
	expect_refused((struct ibv_cq_init_attr_ex){ .cqe = 0 }, EINVAL);
	expect_refused((struct ibv_cq_init_attr_ex){ .cqe = 1, .wc_flags = 1 << 20 }, EOPNOTSUPP);
	expect_refused((struct ibv_cq_init_attr_ex){ .cqe = 1, .comp_mask = 1 << 20 }, EOPNOTSUPP);
	expect_refused((struct ibv_cq_init_attr_ex){ .cqe = 1,
						     .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					      .flags = 1 << 20 }, EOPNOTSUPP);
	expect_refused((struct ibv_cq_init_attr_ex){ .cqe = 1, .comp_vector = 1000 }, EINVAL);
}

static uint64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void wait_for(struct ibv_cq_ex *ex)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int ret;

	do
		ret = ibv_start_poll(ex, &attr);
	while (ret == ENOENT);
	CHECK_EQ(ret, 0);
}

static void test_fields(void)
{
	struct ibv_cq_ex *ex = make(ALL_FIELDS, 0);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex), *send_cq = world_cq(&w, 16);
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, send_cq, NULL);
	struct ibv_qp *b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_poll_cq_attr wrong = { .comp_mask = 1 }, attr = { 0 };
	struct ibv_values_ex now = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_sge sge = world_sge(&buf, 0, 10);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(77) };
	struct ibv_wc_tm_info tm;
	uint64_t stamp, before = wall_ns();

	world_connect(&w, a, b);
	CHECK_EQ(ibv_start_poll(ex, &wrong), EINVAL);
	CHECK_EQ(ibv_start_poll(ex, &attr), ENOENT);
	for (int i = 0; i < 2; i++) {
		world_recv(b, 30 + i, world_sge(&buf, 100, 100));
		world_post(a, &wr);
		world_expect(send_cq, 0, IBV_WC_SUCCESS);
	}
	wait_for(ex);
	CHECK_EQ(ex->status, IBV_WC_SUCCESS);
	CHECK_EQ(ex->wr_id, 30);
	CHECK_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
	CHECK_EQ(ibv_wc_read_byte_len(ex), 10);
	CHECK_EQ(ibv_wc_read_imm_data(ex), htobe32(77));
	CHECK_EQ(ibv_wc_read_qp_num(ex), b->qp_num);
	CHECK(ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_IMM);
	CHECK_EQ(ibv_wc_read_vendor_err(ex), 0);
	ibv_wc_read_src_qp(ex);
	ibv_wc_read_slid(ex);
	ibv_wc_read_sl(ex);
	ibv_wc_read_dlid_path_bits(ex);
	CHECK_EQ(ibv_wc_read_cvlan(ex), 0);
	CHECK_EQ(ibv_wc_read_flow_tag(ex), 0);
	ibv_wc_read_tm_info(ex, &tm);
	stamp = ibv_wc_read_completion_ts(ex);
	CHECK(stamp);
	CHECK(ibv_wc_read_completion_wallclock_ns(ex) <= wall_ns() + 1000000);
	CHECK(ibv_wc_read_completion_wallclock_ns(ex) + 1000000 >= before);
	CHECK_EQ(ibv_query_rt_values_ex(w.ctx, &now), 0);
	CHECK(now.raw_clock.tv_sec * 1000000000ull + now.raw_clock.tv_nsec >= stamp);
	/*
	 * The CQ is not locked between start and end of polling: posting and polling other CQs
	 * work.
	 */
	wr.opcode = IBV_WR_SEND;
	world_recv(b, 32, world_sge(&buf, 100, 100));
	world_post(a, &wr);
	world_expect(send_cq, 0, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_next_poll(ex), 0);
	CHECK_EQ(ex->wr_id, 31);
	CHECK(ibv_wc_read_completion_ts(ex) >= stamp);
	ibv_end_poll(ex);
	wait_for(ex);
	CHECK_EQ(ex->wr_id, 32);
	CHECK_EQ(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	/* Without a poll to end, it has no effect. */
	CHECK_EQ(ibv_start_poll(ex, &attr), ENOENT);
	ibv_end_poll(ex);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
}

/* A QP whose receives are all flushed at once. */
static struct ibv_qp *flushed_at_once(struct ibv_cq *cq, int n)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);

	world_move(&w, qp, IBV_QPS_INIT, 0);
	for (int i = 0; i < n; i++) {
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;

		CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
	}
	world_move(&w, qp, IBV_QPS_ERR, 0);
	return qp;
}

/* Timestamps do not decrease, on either clock. */
static void test_time_order(void)
{
	enum { N = 16, ROUNDS = 20 };
	struct ibv_cq_init_attr_ex attr = { .cqe = N, .wc_flags = ALL_FIELDS };
	struct ibv_poll_cq_attr none = { 0 };
	uint64_t stamp = 0, wall = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_cq_ex *ex = ibv_create_cq_ex(w.ctx, &attr);
		struct ibv_qp *qp = flushed_at_once(ibv_cq_ex_to_cq(ex), N);
		int n = 0;

		CHECK_EQ(ibv_start_poll(ex, &none), 0);
		do {
			uint64_t next = ibv_wc_read_completion_ts(ex),
				 next_wall = ibv_wc_read_completion_wallclock_ns(ex);

			CHECK(next >= stamp);
			CHECK(next_wall >= wall);
			stamp = next;
			wall = next_wall;
			n++;
		} while (!ibv_next_poll(ex));
		ibv_end_poll(ex);
		CHECK_EQ(n, N);
		CHECK_EQ(ibv_destroy_qp(qp), 0);
		CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	}
}

static uint64_t raw_ns(void)
{
	struct ibv_values_ex now = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK_EQ(ibv_query_rt_values_ex(w.ctx, &now), 0);
	return now.raw_clock.tv_sec * 1000000000ull + now.raw_clock.tv_nsec;
}

/* A WRITE that is complete when ibv_post_send() returns has the time of that call. */
static void test_time_of_write(void)
{
	struct ibv_cq_ex *ex = make(ALL_FIELDS, 0);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_sge sge = world_sge(&buf, 0, 10);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { (uintptr_t)buf.data + 100, buf.mr->rkey } };

	world_connect(&w, a, b);
	for (int i = 0; i < 20; i++) {
		uint64_t before = raw_ns();

		world_post(a, &wr);
		wait_for(ex);
		CHECK_EQ(ex->status, IBV_WC_SUCCESS);
		CHECK(ibv_wc_read_completion_ts(ex) >= before);
		CHECK(ibv_wc_read_completion_ts(ex) <= raw_ns());
		ibv_end_poll(ex);
	}
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

/* With IGNORE_OVERRUN the queue keeps the latest completions. */
static void test_ignore_overrun(void)
{
	struct ibv_cq_ex *ex = make(0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN |
				       IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct ibv_qp *qp = world_flushed(&w, cq, cq->cqe + 3);

	wait_for(ex);
	for (int i = 3; i < cq->cqe + 3; i++) {
		CHECK_EQ(ex->wr_id, i);
		CHECK_EQ(ex->status, IBV_WC_WR_FLUSH_ERR);
		CHECK_EQ(ibv_next_poll(ex), i < cq->cqe + 2 ? 0 : ENOENT);
	}
	ibv_end_poll(ex);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
}

static uint64_t seen[64];

static void *poll_some(void *arg)
{
	struct ibv_cq_ex *ex = arg;
	struct ibv_poll_cq_attr attr = { 0 };

	while (ibv_start_poll(ex, &attr) == 0) {
		__atomic_fetch_add(&seen[ex->wr_id], 1, __ATOMIC_RELAXED);
		if (ibv_next_poll(ex) == 0)
			__atomic_fetch_add(&seen[ex->wr_id], 1, __ATOMIC_RELAXED);
		ibv_end_poll(ex);
	}
	return NULL;
}

/* Two threads poll: each completion is returned to exactly one of them. */
static void test_two_pollers(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64 };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(w.ctx, &attr);
	struct ibv_qp *qp[4];
	pthread_t thread[2];

	CHECK(ex);
	for (int i = 0; i < 4; i++)
		qp[i] = world_flushed(&w, ibv_cq_ex_to_cq(ex), 16);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, poll_some, ex), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(seen[i], 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

/* Goes on after ENOENT, without ibv_start_poll(). */
static void next_until_found(struct ibv_cq_ex *ex)
{
	int ret;

	do
		ret = ibv_next_poll(ex);
	while (ret == ENOENT);
	CHECK_EQ(ret, 0);
	CHECK_EQ(ex->status, IBV_WC_SUCCESS);
}

/* ibv_next_poll() after ENOENT, at the start or later, receives what has come. */
static void next_poll_looks(uint32_t flags, enum ibv_qp_type type)
{
	struct ibv_cq_ex *ex = make(0, flags);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex), *send_cq = world_cq(&w, 16);
	struct ibv_qp *a = world_qp(&w, type, send_cq, NULL), *b = world_qp(&w, type, cq, NULL);
	struct ibv_poll_cq_attr none = { 0 };
	uint64_t id = 0;

	world_connect(&w, a, b);
	for (int round = 0; round < 20; round++) {
		bool single = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

		for (int i = 0; i < 3; i++)
			world_recv(b, id + i, world_sge(&buf, 100, 100));
		if (single)	/* nothing is locked, and the CQ may be polled on */
			CHECK_EQ(ibv_start_poll(ex, &none), ENOENT);
		world_send(a, 7, world_sge(&buf, 0, 10));
		if (single)
			next_until_found(ex);
		else
			wait_for(ex);
		for (int i = 0; i < 3; i++, id++) {
			CHECK_EQ(ex->wr_id, id);
			CHECK_EQ(ibv_next_poll(ex), ENOENT);
			if (i == 2)
				break;
			world_send(a, 7, world_sge(&buf, 0, 10));
			next_until_found(ex);
		}
		id++;
		ibv_end_poll(ex);
		for (int i = 0; i < 3; i++)
			world_expect(send_cq, 7, IBV_WC_SUCCESS);
	}
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	CHECK_EQ(ibv_destroy_cq(send_cq), 0);
}

/* Without a progress thread nobody else looks. Before the world is open. */
static void test_next_poll_looks(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(WORLD_LIMIT_S * test_slower());
		setenv("VERBENA_PROGRESS", "none", 1);
		world_open(&w);
		buf = world_buffer(&w, 4096, WORLD_ACCESS);
		for (int i = 0; i < 2; i++) {
			next_poll_looks(IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
					i ? IBV_QPT_UC : IBV_QPT_RC);
			next_poll_looks(0, i ? IBV_QPT_UC : IBV_QPT_RC);
		}
		world_free(&buf);
		world_close(&w);
		exit(0);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

int main(void)
{
	test_next_poll_looks();
	world_open(&w);
	buf = world_buffer(&w, 4096, WORLD_ACCESS);
	test_create();
	test_fields();
	test_time_order();
	test_time_of_write();
	test_ignore_overrun();
	test_two_pollers();
	world_free(&buf);
	world_close(&w);
	return 0;
}
