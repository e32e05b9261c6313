/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life cycle of a queue pair: creation and granted sizes, allowed and refused state
 * transitions, queries, destruction.
 */
#include <errno.h>

#include "world.h"

static struct world w;
static struct ibv_cq *cq;
static struct ibv_device_attr dev;

static struct ibv_qp_init_attr plain(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

static void expect_refused(struct ibv_qp_init_attr attr, int error)
{
	errno = 0;
	CHECK(!ibv_create_qp(w.pd, &attr));
	CHECK_EQ(errno, error);
}

static void test_create(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
						  IBV_QPT_XRC_SEND };
	struct ibv_qp_init_attr attr;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp *qp;

		attr = plain(types[i]);
		attr.cap.max_inline_data = 100;
		attr.qp_context = &attr;
		qp = ibv_create_qp(w.pd, &attr);
		CHECK(qp);
		CHECK(attr.cap.max_send_wr >= 1 && attr.cap.max_send_sge >= 1);
		CHECK(attr.cap.max_inline_data >= 100);
		CHECK(qp->qp_num > 1 && qp->qp_num < 0xffffff);
		CHECK(qp->context == w.ctx && qp->pd == w.pd && qp->qp_context == &attr);
		CHECK_EQ(qp->state, IBV_QPS_RESET);
		CHECK_EQ(qp->qp_type, types[i]);
		CHECK(!ibv_qp_to_qp_ex(qp));
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	attr = plain(IBV_QPT_RC);
	attr.send_cq = NULL;
	expect_refused(attr, EINVAL);
	attr = plain(IBV_QPT_RC);
	attr.recv_cq = NULL;
	expect_refused(attr, EINVAL);
	expect_refused(plain(IBV_QPT_XRC_RECV), EINVAL);
	expect_refused(plain(1), EINVAL);
	expect_refused(plain(IBV_QPT_DRIVER), EOPNOTSUPP);
}

static void test_limits(void)
{
	struct ibv_qp_init_attr attr = plain(IBV_QPT_RC);
	struct ibv_qp *qp;

	attr.cap = (struct ibv_qp_cap){ dev.max_qp_wr, dev.max_qp_wr, dev.max_sge, dev.max_sge, 0 };
	qp = ibv_create_qp(w.pd, &attr);
	CHECK(qp);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	attr = plain(IBV_QPT_RC);
	attr.cap.max_send_wr = dev.max_qp_wr + 1;
	expect_refused(attr, EINVAL);
	attr = plain(IBV_QPT_RC);
	attr.cap.max_recv_wr = dev.max_qp_wr + 1;
	expect_refused(attr, EINVAL);
	attr = plain(IBV_QPT_RC);
	attr.cap.max_send_sge = dev.max_sge + 1;
	expect_refused(attr, EINVAL);
	attr = plain(IBV_QPT_RC);
	attr.cap.max_recv_sge = dev.max_sge + 1;
	expect_refused(attr, EINVAL);
	attr = plain(IBV_QPT_RC);
	attr.cap.max_inline_data = 1 << 20;
	expect_refused(attr, EINVAL);
}

