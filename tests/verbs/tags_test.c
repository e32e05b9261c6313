/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: list operations, messages that are expected, unexpected or untagged, rendezvous, and
 * what goes wrong.  docs/TAGS.md has the rules; the rows here are of ibv_post_srq_ops(3) and of
 * rdma-core's description of tag matching.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include <infiniband/tm_types.h>

#include "world.h"

enum {
	TAGS = 32,
	OPS = 16,
	ORDINARY = 24,
	ORDINARY_LEN = 8192,
	MEM = 4 << 20,
	TMH = sizeof(struct ibv_tmh),
	REQUEST = sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh),
	ORDINARY_ID = 1000,	/* wr_id of the first ordinary receive */
	FIN_ID = 500,
	PRIV = 0x00c0ffee,
	MATCH = IBV_WC_TM_MATCH,
	VALID = IBV_WC_TM_DATA_VALID,
	BOTH = MATCH | VALID,
};

static const uint64_t full = UINT64_MAX;

/* A sender, and a receiver that matches tags. */
struct bench {
	struct world w;
	struct ibv_cq *send_cq;		/* the sender's */
	struct ibv_cq_ex *tag_cq;
	struct ibv_srq *srq;
	struct ibv_qp *from, *to;
	struct buffer src, dst, ordinary;
	enum ibv_mtu mtu;
	uint8_t rnr_retry, timeout, rd_atomic;	/* of both; of the receiver */
	uint16_t unexpected;		/* that the test has seen */
};

/* What a completion of the SRQ's CQ said. */
struct seen {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned int flags;
	uint32_t byte_len, imm, qp_num, vendor_err;
	struct ibv_wc_tm_info info;
};

static struct ibv_srq_init_attr_ex srq_attr(struct bench *b)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = ORDINARY, .max_sge = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = b->w.pd,
		.cq = ibv_cq_ex_to_cq(b->tag_cq),
		.tm_cap = { .max_num_tags = TAGS, .max_ops = OPS },
	};
}

static struct ibv_qp *receiver(struct bench *b, uint32_t max_send_wr)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = b->send_cq,
		.srq = b->srq,
		.cap = { .max_send_wr = max_send_wr, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(b->w.pd, &attr);

	CHECK(qp);
	CHECK(!qp->recv_cq);
	return qp;
}

static void move(struct bench *b, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer)
{
	struct ibv_qp_attr attr;
	int mask = world_attr(&b->w, IBV_QPT_RC, to, peer, &attr);

	attr.path_mtu = b->mtu;
	attr.rnr_retry = b->rnr_retry;
	attr.timeout = b->timeout;
	attr.max_rd_atomic = qp == b->to ? b->rd_atomic : 4;
	CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
}

static void connect_qps(struct bench *b)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		move(b, b->to, s, b->from->qp_num);
		move(b, b->from, s, b->to->qp_num);
	}
}

static void post_ordinary(struct bench *b, unsigned int i)
{
	struct ibv_sge sge = world_sge(&b->ordinary, i * ORDINARY_LEN, ORDINARY_LEN);
	struct ibv_recv_wr wr = { .wr_id = ORDINARY_ID + i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_srq_recv(b->srq, &wr, &bad), 0);
}

/* max_send_wr: of the receiver; 0 leaves rendezvous to the device. */
static void open_bench(struct bench *b, uint32_t max_send_wr, unsigned int ordinary)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 256,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};
	struct ibv_srq_init_attr_ex attr;

	memset(b, 0, sizeof(*b));
	b->mtu = IBV_MTU_1024;
	b->rnr_retry = 7;
	b->timeout = 14;
	b->rd_atomic = 4;
	world_open(&b->w);
	b->send_cq = world_cq(&b->w, 256);
	b->tag_cq = ibv_create_cq_ex(b->w.ctx, &cq);
	CHECK(b->tag_cq);
	attr = srq_attr(b);
	b->srq = ibv_create_srq_ex(b->w.ctx, &attr);
	CHECK(b->srq);
	b->from = world_qp(&b->w, IBV_QPT_RC, b->send_cq, NULL);
	b->to = receiver(b, max_send_wr);
	b->src = world_buffer(&b->w, MEM, WORLD_ACCESS);
	b->dst = world_buffer(&b->w, MEM, WORLD_ACCESS);
	b->ordinary = world_buffer(&b->w, ORDINARY * ORDINARY_LEN, WORLD_ACCESS);
	for (size_t i = 0; i < MEM; i++)
		b->src.data[i] = i * 7 + (i >> 8) + 1;
	for (unsigned int i = 0; i < ordinary; i++)
		post_ordinary(b, i);
}

static void close_bench(struct bench *b)
{
	if (b->to)
		CHECK_EQ(ibv_destroy_qp(b->to), 0);
	if (b->from)
		CHECK_EQ(ibv_destroy_qp(b->from), 0);
	CHECK_EQ(ibv_destroy_srq(b->srq), 0);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(b->tag_cq)), 0);
	CHECK_EQ(ibv_destroy_cq(b->send_cq), 0);
	world_free(&b->src);
	world_free(&b->dst);
	world_free(&b->ordinary);
	world_close(&b->w);
}

static bool try_poll(struct bench *b, struct seen *s)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq = b->tag_cq;

	if (ibv_start_poll(cq, &attr))
		return false;
	*s = (struct seen){
		.wr_id = cq->wr_id,
		.status = cq->status,
		.opcode = ibv_wc_read_opcode(cq),
		.flags = ibv_wc_read_wc_flags(cq),
		.byte_len = ibv_wc_read_byte_len(cq),
		.imm = be32toh(ibv_wc_read_imm_data(cq)),
		.qp_num = ibv_wc_read_qp_num(cq),
		.vendor_err = ibv_wc_read_vendor_err(cq),
	};
	ibv_wc_read_tm_info(cq, &s->info);
	ibv_end_poll(cq);
	return true;
}

/* Polling one CQ drives all QPs, so nothing else is needed while waiting. */
static struct seen next(struct bench *b)
{
	struct seen s;
	struct ibv_wc none;

