/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues with tag matching: creation, the operations on the tag list, which tag a
 * message matches, and the sync phase. docs/TAGS.md has the rules; the rows follow
 * ibv_post_srq_ops(3) and rdma-core's description of tag matching.
 */
#include <errno.h>

#include "tags/bench.h"

static void test_caps(void)
{
	struct ibv_device_attr_ex attr;
	struct bench b;

	bench_open(&b, 0, 0);
	CHECK_EQ(ibv_query_device_ex(b.w.ctx, NULL, &attr), 0);
	CHECK_EQ(attr.tm_caps.flags, IBV_TM_CAP_RC);
	CHECK(attr.tm_caps.max_num_tags >= TAGS);
	CHECK(attr.tm_caps.max_ops >= OPS);
	CHECK(attr.tm_caps.max_sge >= 1);
	CHECK(attr.tm_caps.max_rndv_hdr_size >= REQUEST);
	bench_close(&b);
}

static void test_create(void)
{
	struct bench b;
	struct ibv_device_attr_ex dev;
	struct ibv_srq_init_attr_ex good;
	uint32_t number;

	bench_open(&b, 0, 0);
	CHECK_EQ(ibv_query_device_ex(b.w.ctx, NULL, &dev), 0);
	good = srq_attr(&b);
#define ROW(change, error)                                                                         \
	do {                                                                                       \
		struct ibv_srq_init_attr_ex a = good;                                              \
		change;                                                                            \
		errno = 0;                                                                         \
		CHECK(!ibv_create_srq_ex(b.w.ctx, &a));                                            \
		CHECK_EQ(errno, error);                                                            \
	} while (0)
	ROW(a.comp_mask &= ~IBV_SRQ_INIT_ATTR_TM, EINVAL);
	ROW(a.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ, EINVAL);
	ROW(a.comp_mask &= ~IBV_SRQ_INIT_ATTR_PD, EINVAL);
	ROW(a.comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED, EOPNOTSUPP);
	ROW(a.cq = NULL, EINVAL);
	ROW(a.pd = NULL, EINVAL);
	ROW(a.tm_cap.max_num_tags = 0, EINVAL);
	ROW(a.tm_cap.max_num_tags = dev.tm_caps.max_num_tags + 1, EINVAL);
	ROW(a.tm_cap.max_ops = 0, EINVAL);
	ROW(a.tm_cap.max_ops = dev.tm_caps.max_ops + 1, EINVAL);
	ROW(a.srq_type = IBV_SRQT_TM + 1, EINVAL);
	ROW(a.srq_type = IBV_SRQT_XRC, EINVAL);
#undef ROW
	CHECK_EQ(ibv_get_srq_num(b.srq, &number), 0);
	CHECK_EQ(ibv_destroy_srq(b.srq), EBUSY);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(b.tag_cq)), EBUSY);
	bench_close(&b);
}

/* IBV_TM_CAP_RC: only RC queue pairs. */
static void test_qp_types(void)
{
	static const struct {
		enum ibv_qp_type type;
		bool ok;
	} rows[] = {
		{ IBV_QPT_RC, true }, { IBV_QPT_UC, false }, { IBV_QPT_UD, false },
		{ IBV_QPT_XRC_SEND, true },	/* the type receives nothing */
	};
	struct bench b;

	bench_open(&b, 0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = b.send_cq, .recv_cq = b.send_cq, .srq = b.srq,
			.cap = { .max_send_wr = 1, .max_send_sge = 1 }, .qp_type = rows[i].type,
		};
		struct ibv_qp *qp = ibv_create_qp(b.w.pd, &attr);

		CHECK_EQ(qp != NULL, rows[i].ok);
		CHECK(qp || errno == EINVAL);
		if (qp)
			CHECK_EQ(ibv_destroy_qp(qp), 0);
	}
	bench_close(&b);
}

