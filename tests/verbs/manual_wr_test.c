/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statements of ibv_wr_post(3), the page of the ibv_wr_*() calls, that no other test shows: what it
 * says, and the function that tries it.
 */
#include <endian.h>
#include <poll.h>
#include <pthread.h>

#include "util/compiler.h"
#include "world.h"

enum { LEN = 64, THREADS = 4, BATCHES = 200 };

static struct world w;
static struct ibv_cq *cq;
static struct buffer buf, target;

static struct ibv_qp *make_qp_ex(struct ibv_pd *pd, struct ibv_cq *of)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = of, .recv_cq = of, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 3 * THREADS * BATCHES, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &attr);

	CHECK(qp);
	world_connect(&w, qp, qp);
	return qp;
}

static void build_write(struct ibv_qp_ex *qpx, uint64_t wr_id, unsigned int flags)
{
	qpx->wr_id = wr_id;
	qpx->wr_flags = flags;
	ibv_wr_rdma_write(qpx, target.mr->rkey, (uintptr_t)target.data);
	ibv_wr_set_sge(qpx, buf.mr->lkey, (uintptr_t)buf.data, 8);
}

/* Batches of two requests, one of which has an odd number; in between, a request of its own. */
static void *post_batches(void *arg)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(arg);
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 0, &sge, &target, 8);
	static int next;	/* atomic */

	for (int i = 0; i < BATCHES; i++) {
		uint64_t id = 2 * __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED);

		ibv_wr_start(qpx);
		build_write(qpx, id, IBV_SEND_SIGNALED);
		build_write(qpx, id + 1, IBV_SEND_SIGNALED);
		CHECK_EQ(ibv_wr_complete(qpx), 0);
		world_post(arg, &wr);
	}
	return NULL;
}

static void batches_of_threads_stay_whole(void)
{
	struct ibv_cq *own = world_cq(&w, 3 * THREADS * BATCHES);
	struct ibv_qp *qp = make_qp_ex(w.pd, own);
	pthread_t threads[THREADS];
	struct ibv_wc wc = { 0 };
	int plain = 0;

	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, post_batches, qp), 0);
	for (int i = 0; i < 3 * THREADS * BATCHES; i++) {
		uint64_t before = wc.wr_id;

		world_poll(own, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		plain += !wc.wr_id;
		if (before && !(before & 1))
			CHECK_EQ(wc.wr_id, before + 1);
	}
	CHECK_EQ(plain, THREADS * BATCHES);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(own), 0);
}

/* A thread domain takes the locks away, not the work. */
static void batch_in_a_thread_domain(void)
{
	struct ibv_td *td = ibv_alloc_td(w.ctx, &(struct ibv_td_init_attr){ 0 });
	struct ibv_pd *parent = ibv_alloc_parent_domain(w.ctx,
		&(struct ibv_parent_domain_init_attr){ .pd = w.pd, .td = td });
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;

	CHECK(td && parent);
	qp = make_qp_ex(parent, cq);
	qpx = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(qpx);
	build_write(qpx, 6, IBV_SEND_SIGNALED);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	world_expect(cq, 6, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
}

static void nothing_runs_before_complete(void)
{
	struct ibv_qp *qp = make_qp_ex(w.pd, cq);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	struct ibv_wc wc;

	memset(target.data, 0, 8);
	memset(buf.data, 0x5a, 8);
	ibv_wr_start(qpx);
	build_write(qpx, 1, IBV_SEND_SIGNALED);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	CHECK_EQ(target.data[0], 0);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK_EQ(target.data[0], 0x5a);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* IBV_SEND_SOLICITED decides whether the receiver is told; a message needs no data setter. */
static void solicited_by_function(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(w.ctx);
	struct ibv_cq *own = ibv_create_cq(w.ctx, 16, NULL, channel, 0), *named;
	struct ibv_qp *qp = make_qp_ex(w.pd, own);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct ibv_wc wc;
	void *context;

	CHECK_EQ(ibv_req_notify_cq(own, 1), 0);
	for (int solicited = 0; solicited < 2; solicited++) {
		world_recv(qp, 2, world_sge(&target, 0, 64));
		ibv_wr_start(qpx);
		qpx->wr_id = 1;
		qpx->wr_flags = solicited ? IBV_SEND_SOLICITED : 0;
		ibv_wr_send(qpx);
		CHECK_EQ(ibv_wr_complete(qpx), 0);
		world_poll(own, &wc, 1);
		CHECK_EQ(wc.wr_id, 2);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, 0);
		CHECK_EQ(poll(&fd, 1, solicited ? WORLD_LIMIT_S * 1000 : 0), solicited);
	}
	CHECK_EQ(ibv_get_cq_event(channel, &named, &context), 0);
	ibv_ack_cq_events(named, 1);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(own), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
}

/* Not IBV_WC_RECV_RDMA_WITH_IMM, as the page has it. */
static void immediate_by_function(void)
{
	struct ibv_qp *qp = make_qp_ex(w.pd, cq);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	struct ibv_wc wc;

	world_recv(qp, 2, world_sge(&target, 0, 64));
	ibv_wr_start(qpx);
	qpx->wr_id = 1;
	qpx->wr_flags = 0;
	ibv_wr_send_imm(qpx, htobe32(0x1234));
	ibv_wr_set_sge(qpx, buf.mr->lkey, (uintptr_t)buf.data, 64);
	CHECK_EQ(ibv_wr_complete(qpx), 0);
	wc = world_expect(cq, 2, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 0x1234);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* FLUSH transfers no data, but the page gives it the setters. As on soft RoCE no key is needed. */
static void data_of_flush(void)
{
	struct ibv_qp *qp = make_qp_ex(w.pd, cq);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp);
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_FLUSH_GLOBAL };
	struct ibv_mr *mr = ibv_reg_mr(w.pd, target.data, LEN, IBV_ACCESS_FLUSH_GLOBAL);
	struct ibv_sge sge = { .length = LEN };

	CHECK(mr);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	for (int list = 0; list < 2; list++) {
		ibv_wr_start(qpx);
		qpx->wr_id = 1;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_flush(qpx, mr->rkey, (uintptr_t)target.data, LEN, IBV_FLUSH_GLOBAL,
			     IBV_FLUSH_RANGE);
		if (list)
			ibv_wr_set_sge_list(qpx, 1, &sge);
		else
			ibv_wr_set_sge(qpx, 0, 0, LEN);
		CHECK_EQ(ibv_wr_complete(qpx), 0);
		CHECK_EQ(world_expect(cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FLUSH);
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static const struct {
	const char *says;
	void (*try)(void);
} statements[] = {
	{ "no other thread can enter; batches interleave with ibv_post_send()",
	  batches_of_threads_stay_whole },
	{ "no locking with a thread domain", batch_in_a_thread_domain },
	{ "nothing is executed before ibv_wr_complete() returns success",
	  nothing_runs_before_complete },
	{ "IBV_SEND_SOLICITED", solicited_by_function },
	{ "ibv_wr_send_imm(): the peer gets the immediate", immediate_by_function },
	{ "ibv_wr_flush(): the setters are DATA and QP", data_of_flush },
};

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 64);
	buf = world_buffer(&w, LEN, WORLD_ACCESS);
	target = world_buffer(&w, LEN, WORLD_ACCESS);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		printf("%s\n", statements[i].says);
		fflush(stdout);
		statements[i].try();
	}
	world_free(&buf);
	world_free(&target);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