	for (long tries = 0; !try_poll(b, &s); tries++) {
		CHECK(tries < 200000000);
		CHECK(ibv_poll_cq(b->send_cq, 0, &none) == 0);
	}
	if (s.status == IBV_WC_SUCCESS && s.opcode == IBV_WC_TM_RECV && !(s.flags & BOTH))
		b->unexpected++;
	return s;
}

static struct seen expect(struct bench *b, uint64_t wr_id, enum ibv_wc_opcode opcode,
			  unsigned int flags)
{
	struct seen s = next(b);

	CHECK_EQ(s.status, IBV_WC_SUCCESS);
	CHECK_EQ(s.wr_id, wr_id);
	CHECK_EQ(s.opcode, opcode);
	CHECK_EQ(s.flags, flags);
	return s;
}

static struct seen expect_error(struct bench *b, uint64_t wr_id, enum ibv_wc_status status)
{
	struct seen s = next(b);

	CHECK_EQ(s.status, status);
	CHECK_EQ(s.wr_id, wr_id);
	return s;
}

static void expect_nothing(struct bench *b)
{
	struct seen s;

	for (int i = 0; i < 100; i++)
		CHECK(!try_poll(b, &s));
}

/* ---------------------------------------------------------------- operations */

static struct ibv_ops_wr op(struct bench *b, enum ibv_ops_wr_opcode opcode, int flags)
{
	return (struct ibv_ops_wr){
		.wr_id = 77,
		.opcode = opcode,
		.flags = flags,
		.tm = { .unexpected_cnt = __atomic_load_n(&b->unexpected, __ATOMIC_ACQUIRE) },
	};
}

static int post_op(struct bench *b, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int ret = ibv_post_srq_ops(b->srq, wr, &bad);

	CHECK(ret ? bad != NULL : !bad);
	return ret;
}

static struct ibv_ops_wr tag_at(struct bench *b, uint64_t wr_id, uint64_t tag, uint64_t mask,
				struct ibv_sge *sge)
{
	struct ibv_ops_wr wr = op(b, IBV_WR_TAG_ADD, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);

	wr.tm.add.recv_wr_id = wr_id;
	wr.tm.add.tag = tag;
	wr.tm.add.mask = mask;
	wr.tm.add.sg_list = sge;
	wr.tm.add.num_sge = 1;
	return wr;
}

/* Adds a tag with `len` bytes at `offset` of dst, in step with what the test has seen. */
static uint32_t add(struct bench *b, uint64_t wr_id, uint64_t tag, uint64_t mask, size_t offset,
		    uint32_t len)
{
	struct ibv_sge sge = world_sge(&b->dst, offset, len);
	struct ibv_ops_wr wr = tag_at(b, wr_id, tag, mask, &sge);

	CHECK_EQ(post_op(b, &wr), 0);
	expect(b, 77, IBV_WC_TM_ADD, 0);
	return wr.tm.handle;
}

static struct seen run_op(struct bench *b, enum ibv_ops_wr_opcode opcode, uint32_t handle)
{
	struct ibv_ops_wr wr = op(b, opcode, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);

	wr.tm.handle = handle;
	CHECK_EQ(post_op(b, &wr), 0);
	return next(b);
}

/* ---------------------------------------------------------------- messages */

static struct ibv_tmh *put_tmh(struct bench *b, uint8_t opcode, uint64_t tag)
{
	struct ibv_tmh *tmh = (struct ibv_tmh *)b->src.data;

	*tmh = (struct ibv_tmh){ .opcode = opcode, .app_ctx = htobe32(PRIV), .tag = htobe64(tag) };
	return tmh;
}

/* `len` bytes of src, of which the first are a header already. */
static void send_raw(struct bench *b, uint32_t len)
{
	world_send(b->from, 1, world_sge(&b->src, 0, len));
	world_expect(b->send_cq, 1, IBV_WC_SUCCESS);
}

static void send_tag(struct bench *b, uint8_t opcode, uint64_t tag, uint32_t payload)
{
	put_tmh(b, opcode, tag);
	send_raw(b, TMH + payload);
}

/* A request for `len` bytes at `offset` of src, with `more` bytes behind the header. */
static void send_request(struct bench *b, uint64_t tag, size_t offset, uint32_t len, uint32_t more)
{
	struct ibv_rvh *rvh = (struct ibv_rvh *)(b->src.data + TMH);

	*rvh = (struct ibv_rvh){
		.va = htobe64((uintptr_t)b->src.data + offset),
		.rkey = htobe32(b->src.mr->rkey),
		.len = htobe32(len),
	};
	put_tmh(b, IBV_TMH_RNDV, tag);
	send_raw(b, REQUEST + more);
}

static void post_fin(struct bench *b, unsigned int i)
{
	world_recv(b->from, FIN_ID + i, world_sge(&b->src, MEM - (i + 1) * 64, 64));
}

/* The FIN says which request is done. */
static void expect_fin(struct bench *b, unsigned int i, uint64_t tag, uint32_t len)
{
	struct ibv_wc wc = world_expect(b->send_cq, FIN_ID + i, IBV_WC_SUCCESS);
	const uint8_t *got = b->src.data + MEM - (i + 1) * 64;
	const struct ibv_tmh *tmh = (const void *)got;
	const struct ibv_rvh *rvh = (const void *)(got + TMH);

	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, REQUEST);
	CHECK_EQ(tmh->opcode, IBV_TMH_FIN);
	CHECK_EQ(be32toh(tmh->app_ctx), PRIV);
	CHECK_EQ(be64toh(tmh->tag), tag);
	CHECK_EQ(be32toh(rvh->rkey), b->src.mr->rkey);
	CHECK_EQ(be32toh(rvh->len), len);
}

/* ---------------------------------------------------------------- tests */

static void test_caps(void)
{
	struct ibv_device_attr_ex attr;
	struct bench b;

	open_bench(&b, 0, 0);
	CHECK_EQ(ibv_query_device_ex(b.w.ctx, NULL, &attr), 0);
	CHECK_EQ(attr.tm_caps.flags, IBV_TM_CAP_RC);
	CHECK(attr.tm_caps.max_num_tags >= TAGS);
	CHECK(attr.tm_caps.max_ops >= OPS);
	CHECK(attr.tm_caps.max_sge >= 1);
	CHECK(attr.tm_caps.max_rndv_hdr_size >= REQUEST);
	close_bench(&b);
}