static void test_op_rows(void)
{
	struct bench b;
	struct ibv_sge sge[8] = { { 0 } };
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *basic;
	const struct {
		int opcode, flags;
		uint32_t handle;
		struct ibv_sge *list;
		int num_sge;
		int want;
	} rows[] = {
		{ IBV_WR_TAG_SYNC, 0, 0, NULL, 0, 0 },
		{ IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC, 0, NULL, 0, 0 },
		{ IBV_WR_TAG_SYNC, 1 << 2, 0, NULL, 0, EINVAL },
		{ IBV_WR_TAG_SYNC, -1, 0, NULL, 0, EINVAL },
		{ IBV_WR_TAG_SYNC + 1, 0, 0, NULL, 0, EINVAL },
		{ -1, 0, 0, NULL, 0, EINVAL },
		{ IBV_WR_TAG_ADD, 0, 0, NULL, 0, 0 },
		{ IBV_WR_TAG_ADD, 0, 0, NULL, 1, EINVAL },
		{ IBV_WR_TAG_ADD, 0, 0, sge, -1, EINVAL },
		{ IBV_WR_TAG_ADD, 0, 0, sge, 4, 0 },
		{ IBV_WR_TAG_ADD, 0, 0, sge, 5, EINVAL },
		{ IBV_WR_TAG_ADD, 0, 0, sge, 1 << 30, EINVAL },
		{ IBV_WR_TAG_DEL, 0, TAGS - 1, NULL, 0, 0 },
		{ IBV_WR_TAG_DEL, 0, TAGS, NULL, 0, EINVAL },
		{ IBV_WR_TAG_DEL, 0, UINT32_MAX, NULL, 0, EINVAL },
	};

	bench_open(&b, 0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_ops_wr wr = make_op(&b, rows[i].opcode, rows[i].flags), *bad = NULL;

		wr.tm.handle = rows[i].handle;
		wr.tm.add.sg_list = rows[i].list;
		wr.tm.add.num_sge = rows[i].num_sge;
		CHECK_EQ(ibv_post_srq_ops(b.srq, &wr, &bad), rows[i].want);
		CHECK(bad == (rows[i].want ? &wr : NULL));
	}
	expect_nothing(&b);
	basic = ibv_create_srq(b.w.pd, &plain);
	CHECK(basic);
	struct ibv_ops_wr wr = make_op(&b, IBV_WR_TAG_SYNC, 0), *bad = NULL;
	CHECK_EQ(ibv_post_srq_ops(basic, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_EQ(ibv_destroy_srq(basic), 0);
	bench_close(&b);
}

/* A list of operations stops at the first that fails; the ones before it are executed. */
static void test_op_chain(void)
{
	struct bench b;
	struct ibv_ops_wr wr[3], *bad = NULL;

	bench_open(&b, 0, 0);
	for (int i = 0; i < 3; i++) {
		wr[i] = make_op(&b, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED);
		wr[i].wr_id = i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].flags = 1 << 5;
	CHECK_EQ(ibv_post_srq_ops(b.srq, wr, &bad), EINVAL);
	CHECK(bad == &wr[1]);
	expect(&b, 0, IBV_WC_TM_SYNC, 0);
	expect_nothing(&b);
	bench_close(&b);
}

static void test_list_full(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_ops_wr wr;
	uint32_t handle[TAGS];

	bench_open(&b, 0, 0);
	for (int i = 0; i < TAGS; i++)
		handle[i] = add_tag(&b, i, i, FULL_MASK, 0, 64);
	sge = world_sge(&b.dst, 0, 64);
	wr = tag_at(&b, 99, 99, FULL_MASK, &sge);
	CHECK_EQ(post_op(&b, &wr), ENOMEM);
	expect_nothing(&b);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_DEL, handle[5]).status, IBV_WC_SUCCESS);
	add_tag(&b, 99, 99, FULL_MASK, 0, 64);
	bench_close(&b);
}

/*
 * ibv_create_srq_ex(3): at most max_ops are outstanding; polling a signaled one releases them, as
 * with sends.
 */
static void test_max_ops(void)
{
	struct bench b;
	struct ibv_ops_wr quiet, signaled;

	bench_open(&b, 0, 0);
	quiet = make_op(&b, IBV_WR_TAG_SYNC, 0);
	signaled = make_op(&b, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED);
	for (int i = 0; i < OPS - 1; i++)
		CHECK_EQ(post_op(&b, &quiet), 0);
	CHECK_EQ(post_op(&b, &signaled), 0);
	CHECK_EQ(post_op(&b, &quiet), ENOMEM);
	expect(&b, 77, IBV_WC_TM_SYNC, 0);
	for (int i = 0; i < OPS; i++)
		CHECK_EQ(post_op(&b, &quiet), 0);
	/* No signaled operation is left to poll: the queue stays full, as with sends. */
	CHECK_EQ(post_op(&b, &quiet), ENOMEM);
	CHECK_EQ(post_op(&b, &signaled), ENOMEM);
	bench_close(&b);
}

