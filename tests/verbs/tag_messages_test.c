/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to an SRQ with tags: eager, untagged and unexpected ones, the buffers they go to and
 * their completions; also while other threads change the tag list.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "tags/bench.h"

static void test_eager(void)
{
	static const uint32_t lengths[] = {
		0, 1, 15, 16, 17, 1008, 1009, 2047, 2048, 5000, 1 << 20
	};
	struct bench b;

	bench_open(&b, 0, 1);
	connect_qps(&b);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t len = lengths[i];
		unsigned int flags;
		struct seen s;

		memset(b.dst.data, 0xee, len + 32);
		add_tag(&b, 40 + i, 0xabc000 + i, FULL_MASK, 0, len + (i & 1));
		send_tag(&b, IBV_TMH_EAGER, 0xabc000 + i, len);
		s = next_seen(&b);
		flags = s.flags;
		CHECK_EQ(s.wr_id, 40 + i);
		CHECK_EQ(s.status, IBV_WC_SUCCESS);
		CHECK_EQ(s.info.tag, 0xabc000 + i);
		CHECK_EQ(s.info.priv, PRIV);
		CHECK_EQ(s.qp_num, b.to->qp_num);
		/*
		 * Several packets: the match completes first. A payload left in the sender's memory
		 * is a single packet.
		 */
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
	bench_close(&b);
}

/* Several SGEs, the first one shorter than a header. */
static void test_scattered(void)
{
	struct bench b;
	struct ibv_sge sge[4];
	struct ibv_ops_wr wr;
	uint8_t got[3000];

	bench_open(&b, 0, 0);
	connect_qps(&b);
	sge[0] = world_sge(&b.dst, 0, 5);
	sge[1] = world_sge(&b.dst, 100, 0);
	sge[2] = world_sge(&b.dst, 200, 1000);
	sge[3] = world_sge(&b.dst, 2000, 1995);
	for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
		memset(b.dst.data, 0, 4096);
		wr = tag_at(&b, 3, 9, FULL_MASK, sge);
		wr.tm.add.num_sge = 4;
		CHECK_EQ(post_op(&b, &wr), 0);
		expect(&b, 77, IBV_WC_TM_ADD, 0);
		if (rendezvous) {
			post_fin(&b, 0);
			send_request(&b, 9, TMH, 3000, 0);
		} else {
			send_tag(&b, IBV_TMH_EAGER, 9, 3000);
		}
		while (!(next_seen(&b).flags & VALID))
			;
		memcpy(got, b.dst.data, 5);
		memcpy(got + 5, b.dst.data + 200, 1000);
		memcpy(got + 1005, b.dst.data + 2000, 1995);
		CHECK_MEM(got, b.src.data + TMH, 3000);
		if (rendezvous)
			expect_fin(&b, 0, 9, 3000);
	}
	bench_close(&b);
}

static void test_immediate(void)
{
	struct bench b;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .sg_list = &sge, .num_sge = 1,
				  .imm_data = htobe32(4711), .send_flags = IBV_SEND_SIGNALED };
	struct seen s;

	bench_open(&b, 0, 2);
	connect_qps(&b);
	add_tag(&b, 1, 5, FULL_MASK, 0, 64);
	put_tmh(&b, IBV_TMH_EAGER, 5);
	sge = world_sge(&b.src, 0, TMH + 4);
	world_post(b.from, &wr);
	s = expect(&b, 1, IBV_WC_TM_RECV, BOTH | IBV_WC_WITH_IMM);
	CHECK_EQ(s.imm, 4711);
	CHECK_EQ(s.byte_len, 4);
	world_post(b.from, &wr);
	s = expect(&b, ORDINARY_ID, IBV_WC_TM_RECV, IBV_WC_WITH_IMM);
	CHECK_EQ(s.byte_len, TMH + 4);
	/* A WRITE with immediate has no tag header and consumes an ordinary receive. */
	wr = world_rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, &b.dst, 0);
	wr.imm_data = htobe32(42);
	world_post(b.from, &wr);
	s = expect(&b, ORDINARY_ID + 1, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM);
	CHECK_EQ(s.imm, 42);
	bench_close(&b);
}