static void test_create(void)
{
	struct bench b;
	struct ibv_device_attr_ex dev;
	struct ibv_srq_init_attr_ex good;
	uint32_t number;

	open_bench(&b, 0, 0);
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
	ROW(a.attr.max_wr = 0, EINVAL);
	ROW(a.srq_type = IBV_SRQT_TM + 1, EINVAL);
	ROW(a.srq_type = IBV_SRQT_BASIC, EINVAL);	/* with tag matching asked for */
	ROW(a.srq_type = IBV_SRQT_XRC, EINVAL);
#undef ROW
	/* Only XRC names SRQs by number. */
	CHECK_EQ(ibv_get_srq_num(b.srq, &number), EINVAL);
	CHECK_EQ(ibv_destroy_srq(b.srq), EBUSY);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(b.tag_cq)), EBUSY);
	close_bench(&b);
}

/* IBV_TM_CAP_RC says RC. */
static void test_qp_types(void)
{
	static const struct {
		enum ibv_qp_type type;
		bool ok;
	} rows[] = {
		{ IBV_QPT_RC, true }, { IBV_QPT_UC, false }, { IBV_QPT_UD, false },
		{ IBV_QPT_XRC_SEND, false },
	};
	struct bench b;

	open_bench(&b, 0, 0);
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
	close_bench(&b);
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

	open_bench(&b, 0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_ops_wr wr = op(&b, rows[i].opcode, rows[i].flags), *bad = NULL;

		wr.tm.handle = rows[i].handle;
		wr.tm.add.sg_list = rows[i].list;
		wr.tm.add.num_sge = rows[i].num_sge;
		CHECK_EQ(ibv_post_srq_ops(b.srq, &wr, &bad), rows[i].want);
		CHECK(bad == (rows[i].want ? &wr : NULL));
	}
	expect_nothing(&b);
	basic = ibv_create_srq(b.w.pd, &plain);
	CHECK(basic);
	struct ibv_ops_wr wr = op(&b, IBV_WR_TAG_SYNC, 0), *bad = NULL;
	CHECK_EQ(ibv_post_srq_ops(basic, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_EQ(ibv_destroy_srq(basic), 0);
	close_bench(&b);
}

/* A chain stops at the first operation that fails; what came before it is done. */
static void test_op_chain(void)
{
	struct bench b;
	struct ibv_ops_wr wr[3], *bad = NULL;

	open_bench(&b, 0, 0);
	for (int i = 0; i < 3; i++) {
		wr[i] = op(&b, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED);
		wr[i].wr_id = i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	wr[1].flags = 1 << 5;
	CHECK_EQ(ibv_post_srq_ops(b.srq, wr, &bad), EINVAL);
	CHECK(bad == &wr[1]);
	expect(&b, 0, IBV_WC_TM_SYNC, 0);
	expect_nothing(&b);
	close_bench(&b);
}

static void test_list_full(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_ops_wr wr;
	uint32_t handle[TAGS];

	open_bench(&b, 0, 0);
	for (int i = 0; i < TAGS; i++)
		handle[i] = add(&b, i, i, full, 0, 64);
	sge = world_sge(&b.dst, 0, 64);
	wr = tag_at(&b, 99, 99, full, &sge);
	CHECK_EQ(post_op(&b, &wr), ENOMEM);
	expect_nothing(&b);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_DEL, handle[5]).status, IBV_WC_SUCCESS);
	add(&b, 99, 99, full, 0, 64);
	close_bench(&b);
}

/* ibv_create_srq_ex(3): max_ops outstanding; released by polling a signaled one, as sends are. */
static void test_max_ops(void)
{
	struct bench b;
	struct ibv_ops_wr quiet, signaled;

	open_bench(&b, 0, 0);
	quiet = op(&b, IBV_WR_TAG_SYNC, 0);
	signaled = op(&b, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED);
	for (int i = 0; i < OPS - 1; i++)
		CHECK_EQ(post_op(&b, &quiet), 0);
	CHECK_EQ(post_op(&b, &signaled), 0);
	CHECK_EQ(post_op(&b, &quiet), ENOMEM);
	expect(&b, 77, IBV_WC_TM_SYNC, 0);
	for (int i = 0; i < OPS; i++)
		CHECK_EQ(post_op(&b, &quiet), 0);
	/* Nothing signaled is left to poll: stuck, as with a send queue. */
	CHECK_EQ(post_op(&b, &quiet), ENOMEM);
	CHECK_EQ(post_op(&b, &signaled), ENOMEM);
	close_bench(&b);
}

static void test_delete(void)
{
	struct bench b;
	uint32_t one, two;
	struct seen s;
	struct ibv_ops_wr wr;

	open_bench(&b, 0, 4);
	connect_qps(&b);
	one = add(&b, 1, 1, full, 0, 64);
	two = add(&b, 2, 2, full, 64, 64);
	CHECK(one != two);
	s = run_op(&b, IBV_WR_TAG_DEL, one);
	CHECK_EQ(s.status, IBV_WC_SUCCESS);
	CHECK_EQ(s.opcode, IBV_WC_TM_DEL);
	/* Again, and one that a message took in between. */
	s = run_op(&b, IBV_WR_TAG_DEL, one);
	CHECK_EQ(s.status, IBV_WC_TM_ERR);
	CHECK(s.vendor_err != 0);
	send_tag(&b, IBV_TMH_EAGER, 2, 8);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_DEL, two).status, IBV_WC_TM_ERR);
	/* Without IBV_OPS_SIGNALED nothing is heard, whatever comes of it. */
	wr = op(&b, IBV_WR_TAG_DEL, 0);
	wr.tm.handle = two;
	CHECK_EQ(post_op(&b, &wr), 0);
	expect_nothing(&b);
	/* A deleted tag takes no message. */
	send_tag(&b, IBV_TMH_EAGER, 1, 8);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	close_bench(&b);
}