static void test_delete(void)
{
	struct bench b;
	uint32_t one, two;
	struct seen s;
	struct ibv_ops_wr wr;

	bench_open(&b, 0, 4);
	connect_qps(&b);
	one = add_tag(&b, 1, 1, FULL_MASK, 0, 64);
	two = add_tag(&b, 2, 2, FULL_MASK, 64, 64);
	CHECK(one != two);
	s = run_op(&b, IBV_WR_TAG_DEL, one);
	CHECK_EQ(s.status, IBV_WC_SUCCESS);
	CHECK_EQ(s.opcode, IBV_WC_TM_DEL);
	/* Delete again, and delete a tag that a message has consumed in between. */
	s = run_op(&b, IBV_WR_TAG_DEL, one);
	CHECK_EQ(s.status, IBV_WC_TM_ERR);
	CHECK(s.vendor_err != 0);
	send_tag(&b, IBV_TMH_EAGER, 2, 8);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_DEL, two).status, IBV_WC_TM_ERR);
	/* Without IBV_OPS_SIGNALED there is no completion, whatever the result. */
	wr = make_op(&b, IBV_WR_TAG_DEL, 0);
	wr.tm.handle = two;
	CHECK_EQ(post_op(&b, &wr), 0);
	expect_nothing(&b);
	/* A deleted tag matches no message. */
	send_tag(&b, IBV_TMH_EAGER, 1, 8);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	bench_close(&b);
}

/* The oldest matching tag takes the message, whether exact or masked. */
static void test_order(void)
{
	struct bench b;

	bench_open(&b, 0, 4);
	connect_qps(&b);
	add_tag(&b, 1, 0x10, 0xf0, 0, 64);
	add_tag(&b, 2, 0x12, FULL_MASK, 0, 64);
	add_tag(&b, 3, 0, 0, 0, 64);
	add_tag(&b, 4, 0x12, FULL_MASK, 0, 64);
	send_tag(&b, IBV_TMH_EAGER, 0x12, 1);
	CHECK_EQ(expect(&b, 1, IBV_WC_TM_RECV, BOTH).info.tag, 0x12);
	send_tag(&b, IBV_TMH_EAGER, 0x12, 1);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	send_tag(&b, IBV_TMH_EAGER, 0x12, 1);
	expect(&b, 3, IBV_WC_TM_RECV, BOTH);
	send_tag(&b, IBV_TMH_EAGER, 0x12, 1);
	expect(&b, 4, IBV_WC_TM_RECV, BOTH);
	send_tag(&b, IBV_TMH_EAGER, 0x12, 1);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	bench_close(&b);
}

/*
 * The race that the sync phase resolves: a message arrives while the program adds the tag for it;
 * the next message must not overtake it.
 */
static void test_sync(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_ops_wr wr;
	struct seen s;

	bench_open(&b, 0, 8);
	connect_qps(&b);
	add_tag(&b, 1, 1, FULL_MASK, 0, 64);
	sge = world_sge(&b.dst, 64, 64);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	/* The program has not polled the first message yet, so it does not count it. */
	wr = tag_at(&b, 2, 5, FULL_MASK, &sge);
	CHECK_EQ(post_op(&b, &wr), 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	send_tag(&b, IBV_TMH_EAGER, 1, 8);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	s = expect(&b, 77, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
	expect(&b, ORDINARY_ID + 1, IBV_WC_TM_RECV, 0);
	/* Tags from before the phase still work. */
	expect(&b, 1, IBV_WC_TM_RECV, BOTH);
	CHECK_EQ(b.unexpected, 2);
	/* A count that covers only some of the messages is not enough. */
	b.unexpected = 1;
	s = run_op(&b, IBV_WR_TAG_SYNC, 0);
	CHECK_EQ(s.opcode, IBV_WC_TM_SYNC);
	CHECK_EQ(s.flags, IBV_WC_TM_SYNC_REQ);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, ORDINARY_ID + 2, IBV_WC_TM_RECV, 0);
	b.unexpected = 3;
	/* A count without the flag is not read. */
	wr = make_op(&b, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED);
	CHECK_EQ(post_op(&b, &wr), 0);
	expect(&b, 77, IBV_WC_TM_SYNC, IBV_WC_TM_SYNC_REQ);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_SYNC, 0).flags, 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	bench_close(&b);
}