static void test_create_ex(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = w.pd,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(w.ctx, &attr);

	CHECK(qp);
	CHECK(ibv_qp_to_qp_ex(qp));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;	/* not on a datagram QP */
	CHECK(!ibv_create_qp_ex(w.ctx, &attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.send_ops_flags = 1ull << 40;
	CHECK(!ibv_create_qp_ex(w.ctx, &attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	CHECK(!ibv_create_qp_ex(w.ctx, &attr));
	CHECK_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = 0;
	CHECK(!ibv_create_qp_ex(w.ctx, &attr));	/* no protection domain */
	CHECK_EQ(errno, EINVAL);
}

/* A transition without a required attribute is refused, and the state does not change. */
static void test_required(enum ibv_qp_type type)
{
	struct ibv_qp *qp = world_qp(&w, type, cq, NULL);

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr;
		int mask = world_attr(&w, type, s, qp->qp_num, &attr);

		for (int bit = 1; bit < 26; bit++) {
			if (!(mask & 1 << bit))
				continue;
			CHECK_EQ(ibv_modify_qp(qp, &attr, mask & ~(1 << bit)), EINVAL);
			CHECK_EQ(qp->state, s - 1);
		}
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask | IBV_QP_CAP), EINVAL);
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
		CHECK_EQ(qp->state, s);
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void spoil_port(struct ibv_qp_attr *a) { a->port_num = 2; }
static void spoil_pkey(struct ibv_qp_attr *a) { a->pkey_index = 1; }
static void spoil_mtu_low(struct ibv_qp_attr *a) { a->path_mtu = 0; }
static void spoil_mtu_high(struct ibv_qp_attr *a) { a->path_mtu = IBV_MTU_4096 + 1; }
static void spoil_dest_rd(struct ibv_qp_attr *a) { a->max_dest_rd_atomic = 255; }
static void spoil_av_port(struct ibv_qp_attr *a) { a->ah_attr.port_num = 2; }
static void spoil_gid(struct ibv_qp_attr *a) { memset(&a->ah_attr.grh.dgid, 0, 16); }
static void spoil_gid_multicast(struct ibv_qp_attr *a) { a->ah_attr.grh.dgid.raw[0] = 0xff; }
static void spoil_sgid(struct ibv_qp_attr *a) { a->ah_attr.grh.sgid_index = 250; }
static void spoil_rd(struct ibv_qp_attr *a) { a->max_rd_atomic = 255; }
static void spoil_next(struct ibv_qp_attr *a) { a->qp_state = IBV_QPS_SQD; }
static void spoil_next_wild(struct ibv_qp_attr *a) { a->qp_state = 99; }

static const struct {
	enum ibv_qp_state next;
	void (*spoil)(struct ibv_qp_attr *a);
} bad_values[] = {
	{ IBV_QPS_INIT, spoil_port }, { IBV_QPS_INIT, spoil_pkey },
	{ IBV_QPS_INIT, spoil_next }, { IBV_QPS_INIT, spoil_next_wild },
	{ IBV_QPS_RTR, spoil_mtu_low }, { IBV_QPS_RTR, spoil_mtu_high },
	{ IBV_QPS_RTR, spoil_dest_rd }, { IBV_QPS_RTR, spoil_av_port }, { IBV_QPS_RTR, spoil_gid },
	{ IBV_QPS_RTR, spoil_gid_multicast }, { IBV_QPS_RTR, spoil_sgid },
	{ IBV_QPS_RTS, spoil_rd },
};

/* A single invalid value: the call is refused, and no attribute has changed. */
static void test_values(void)
{
	for (size_t i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++) {
		struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr, before, after;
		int mask;

		for (enum ibv_qp_state s = IBV_QPS_INIT; s < bad_values[i].next; s++)
			world_move(&w, qp, s, qp->qp_num);
		CHECK_EQ(ibv_query_qp(qp, &before, 0, &init), 0);
		mask = world_attr(&w, IBV_QPT_RC, bad_values[i].next, qp->qp_num, &attr);
		bad_values[i].spoil(&attr);
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
		CHECK_EQ(ibv_query_qp(qp, &after, 0, &init), 0);
		CHECK_MEM(&before, &after, sizeof(after));
		CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
}

/*
 * Values with more bits than the attribute has: only the low ones count, and retry counts are
 * limited.
 */
static void test_wide_values(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int mask;

	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_INIT, qp->qp_num, &attr);
	attr.qp_access_flags = ~0u;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTR, qp->qp_num, &attr);
	attr.dest_qp_num |= 0xab000000;
	attr.rq_psn = 0xff123456;
	attr.min_rnr_timer = 0x20 | 12;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	mask = world_attr(&w, IBV_QPT_RC, IBV_QPS_RTS, qp->qp_num, &attr);
	attr.sq_psn = 0xff123456;
	attr.timeout = 0xe0 | 14;
	attr.retry_cnt = 10;
	attr.rnr_retry = 10;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	CHECK_EQ(ibv_query_qp(qp, &attr, 0, &init), 0);
	CHECK_EQ(attr.dest_qp_num, qp->qp_num);
	CHECK_EQ(attr.rq_psn, 0x123456);
	CHECK_EQ(attr.sq_psn, 0x123456);
	CHECK_EQ(attr.min_rnr_timer, 12);
	CHECK_EQ(attr.timeout, 14);
	CHECK_EQ(attr.retry_cnt, 7);
	CHECK_EQ(attr.rnr_retry, 6);	/* 7 would mean endless */
	world_recv(qp, 1, (struct ibv_sge){ 0 });
	world_send(qp, 2, (struct ibv_sge){ 0 });
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		world_poll(cq, &wc, 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* An XRC send QP receives nothing, so its SRQ is ignored, as by the kernel. */
static void test_srq_of_a_sender(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .send_cq = cq,
					 .srq = ibv_create_srq(w.pd, &srq),
					 .qp_type = IBV_QPT_XRC_SEND,
					 .cap = { .max_send_wr = 1 } };
	struct ibv_qp *qp = ibv_create_qp(w.pd, &attr);

	CHECK(attr.srq && qp);
	CHECK_EQ(ibv_destroy_srq(attr.srq), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void test_query(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RTS);
	CHECK_EQ(attr.cur_qp_state, IBV_QPS_RTS);
	CHECK_EQ(attr.path_mtu, IBV_MTU_1024);
	CHECK_EQ(attr.dest_qp_num, qp->qp_num);
	CHECK_EQ(attr.sq_psn, WORLD_PSN);
	CHECK_EQ(attr.port_num, 1);
	CHECK_EQ(attr.timeout, 14);
	CHECK_EQ(attr.max_rd_atomic, 4);
	CHECK_EQ(attr.ah_attr.is_global, 1);
	CHECK(attr.cap.max_send_wr >= 16 && attr.cap.max_send_sge >= 4);
	CHECK_MEM(&attr.cap, &init.cap, sizeof(init.cap));
	CHECK(init.send_cq == cq && init.recv_cq == cq && init.qp_type == IBV_QPT_RC);
	/* The program's copy of the state changes only with a question for the state. */
	qp->state = IBV_QPS_INIT;
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
	CHECK_EQ(qp->state, IBV_QPS_INIT);
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(qp->state, IBV_QPS_RTS);
	world_move(&w, qp, IBV_QPS_RESET, 0);
	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RESET);
	CHECK_EQ(attr.dest_qp_num, 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* IBV_QP_CUR_STATE may be given; a wrong state is refused. */
static void test_cur_state(void)
{
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };

	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	attr.cur_qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	attr.qkey = 5;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

/* SQD: the event is raised if requested, requests wait, and continue after the return to RTS. */
static void test_drain(void)
{
	struct buffer buf = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_sge sge = world_sge(&buf, 0, 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &buf, 8);
	struct ibv_wc wc;

	world_connect(&w, qp, qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	world_event(&w, IBV_EVENT_SQ_DRAINED);
	world_post(qp, &wr);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	attr.timeout = 13;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_TIMEOUT), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	world_expect(cq, 3, IBV_WC_SUCCESS);
	/* The next drain raises an event only if it is asked for again. */
	attr.qp_state = IBV_QPS_SQD;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	CHECK(!world_has_event(&w));
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	world_free(&buf);
}

static void read_some(struct ibv_qp *qp, struct buffer *buf)
{
	enum { N = 16 };
	struct ibv_wc wc[N];

	for (int i = 0; i < N; i++) {
		struct ibv_sge sge = world_sge(buf, i * 8, 8);
		struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_READ, i, &sge, buf, 512);

		world_post(qp, &wr);
	}
	world_poll(cq, wc, N);
	for (int i = 0; i < N; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
}

/* The two sides may agree on more READs at a time in SQD, as on rxe. */
static void test_more_reads(void)
{
	const int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
	struct ibv_qp *qp[] = { world_qp(&w, IBV_QPT_RC, cq, NULL),
				world_qp(&w, IBV_QPT_RC, cq, NULL) };
	struct buffer buf = world_buffer(&w, 1024, WORLD_ACCESS);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	world_connect(&w, qp[0], qp[1]);
	read_some(qp[0], &buf);
	for (int i = 0; i < 2; i++) {
		attr = (struct ibv_qp_attr){ .max_rd_atomic = 32, .max_dest_rd_atomic = 32 };
		CHECK_EQ(ibv_modify_qp(qp[i], &attr, mask), EINVAL); /* in RTS */
		attr.qp_state = IBV_QPS_SQD;
		CHECK_EQ(ibv_modify_qp(qp[i], &attr, IBV_QP_STATE), 0);
		CHECK_EQ(ibv_modify_qp(qp[i], &attr, mask), 0);
		attr.qp_state = IBV_QPS_RTS;
		CHECK_EQ(ibv_modify_qp(qp[i], &attr, IBV_QP_STATE), 0);
		CHECK_EQ(ibv_query_qp(qp[i], &attr, mask, &init), 0);
		CHECK(attr.max_rd_atomic == 32 && attr.max_dest_rd_atomic == 32);
	}
	read_some(qp[0], &buf);
	read_some(qp[1], &buf);
	CHECK_EQ(ibv_destroy_qp(qp[0]), 0);
	CHECK_EQ(ibv_destroy_qp(qp[1]), 0);
	world_free(&buf);
}

/* The depths of a QP that was created without any are enough for a message each way. */
static void test_no_depth(void)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct buffer buf = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_qp *qp = ibv_create_qp(w.pd, &attr);
	struct ibv_wc wc[2];

	CHECK(qp);
	CHECK(attr.cap.max_send_wr && attr.cap.max_recv_wr);
	world_connect(&w, qp, qp);
	world_recv(qp, 1, world_sge(&buf, 0, 8));
	world_send(qp, 2, world_sge(&buf, 8, 8));
	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	world_free(&buf);
}

/* One message of several packets, and a READ. */
static void exchange(struct ibv_qp *from, struct ibv_qp *to, struct buffer *buf)
{
	enum { LEN = 5000 };
	struct ibv_sge sge = world_sge(buf, 0, LEN);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_READ, 3, &sge, buf, LEN);
	struct ibv_wc wc[2];

	world_recv(to, 1, world_sge(buf, LEN, LEN));
	world_send(from, 2, sge);
	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	world_post(from, &wr);
	world_expect(cq, 3, IBV_WC_SUCCESS);
}

static struct ibv_qp_attr queried(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, 0, &init), 0);
	return attr;
}

/*
 * The PSNs that a query returns are those of the next packets: one side of a connection that has
 * carried data can be reset and brought back with them, while the other side goes on.
 */
static void test_query_psn(void)
{
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct buffer buf = world_buffer(&w, 10000, WORLD_ACCESS);

	world_connect(&w, a, b);
	for (int round = 0; round < 3; round++) {
		struct ibv_qp_attr was, unused;

		exchange(a, b, &buf);
		exchange(b, a, &buf);
		was = queried(a);
		CHECK(was.sq_psn != WORLD_PSN && was.rq_psn != WORLD_PSN);
		CHECK_EQ(was.sq_psn, queried(b).rq_psn);
		CHECK_EQ(was.rq_psn, queried(b).sq_psn);
		world_move(&w, a, IBV_QPS_RESET, 0);
		CHECK(!queried(a).sq_psn && !queried(a).rq_psn);
		for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
			int mask = world_attr(&w, IBV_QPT_RC, s, b->qp_num, &unused);

			was.qp_state = s;
			CHECK_EQ(ibv_modify_qp(a, &was, mask), 0);
		}
	}
	exchange(a, b, &buf);
	exchange(b, a, &buf);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	world_free(&buf);
}