static void test_eager(void)
{
	static const uint32_t lengths[] = { 0, 1, 15, 16, 17, 1008, 1009, 2047, 2048, 5000, 1 << 20 };
	struct bench b;

	open_bench(&b, 0, 1);
	connect_qps(&b);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		unsigned int flags;
		struct seen s;

		memset(b.dst.data, 0xee, len + 32);
		add(&b, 40 + i, 0xabc000 + i, full, 0, len + (i & 1));
		send_tag(&b, IBV_TMH_EAGER, 0xabc000 + i, len);
		s = next(&b);
		flags = s.flags;
		CHECK_EQ(s.wr_id, 40 + i);
		CHECK_EQ(s.status, IBV_WC_SUCCESS);
		CHECK_EQ(s.info.tag, 0xabc000 + i);
		CHECK_EQ(s.info.priv, PRIV);
		CHECK_EQ(s.qp_num, b.to->qp_num);
		/* More than one packet: a match first. Left in the sender's memory, it is one. */
		CHECK(len + TMH > 1024 || flags == BOTH);
		if (flags == MATCH) {
			CHECK_EQ(s.byte_len, 0);
			s = expect(&b, 40 + i, IBV_WC_TM_RECV, VALID);
			flags |= s.flags;
		}
		CHECK_EQ(flags, BOTH);
		CHECK_EQ(s.byte_len, len);
		CHECK_MEM(b.dst.data, b.src.data + TMH, len);
		CHECK_EQ(b.dst.data[len], 0xee);
	}
	expect_nothing(&b);
	close_bench(&b);
}

/* Several pieces, of which the first is shorter than a header. */
static void test_scattered(void)
{
	struct bench b;
	struct ibv_sge sge[4];
	struct ibv_ops_wr wr;
	uint8_t got[3000];

	open_bench(&b, 0, 0);
	connect_qps(&b);
	sge[0] = world_sge(&b.dst, 0, 5);
	sge[1] = world_sge(&b.dst, 100, 0);
	sge[2] = world_sge(&b.dst, 200, 1000);
	sge[3] = world_sge(&b.dst, 2000, 1995);
	for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
		memset(b.dst.data, 0, 4096);
		wr = tag_at(&b, 3, 9, full, sge);
		wr.tm.add.num_sge = 4;
		CHECK_EQ(post_op(&b, &wr), 0);
		expect(&b, 77, IBV_WC_TM_ADD, 0);
		if (rendezvous) {
			post_fin(&b, 0);
			send_request(&b, 9, TMH, 3000, 0);
		} else {
			send_tag(&b, IBV_TMH_EAGER, 9, 3000);
		}
		while (!(next(&b).flags & VALID))
			;
		memcpy(got, b.dst.data, 5);
		memcpy(got + 5, b.dst.data + 200, 1000);
		memcpy(got + 1005, b.dst.data + 2000, 1995);
		CHECK_MEM(got, b.src.data + TMH, 3000);
		if (rendezvous)
			expect_fin(&b, 0, 9, 3000);
	}
	close_bench(&b);
}

/* The oldest tag that wants the message, exact or masked. */
static void test_order(void)
{
	struct bench b;

	open_bench(&b, 0, 4);
	connect_qps(&b);
	add(&b, 1, 0x10, 0xf0, 0, 64);
	add(&b, 2, 0x12, full, 0, 64);
	add(&b, 3, 0, 0, 0, 64);
	add(&b, 4, 0x12, full, 0, 64);
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
	close_bench(&b);
}

static void test_immediate(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .sg_list = &sge, .num_sge = 1,
				  .imm_data = htobe32(4711), .send_flags = IBV_SEND_SIGNALED };
	struct seen s;

	open_bench(&b, 0, 2);
	connect_qps(&b);
	add(&b, 1, 5, full, 0, 64);
	put_tmh(&b, IBV_TMH_EAGER, 5);
	sge = world_sge(&b.src, 0, TMH + 4);
	world_post(b.from, &wr);
	s = expect(&b, 1, IBV_WC_TM_RECV, BOTH | IBV_WC_WITH_IMM);
	CHECK_EQ(s.imm, 4711);
	CHECK_EQ(s.byte_len, 4);
	world_post(b.from, &wr);
	s = expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, IBV_WC_WITH_IMM);
	CHECK_EQ(s.byte_len, TMH + 4);
	/* A WRITE has no header, and takes an ordinary receive. */
	wr = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, &b.dst, 0);
	wr.imm_data = htobe32(42);
	world_post(b.from, &wr);
	s = expect(&b, ORDINARY_ID + 1, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM);
	CHECK_EQ(s.imm, 42);
	close_bench(&b);
}

/* What has no sound header of a tagged message goes whole into an ordinary receive; it is not counted. */
static void test_no_tag(void)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} rows[] = {
		{ IBV_TMH_NO_TAG, 100 }, { IBV_TMH_NO_TAG, 1 }, { IBV_TMH_NO_TAG, 0 },
		{ IBV_TMH_NO_TAG, 4000 }, { IBV_TMH_FIN, REQUEST }, { 4, 64 }, { 255, 64 },
		{ IBV_TMH_EAGER, TMH - 1 }, { IBV_TMH_RNDV, REQUEST - 1 }, { IBV_TMH_RNDV, TMH },
		{ IBV_TMH_RNDV, 257 }, { IBV_TMH_RNDV, 3000 },
	};
	struct bench b;

	open_bench(&b, 0, sizeof(rows) / sizeof(rows[0]));
	connect_qps(&b);
	add(&b, 1, 0, 0, 0, 8192);	/* wants everything */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct seen s;

		put_tmh(&b, rows[i].opcode, 7);
		send_raw(&b, rows[i].len);
		s = expect(&b, ORDINARY_ID + i, IBV_WC_TM_NO_TAG, 0);
		CHECK_EQ(s.byte_len, rows[i].len);
		CHECK_EQ(s.info.tag, 0);
		CHECK_MEM(b.ordinary.data + i * ORDINARY_LEN, b.src.data, rows[i].len);
	}
	CHECK_EQ(run_op(&b, IBV_WR_TAG_SYNC, 0).flags, 0);
	send_tag(&b, IBV_TMH_EAGER, 7, 8);
	expect(&b, 1, IBV_WC_TM_RECV, BOTH);
	close_bench(&b);
}