/* An operation that fails tells nothing: neither on a full list nor with too many SGEs. */
static void test_failed_sync(void)
{
	enum { TOO_MANY = 64 };
	struct bench b;
	struct ibv_sge sge[TOO_MANY] = { { 0 } };
	struct ibv_ops_wr wr;

	bench_open(&b, 0, 8);
	connect_qps(&b);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	for (int i = 0; i < TAGS; i++) {
		wr = tag_at(&b, i, 5, FULL_MASK, sge);
		wr.flags = IBV_OPS_SIGNALED;
		CHECK_EQ(post_op(&b, &wr), 0);
		expect(&b, 77, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
	}
	wr = tag_at(&b, 99, 99, FULL_MASK, sge);
	CHECK_EQ(post_op(&b, &wr), ENOMEM);
	wr.tm.add.num_sge = TOO_MANY;
	CHECK_EQ(post_op(&b, &wr), EINVAL);
	send_tag(&b, IBV_TMH_EAGER, 5, 0);
	expect(&b, ORDINARY_ID + 1, IBV_WC_TM_RECV, 0);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_SYNC, 0).flags, 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 0);
	expect(&b, 0, IBV_WC_TM_RECV, BOTH);
	bench_close(&b);
}

/*
 * A program that does not poll its unexpected messages is asked for a sync before the 16-bit counts
 * could wrap.
 */
static void test_far_behind(void)
{
	struct bench b;

	bench_open(&b, 0, 1);
	connect_qps(&b);
	for (unsigned int i = 1; i <= 0x4001; i++) {
		send_tag(&b, IBV_TMH_EAGER, 5, 0);
		expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, i > 0x3fff ? IBV_WC_TM_SYNC_REQ : 0);
		post_ordinary(&b, 0);
	}
	CHECK_EQ(run_op(&b, IBV_WR_TAG_SYNC, 0).flags, 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 0);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	bench_close(&b);
}

/* Without an ordinary receive the peer gets an RNR NAK, and nothing is counted. */
static void test_not_ready(void)
{
	struct bench b;

	bench_open(&b, 0, 0);
	connect_qps(&b);
	put_tmh(&b, IBV_TMH_EAGER, 5);
	world_send(b.from, 1, world_sge(&b.src, 0, TMH + 8));
	for (int i = 0; i < 1000; i++)
		expect_nothing(&b);
	/* A tag added meanwhile is in step and matches the message. */
	add_tag(&b, 2, 5, FULL_MASK, 0, 64);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	world_expect(b.send_cq, 1, IBV_WC_SUCCESS);
	bench_close(&b);
}

static void test_limit(void)
{
	struct bench b;
	struct ibv_srq_attr attr = { .srq_limit = 2, .max_wr = 64 };

	bench_open(&b, 0, 2);
	connect_qps(&b);
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT), 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	world_event(&b.w, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK_EQ(ibv_modify_srq(b.srq, &attr, IBV_SRQ_MAX_WR), 0);
	CHECK_EQ(ibv_query_srq(b.srq, &attr), 0);
	CHECK(attr.max_wr >= 64);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, ORDINARY_ID + 1, IBV_WC_TM_RECV, 0);
	bench_close(&b);
}

/*
 * The device's send queue takes no requests from the program; a send queue that the program asked
 * for does.
 */
static void test_send_queue(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc[2];

	bench_open(&b, 0, 0);
	connect_qps(&b);
	sge = world_sge(&b.dst, 0, 8);
	CHECK_EQ(ibv_post_send(b.to, &wr, &bad), ENOMEM);
	CHECK(bad == &wr);
	bench_close(&b);
	bench_open(&b, 4, 0);
	connect_qps(&b);
	post_fin(&b, 0);
	world_send(b.to, 5, world_sge(&b.dst, 0, 8));
	world_poll(b.send_cq, wc, 2);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	CHECK_EQ(wc[0].wr_id + wc[1].wr_id, 5 + FIN_ID);
	bench_close(&b);
}

int main(void)
{
	test_caps();
	test_create();
	test_qp_types();
	test_op_rows();
	test_op_chain();
	test_list_full();
	test_max_ops();
	test_delete();
	test_order();
	test_sync();
	test_failed_sync();
	test_far_behind();
	test_not_ready();
	test_limit();
	test_send_queue();
	return 0;
}