/*
 * A message without a valid tag header goes unchanged into an ordinary receive and is not counted.
 */
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

	bench_open(&b, 0, sizeof(rows) / sizeof(rows[0]));
	connect_qps(&b);
	add_tag(&b, 1, 0, 0, 0, 8192);	/* a mask of 0 matches everything */
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
	bench_close(&b);
}

static void test_unexpected(void)
{
	static const uint32_t lengths[] = { 0, 8, 1009, 5000 };
	struct bench b;

	bench_open(&b, 0, 5);
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
	/* Also a rendezvous request: the program READs by itself through another QP. */
	send_request(&b, 60, 4096, 100, 8);
	CHECK_EQ(expect(&b, ORDINARY_ID + 4, IBV_WC_TM_RECV, 0).byte_len, REQUEST + 8);
	CHECK_MEM(b.ordinary.data + 4 * ORDINARY_LEN, b.src.data, REQUEST + 8);
	CHECK_EQ(b.unexpected, 5);
	bench_close(&b);
}

/* Two senders, one list: each message finds its tag. */
static void test_two_senders(void)
{
	struct bench b;
	struct ibv_qp *from, *to;

	bench_open(&b, 0, 0);
	connect_qps(&b);
	from = world_qp(&b.w, IBV_QPT_RC, b.send_cq, NULL);
	to = new_receiver(&b, 0);
	world_connect(&b.w, from, to);
	for (unsigned int i = 0; i < 8; i++) {
		struct ibv_qp *qp = i & 1 ? from : b.from;

		add_tag(&b, i, 7, FULL_MASK, i * 64, 64);
		put_tmh(&b, IBV_TMH_EAGER, 7);
		world_send(qp, 1, world_sge(&b.src, 0, TMH + i));
		world_expect(b.send_cq, 1, IBV_WC_SUCCESS);
		CHECK_EQ(expect(&b, i, IBV_WC_TM_RECV, BOTH).qp_num,
			 (i & 1 ? to : b.to)->qp_num);
	}
	CHECK_EQ(ibv_destroy_qp(from), 0);
	CHECK_EQ(ibv_destroy_qp(to), 0);
	bench_close(&b);
}

enum { ROUNDS = 100, BATCH = 5, WORKERS = 2, ADDS = WORKERS * ROUNDS * BATCH };

struct worker {
	pthread_t thread;
	struct bench *b;
	uint64_t tag;
};

/* Retries until there is room. */
static void post_with_retry(struct bench *b, struct ibv_ops_wr *wr)
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

/* Adds tags and deletes them again unless a message matched first. */
static void *work(void *arg)
{
	struct worker *me = arg;
	struct ibv_sge sge = world_sge(&me->b->dst, me->tag * 64, 64);

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint32_t handle[BATCH];

		for (unsigned int k = 0; k < BATCH; k++) {
			struct ibv_ops_wr wr = tag_at(me->b, 1, me->tag, FULL_MASK, &sge);

			post_with_retry(me->b, &wr);
			handle[k] = wr.tm.handle;
		}
		sched_yield();
		for (unsigned int k = 0; k < BATCH; k++) {
			struct ibv_ops_wr wr = make_op(me->b, IBV_WR_TAG_DEL,
						  IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);

			wr.tm.handle = handle[k];
			post_with_retry(me->b, &wr);
		}
	}
	return NULL;
}

/* Every tag completes once, by a message or by its deletion, and every message is reported once. */
static void test_threads(void)
{
	struct worker workers[WORKERS];
	unsigned int added = 0, deleted = 0, gone = 0, matched = 0, sent = 0, heard = 0;
	struct bench b;
	struct seen s;

	bench_open(&b, 0, ORDINARY);
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
	bench_close(&b);
}

int main(void)
{
	test_eager();
	test_scattered();
	test_immediate();
	test_no_tag();
	test_unexpected();
	test_two_senders();
	test_threads();
	return 0;
}