static void test_unexpected(void)
{
	static const uint32_t lengths[] = { 0, 8, 1009, 5000 };
	struct bench b;

	open_bench(&b, 0, 5);
	connect_qps(&b);
	for (unsigned int i = 0; i < 4; i++) {
		struct seen s;

		send_tag(&b, IBV_TMH_EAGER, 50 + i, lengths[i]);
		s = expect(&b, ORDINARY_ID + i, IBV_WC_TM_RECV, 0);
		CHECK_EQ(s.byte_len, TMH + lengths[i]);
		CHECK_EQ(s.info.tag, 0);
		CHECK_EQ(s.info.priv, 0);
		CHECK_MEM(b.ordinary.data + i * ORDINARY_LEN, b.src.data, TMH + lengths[i]);
	}
	/* A request too: the program READs by itself, by another QP. */
	send_request(&b, 60, 4096, 100, 8);
	CHECK_EQ(expect(&b, ORDINARY_ID + 4, IBV_WC_TM_RECV, 0).byte_len, REQUEST + 8);
	CHECK_MEM(b.ordinary.data + 4 * ORDINARY_LEN, b.src.data, REQUEST + 8);
	CHECK_EQ(b.unexpected, 5);
	close_bench(&b);
}

/*
 * The race that the sync phase is for: a message comes while the program adds the tag for it; the next one
 * must not overtake it.
 */
static void test_sync(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_ops_wr wr;
	struct seen s;

	open_bench(&b, 0, 8);
	connect_qps(&b);
	add(&b, 1, 1, full, 0, 64);
	sge = world_sge(&b.dst, 64, 64);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	/* The program has not polled the first message yet: it counts none. */
	wr = tag_at(&b, 2, 5, full, &sge);
	CHECK_EQ(post_op(&b, &wr), 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	send_tag(&b, IBV_TMH_EAGER, 1, 8);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	s = expect(&b, 77, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
	expect(&b, ORDINARY_ID + 1, IBV_WC_TM_RECV, 0);
	/* What was there before goes on. */
	expect(&b, 1, IBV_WC_TM_RECV, BOTH);
	CHECK_EQ(b.unexpected, 2);
	/* Halfway is not enough. */
	b.unexpected = 1;
	s = run_op(&b, IBV_WR_TAG_SYNC, 0);
	CHECK_EQ(s.opcode, IBV_WC_TM_SYNC);
	CHECK_EQ(s.flags, IBV_WC_TM_SYNC_REQ);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, ORDINARY_ID + 2, IBV_WC_TM_RECV, 0);
	b.unexpected = 3;
	/* A count without the flag is not read. */
	wr = op(&b, IBV_WR_TAG_SYNC, IBV_OPS_SIGNALED);
	CHECK_EQ(post_op(&b, &wr), 0);
	expect(&b, 77, IBV_WC_TM_SYNC, IBV_WC_TM_SYNC_REQ);
	CHECK_EQ(run_op(&b, IBV_WR_TAG_SYNC, 0).flags, 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 8);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	close_bench(&b);
}

/* A program that lets unexpected messages pile up is asked for a sync, before counts of 16 bits could wrap. */
static void test_far_behind(void)
{
	struct bench b;

	open_bench(&b, 0, 1);
	connect_qps(&b);
	for (unsigned int i = 1; i <= 0x4001; i++) {
		send_tag(&b, IBV_TMH_EAGER, 5, 0);
		expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, i > 0x3fff ? IBV_WC_TM_SYNC_REQ : 0);
		post_ordinary(&b, 0);
	}
	CHECK_EQ(run_op(&b, IBV_WR_TAG_SYNC, 0).flags, 0);
	send_tag(&b, IBV_TMH_EAGER, 5, 0);
	expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, 0);
	close_bench(&b);
}

/* No ordinary receive: the peer is told to wait, and nothing is counted. */
static void test_not_ready(void)
{
	struct bench b;

	open_bench(&b, 0, 0);
	connect_qps(&b);
	put_tmh(&b, IBV_TMH_EAGER, 5);
	world_send(b.from, 1, world_sge(&b.src, 0, TMH + 8));
	for (int i = 0; i < 1000; i++)
		expect_nothing(&b);
	/* A tag that comes meanwhile is in step, and gets it. */
	add(&b, 2, 5, full, 0, 64);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	world_expect(b.send_cq, 1, IBV_WC_SUCCESS);
	close_bench(&b);
}

static void test_limit(void)
{
	struct bench b;
	struct ibv_srq_attr attr = { .srq_limit = 2, .max_wr = 64 };

	open_bench(&b, 0, 2);
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
	close_bench(&b);
}

static void test_rendezvous(void)
{
	static const uint32_t lengths[] = { 0, 1, 1024, 1025, 100000, 3 << 20 };
	struct bench b;

	open_bench(&b, 0, 0);
	connect_qps(&b);
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		struct seen s;

		memset(b.dst.data, 0, len + 1);
		b.dst.data[len] = 0xee;
		add(&b, 70 + i, 7, 0xff, 0, len + i % 2);
		post_fin(&b, i);
		send_request(&b, 0x1107, 512, len, i * 8);
		s = expect(&b, 70 + i, IBV_WC_TM_RECV, MATCH);
		CHECK_EQ(s.info.tag, 0x1107);
		CHECK_EQ(s.info.priv, PRIV);
		s = expect(&b, 70 + i, IBV_WC_TM_RECV, VALID);
		CHECK_EQ(s.byte_len, len);
		CHECK_EQ(s.info.tag, 0);
		CHECK_EQ(s.qp_num, b.to->qp_num);
		CHECK_MEM(b.dst.data, b.src.data + 512, len);
		CHECK_EQ(b.dst.data[len], 0xee);
		expect_fin(&b, i, 0x1107, len);
	}
	expect_nothing(&b);
	close_bench(&b);
}