/* After RESET a QP has no old requests or completions and can be connected again. */
static void test_reset(void)
{
	struct buffer buf = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct ibv_wc wc;

	for (int round = 0; round < 3; round++) {
		world_connect(&w, qp, qp);
		for (int i = 0; i < 16; i++)
			world_recv(qp, i, world_sge(&buf, 0, 8));
		world_send(qp, 50, world_sge(&buf, 8, 8));
		if (round)
			world_poll(cq, &wc, 1);
		world_move(&w, qp, IBV_QPS_RESET, 0);
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	}
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	world_free(&buf);
}

/* In ERR posted requests are flushed in order, and so are requests that are posted later. */
static void test_flush(void)
{
	struct buffer buf = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_qp *qp = world_qp(&w, IBV_QPT_RC, cq, NULL);

	world_connect(&w, qp, qp);
	for (int i = 0; i < 16; i++)
		world_recv(qp, i, world_sge(&buf, 0, 8));
	world_move(&w, qp, IBV_QPS_ERR, 0);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(world_expect(cq, i, IBV_WC_WR_FLUSH_ERR).qp_num, qp->qp_num);
	world_recv(qp, 20, world_sge(&buf, 0, 8));
	world_send(qp, 21, world_sge(&buf, 0, 8));
	world_expect(cq, 20, IBV_WC_WR_FLUSH_ERR);
	world_expect(cq, 21, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	world_free(&buf);
}

static void test_many(void)
{
	enum { MANY = 1000 };
	struct ibv_qp *qp[MANY];

	for (int i = 0; i < MANY; i++) {
		qp[i] = world_qp(&w, IBV_QPT_RC, cq, NULL);
		for (int j = 0; j < i; j += 97)
			CHECK(qp[i]->qp_num != qp[j]->qp_num);
	}
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
}

int main(void)
{
	world_open(&w);
	CHECK_EQ(ibv_query_device(w.ctx, &dev), 0);
	cq = world_cq(&w, 256);
	test_create();
	test_limits();
	test_create_ex();
	test_required(IBV_QPT_RC);
	test_required(IBV_QPT_UC);
	test_required(IBV_QPT_UD);
	test_values();
	test_wide_values();
	test_srq_of_a_sender();
	test_query();
	test_cur_state();
	test_drain();
	test_more_reads();
	test_no_depth();
	test_query_psn();
	test_reset();
	test_flush();
	test_many();
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