/* More than the device's send queue holds, while it may not send. */
static void test_many_rendezvous(void)
{
	struct bench b;
	unsigned int matched = 0, valid = 0;

	open_bench(&b, 0, 0);
	connect_qps(&b);
	move(&b, b.to, IBV_QPS_SQD, 0);
	for (unsigned int i = 0; i < 14; i++) {
		add(&b, i, i, full, i * 4096, 4096);
		post_fin(&b, i);
		send_request(&b, i, 4096 * (i + 1), 4096, 0);
		expect(&b, i, IBV_WC_TM_RECV, MATCH);
	}
	expect_nothing(&b);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	CHECK_EQ(ibv_modify_qp(b.to, &attr, IBV_QP_STATE), 0);
	while (valid < 14) {
		struct seen s = expect(&b, valid, IBV_WC_TM_RECV, VALID);

		CHECK_EQ(s.byte_len, 4096);
		CHECK_MEM(b.dst.data + valid * 4096, b.src.data + 4096 * (valid + 1), 4096);
		valid++;
	}
	for (; matched < 14; matched++)
		expect_fin(&b, matched, matched, 4096);
	close_bench(&b);
}

/* A request that comes before the receiver may send waits; nothing is lost. */
static void test_early_request(void)
{
	struct bench b;

	open_bench(&b, 0, 0);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		move(&b, b.from, s, b.to->qp_num);
		if (s < IBV_QPS_RTS)
			move(&b, b.to, s, b.from->qp_num);
	}
	add(&b, 1, 1, full, 0, 64);
	post_fin(&b, 0);
	*(struct ibv_rvh *)(b.src.data + TMH) = (struct ibv_rvh){
		htobe64((uintptr_t)b.src.data + 512), htobe32(b.src.mr->rkey), htobe32(64)
	};
	put_tmh(&b, IBV_TMH_RNDV, 1);
	world_send(b.from, 1, world_sge(&b.src, 0, REQUEST));
	for (int i = 0; i < 1000; i++)
		expect_nothing(&b);
	move(&b, b.to, IBV_QPS_RTS, b.from->qp_num);
	expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	expect(&b, 1, IBV_WC_TM_RECV, VALID);
	CHECK_MEM(b.dst.data, b.src.data + 512, 64);
	close_bench(&b);
}

/* Rendezvous that the device leaves to the program: it gets the request. */
static void left(uint32_t max_send_wr, uint8_t rd_atomic, uint32_t room, uint32_t len)
{
	struct bench b;
	struct seen s;
	uint32_t placed = room < REQUEST + 24 ? room : REQUEST + 24;

	open_bench(&b, max_send_wr, 0);
	b.rd_atomic = rd_atomic;
	connect_qps(&b);
	memset(b.dst.data, 0xee, 4096);
	add(&b, 1, 1, full, 0, room);
	send_request(&b, 1, 512, len, 24);
	s = expect_error(&b, 1, IBV_WC_TM_RNDV_INCOMPLETE);
	CHECK_EQ(s.opcode, IBV_WC_TM_RECV);
	CHECK(s.vendor_err != 0);
	CHECK_EQ(s.byte_len, placed);
	CHECK_EQ(s.info.tag, 1);
	CHECK_MEM(b.dst.data, b.src.data, placed);
	CHECK_EQ(b.dst.data[placed], 0xee);
	/* That is no failure of the QP. */
	add(&b, 2, 2, full, 0, 64);
	send_tag(&b, IBV_TMH_EAGER, 2, 8);
	expect(&b, 2, IBV_WC_TM_RECV, BOTH);
	close_bench(&b);
}

static void test_left_to_program(void)
{
	left(0, 4, 99, 100);		/* buffer too small for the message, */
	left(0, 4, 20, 100);		/* and for the request */
	left(0, 4, 0, 1);
	left(8, 4, 4096, 100);		/* a send queue of its own */
	left(0, 0, 4096, 100);		/* no READ allowed */
}

/* The device's send queue takes nothing from the program; its own does. */
static void test_send_queue(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc[2];

	open_bench(&b, 0, 0);
	connect_qps(&b);
	sge = world_sge(&b.dst, 0, 8);
	CHECK_EQ(ibv_post_send(b.to, &wr, &bad), ENOMEM);
	CHECK(bad == &wr);
	close_bench(&b);
	open_bench(&b, 4, 0);
	connect_qps(&b);
	post_fin(&b, 0);
	world_send(b.to, 5, world_sge(&b.dst, 0, 8));
	world_poll(b.send_cq, wc, 2);
	CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	CHECK_EQ(wc[0].wr_id + wc[1].wr_id, 5 + FIN_ID);
	close_bench(&b);
}

/* ---------------------------------------------------------------- failures */

static void expect_dead(struct bench *b, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	world_event(&b->w, IBV_EVENT_QP_LAST_WQE_REACHED);
}

static void test_too_long(void)
{
	static const uint32_t lengths[] = { 65, 3000 };

	for (int i = 0; i < 2; i++) {
		struct bench b;

		open_bench(&b, 0, 1);
		b.mtu = i ? IBV_MTU_256 : IBV_MTU_1024;
		connect_qps(&b);
		add(&b, 1, 1, full, 0, 64);
		add(&b, 2, 2, full, 0, 64);
		put_tmh(&b, IBV_TMH_EAGER, 1);
		world_send(b.from, 1, world_sge(&b.src, 0, TMH + lengths[i]));
		for (struct seen s = next(&b); s.flags != 0 || s.status; s = next(&b)) {
			if (s.status == IBV_WC_SUCCESS)
				continue;
			CHECK_EQ(s.wr_id, 1);
			CHECK_EQ(s.status, IBV_WC_LOC_LEN_ERR);
			break;
		}
		world_expect(b.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
		expect_dead(&b, b.to);
		/* The rest of the list is there for other QPs. */
		CHECK_EQ(ibv_destroy_qp(b.to), 0);
		CHECK_EQ(ibv_destroy_qp(b.from), 0);
		b.from = world_qp(&b.w, IBV_QPT_RC, b.send_cq, NULL);
		b.to = receiver(&b, 0);
		connect_qps(&b);
		send_tag(&b, IBV_TMH_EAGER, 2, 8);
		expect(&b, 2, IBV_WC_TM_RECV, BOTH);
		close_bench(&b);
	}
}

/* A key without the right to write, for both ways to fill the buffer. */
static void test_bad_buffer(void)
{
	for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
		struct buffer closed;
		struct bench b;
		struct ibv_sge sge;
		struct ibv_ops_wr wr;

		open_bench(&b, 0, 0);
		connect_qps(&b);
		closed = world_buffer(&b.w, 4096, 0);
		sge = world_sge(&closed, 0, 64);
		wr = tag_at(&b, 1, 1, full, &sge);
		CHECK_EQ(post_op(&b, &wr), 0);
		expect(&b, 77, IBV_WC_TM_ADD, 0);
		if (rendezvous) {
			send_request(&b, 1, 512, 64, 0);
			expect(&b, 1, IBV_WC_TM_RECV, MATCH);
		} else {
			put_tmh(&b, IBV_TMH_EAGER, 1);
			world_send(b.from, 1, world_sge(&b.src, 0, TMH + 8));
		}
		expect_error(&b, 1, IBV_WC_LOC_PROT_ERR);
		if (!rendezvous)
			world_expect(b.send_cq, 1, IBV_WC_REM_OP_ERR);
		expect_dead(&b, b.to);
		world_free(&closed);
		close_bench(&b);
	}
}

/* The READ is refused: the tag says why, and what else was in rendezvous is flushed. */
static void test_read_fails(void)
{
	struct bench b;
	struct ibv_rvh *rvh;
	struct seen s;

	open_bench(&b, 0, 0);
	connect_qps(&b);
	move(&b, b.to, IBV_QPS_SQD, 0);
	for (unsigned int i = 0; i < 12; i++) {
		add(&b, i, i, full, i * 64, 64);
		rvh = (struct ibv_rvh *)(b.src.data + TMH);
		*rvh = (struct ibv_rvh){ htobe64((uintptr_t)b.src.data),
					 htobe32(b.src.mr->rkey ^ (i == 0)), htobe32(64) };
		put_tmh(&b, IBV_TMH_RNDV, i);
		send_raw(&b, REQUEST);
		expect(&b, i, IBV_WC_TM_RECV, MATCH);
	}
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	CHECK_EQ(ibv_modify_qp(b.to, &attr, IBV_QP_STATE), 0);
	s = expect_error(&b, 0, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(s.opcode, IBV_WC_TM_RECV);
	for (unsigned int i = 1; i < 12; i++)
		expect_error(&b, i, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	while (world_has_event(&b.w)) {
		struct ibv_async_event e;

		CHECK_EQ(ibv_get_async_event(b.w.ctx, &e), 0);
		ibv_ack_async_event(&e);
	}
	close_bench(&b);
}

/* Nobody takes the FIN: the data is there, but the connection is not. */
static void test_fin_fails(void)
{
	struct bench b;

	open_bench(&b, 0, 0);
	b.rnr_retry = 1;
	connect_qps(&b);
	add(&b, 1, 1, full, 0, 64);
	send_request(&b, 1, 512, 64, 0);
	expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	expect(&b, 1, IBV_WC_TM_RECV, VALID);
	CHECK_MEM(b.dst.data, b.src.data + 512, 64);
	for (int i = 0; i < 100; i++)
		expect_nothing(&b);
	world_event(&b.w, IBV_EVENT_QP_FATAL);
	expect_dead(&b, b.to);
	close_bench(&b);
}

/* The sender goes away in rendezvous: the READ has no answer. */
static void test_sender_gone(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct bench b;

	open_bench(&b, 0, 0);
	b.timeout = 8;
	connect_qps(&b);
	move(&b, b.to, IBV_QPS_SQD, 0);
	add(&b, 1, 1, full, 0, 64);
	send_request(&b, 1, 512, 64, 0);
	expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	CHECK_EQ(ibv_destroy_qp(b.from), 0);
	b.from = NULL;
	CHECK_EQ(ibv_modify_qp(b.to, &attr, IBV_QP_STATE), 0);
	expect_error(&b, 1, IBV_WC_RETRY_EXC_ERR);
	expect_dead(&b, b.to);
	close_bench(&b);
}

enum end { TO_ERROR, TO_RESET, DESTROYED };

static void end_qp(struct bench *b, enum end how)
{
	if (how == DESTROYED) {
		CHECK_EQ(ibv_destroy_qp(b->to), 0);
		b->to = NULL;
		return;
	}
	move(b, b->to, how == TO_ERROR ? IBV_QPS_ERR : IBV_QPS_RESET, 0);
	if (how == TO_ERROR)
		world_event(&b->w, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* A QP that ends in rendezvous: each tag is heard of again, and its slot is free. */
static void ends_in_rendezvous(enum end how)
{
	struct bench b;

	open_bench(&b, 0, 0);
	connect_qps(&b);
	move(&b, b.to, IBV_QPS_SQD, 0);
	for (unsigned int i = 0; i < 10; i++) {
		add(&b, i, i, full, i * 64, 64);
		send_request(&b, i, 512, 64, 0);
		expect(&b, i, IBV_WC_TM_RECV, MATCH);
	}
	end_qp(&b, how);
	for (unsigned int i = 0; i < 10; i++)
		expect_error(&b, i, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	for (unsigned int i = 0; i < TAGS; i++)
		add(&b, i, i, full, 0, 64);
	close_bench(&b);
}

/*
 * A QP that ends in the middle of an eager message: its sender dies at the second SGE, whose key is wrong,
 * when packets of the first are there.
 */
static void ends_in_message(enum end how, bool expected)
{
	struct bench b;
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 2 };
	struct ibv_srq_attr limit = { .srq_limit = 2 };

	open_bench(&b, 0, 2);
	CHECK_EQ(ibv_modify_srq(b.srq, &limit, IBV_SRQ_LIMIT), 0);
	b.mtu = IBV_MTU_256;
	connect_qps(&b);
	if (expected)
		add(&b, 1, 1, full, 0, 4096);
	put_tmh(&b, IBV_TMH_EAGER, 1);
	sge[0] = world_sge(&b.src, 0, 1024);
	sge[1] = world_sge(&b.src, 1024, 512);
	sge[1].lkey ^= 0x00010000;
	world_post(b.from, &wr);
	world_expect(b.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	/* The first packet has arrived. */
	if (expected)
		expect(&b, 1, IBV_WC_TM_RECV, MATCH);
	else
		world_event(&b.w, IBV_EVENT_SRQ_LIMIT_REACHED);
	expect_nothing(&b);
	end_qp(&b, how);
	if (expected)
		expect_error(&b, 1, IBV_WC_WR_FLUSH_ERR);
	else if (how == TO_ERROR)
		expect_error(&b, ORDINARY_ID, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	/* What did not arrive is not counted: the list is in step. */
	add(&b, 2, 2, full, 0, 64);
	close_bench(&b);
}

static void test_ends(void)
{
	for (enum end how = TO_ERROR; how <= DESTROYED; how++) {
		ends_in_rendezvous(how);
		ends_in_message(how, true);
		ends_in_message(how, false);
	}
}

/* Completions that were polled after their QP was destroyed, and ones that never were. */
static void test_destroy_order(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_ops_wr wr;
	struct seen s;

	open_bench(&b, 0, 1);
	connect_qps(&b);
	sge = world_sge(&b.dst, 0, 64);
	wr = tag_at(&b, 1, 1, full, &sge);
	CHECK_EQ(post_op(&b, &wr), 0);
	send_tag(&b, IBV_TMH_EAGER, 1, 8);
	CHECK_EQ(ibv_destroy_qp(b.to), 0);
	b.to = NULL;
	expect(&b, 77, IBV_WC_TM_ADD, 0);
	expect(&b, 1, IBV_WC_TM_RECV, BOTH);
	CHECK_EQ(post_op(&b, &wr), 0);
	CHECK_EQ(ibv_destroy_srq(b.srq), 0);
	CHECK(!try_poll(&b, &s));
	struct ibv_srq_init_attr_ex attr = srq_attr(&b);
	b.srq = ibv_create_srq_ex(b.w.ctx, &attr);
	CHECK(b.srq);
	close_bench(&b);
}

/* Two senders, one list: each message finds its tag. */
static void test_two_senders(void)
{
	struct bench b;
	struct ibv_qp *from, *to;

	open_bench(&b, 0, 0);
	connect_qps(&b);
	from = world_qp(&b.w, IBV_QPT_RC, b.send_cq, NULL);
	to = receiver(&b, 0);
	world_connect(&b.w, from, to);
	for (unsigned int i = 0; i < 8; i++) {
		struct ibv_qp *qp = i & 1 ? from : b.from;

		add(&b, i, 7, full, i * 64, 64);
		put_tmh(&b, IBV_TMH_EAGER, 7);
		world_send(qp, 1, world_sge(&b.src, 0, TMH + i));
		world_expect(b.send_cq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(expect(&b, i, IBV_WC_TM_RECV, BOTH).qp_num,
			 (i & 1 ? to : b.to)->qp_num);
	}
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	close_bench(&b);
}

/* ---------------------------------------------------------------- threads */

enum { ROUNDS = 100, BATCH = 5, WORKERS = 2, ADDS = WORKERS * ROUNDS * BATCH };

struct worker {
	pthread_t thread;
	struct bench *b;
	uint64_t tag;
};

/* Until there is room for it. */
static void post_patiently(struct bench *b, struct ibv_ops_wr *wr)
{
	int ret;

	do {
		wr->tm.unexpected_cnt = __atomic_load_n(&b->unexpected, __ATOMIC_ACQUIRE);
		ret = post_op(b, wr);
		CHECK(!ret || ret == ENOMEM);
		if (ret)
			sched_yield();
	} while (ret);
}

/* Adds tags and deletes them again, if no message is faster. */
static void *work(void *arg)
{
	struct worker *me = arg;
	struct ibv_sge sge = world_sge(&me->b->dst, me->tag * 64, 64);

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint32_t handle[BATCH];

		for (unsigned int k = 0; k < BATCH; k++) {
			struct ibv_ops_wr wr = tag_at(me->b, 1, me->tag, full, &sge);

			post_patiently(me->b, &wr);
			handle[k] = wr.tm.handle;
		}
		sched_yield();
		for (unsigned int k = 0; k < BATCH; k++) {
			struct ibv_ops_wr wr = op(me->b, IBV_WR_TAG_DEL,
						  IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);

			wr.tm.handle = handle[k];
			post_patiently(me->b, &wr);
		}
	}
	return NULL;
}

/* Every tag ends once, by a message or by its deletion, and every message is heard of once. */
static void test_threads(void)
{
	struct worker workers[WORKERS];
	unsigned int added = 0, deleted = 0, gone = 0, matched = 0, sent = 0, heard = 0;
	struct bench b;
	struct seen s;

	open_bench(&b, 0, ORDINARY);
	connect_qps(&b);
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ .b = &b, .tag = i };
		CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	while (deleted + gone < ADDS || heard < sent) {
		if (sent == heard && deleted + gone < ADDS) {
			send_tag(&b, IBV_TMH_EAGER, sent % WORKERS, 8);
			sent++;
		}
		if (!try_poll(&b, &s))
			continue;
		if (s.opcode == IBV_WC_TM_RECV || s.wr_id != 77) {
			CHECK_EQ(s.status, IBV_WC_SUCCESS);
			heard++;
			if (s.flags == BOTH) {
				matched++;
				continue;
			}
			post_ordinary(&b, s.wr_id - ORDINARY_ID);
			__atomic_fetch_add(&b.unexpected, 1, __ATOMIC_RELEASE);
		} else if (s.opcode == IBV_WC_TM_ADD) {
			added++;
		} else {
			CHECK_EQ(s.opcode, IBV_WC_TM_DEL);
			*(s.status == IBV_WC_SUCCESS ? &deleted : &gone) += 1;
		}
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
	CHECK_EQ(added, ADDS);
	CHECK_EQ(deleted + matched, added);
	CHECK_EQ(gone, matched);
	printf("%u of %u tags matched\n", matched, added);
	CHECK_EQ(heard, sent);
	close_bench(&b);
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
	test_eager();
	test_scattered();
	test_order();
	test_immediate();
	test_no_tag();
	test_unexpected();
	test_sync();
	test_far_behind();
	test_not_ready();
	test_limit();
	test_rendezvous();
	test_many_rendezvous();
	test_early_request();
	test_left_to_program();
	test_send_queue();
	test_too_long();
	test_bad_buffer();
	test_read_fails();
	test_fin_fails();
	test_sender_gone();
	test_ends();
	test_destroy_order();
	test_two_senders();
	test_threads();
	return 0;
}
