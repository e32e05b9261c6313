/* SPDX-License-Identifier: BSD-2-Clause */
/* PSN arithmetic at its limits: initial PSNs around 2^24 and 2^23, and messages of 2^31 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "pair.h"
#include "util/compiler.h"

static const uint32_t edges[] = { 0, 1, 0x7ffffe, 0x7fffff, 0x800000, 0xfffff0, 0xfffffc, 0xfffffd,
				  0xfffffe, 0xffffff };

/* Requests of every kind cross the edge while packets are lost in both directions. */
static void run_edge(uint32_t psn, uint64_t seed)
{
	static const uint32_t ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM,
					IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_FLUSH,
					IBV_WR_ATOMIC_WRITE };
	struct net_config net = { .delay = 5000, .loss_ppm = 50000, .dup_ppm = 50000,
				  .reorder_ppm = 50000, .reorder_delay = 20000 };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.mtu = 256;
	p = pair_new("psn edge", &net, &attr, NULL);
	p.w->seed = seed;
	rng_seed(&p.w->net.rng, seed);
	sim_modify(p.a, IBV_QPS_RESET);
	sim_modify(p.b, IBV_QPS_RESET);
	sim_connect(p.a, psn, p.b, psn + 3);
	for (int i = 0; i < 8; i++)
		pair_recv(&p, 4096);
	for (uint32_t i = 0; i < 24; i++) {
		uint32_t op = ops[i % ARRAY_SIZE(ops)];

		pair_post(&p, pair_wr(&p, op, op == IBV_WR_SEND || op == IBV_WR_RDMA_WRITE ||
						 op == IBV_WR_RDMA_READ ? 1500 : 8));
	}
	pair_go(&p);
	pair_expect_counts(&p, 24, 6);
	for (uint32_t i = 0; i < 24; i++)
		pair_expect_send(&p, i, i, IBV_WC_SUCCESS);
	pair_free(&p);
}

static void every_edge(void **state)
{
	struct sim_seeds s = sim_seeds("psn edge", 1, 10);

	for (uint64_t i = 0; i < s.runs; i++)
		for (size_t e = 0; e < ARRAY_SIZE(edges); e++)
			run_edge(edges[e], s.first + i);
}

/* --- two gigabytes, in fake memory: only the arithmetic is tested --- */

struct big {
	struct pair p;
	uint32_t lkey, rkey;
	uint64_t va;
};

static struct big new_big(uint32_t mtu)
{
	struct net_config net = { .delay = 1000 };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct big b = { .va = 0x123400000000ull - 4096 };

	attr.mtu = mtu;
	attr.timeout = 14;
	b.p = pair_new("two gigabytes", &net, &attr, NULL);
	b.p.w->skip_icrc = true;
	b.p.w->max_steps = 200 * 1000 * 1000;
	for (int i = 0; i < 2; i++) {
		struct sim_key *k = sim_reg_mr(b.p.h[i], 1, b.va, 1ull << 32, ~0u);

		k->fake = true;
		if (i == 0)
			b.lkey = k->lkey;
		else
			b.rkey = k->rkey;
	}
	return b;
}

static void transfer(struct big *b, uint32_t opcode, uint32_t len)
{
	struct sim_host *target = b->p.h[opcode != IBV_WR_RDMA_READ];
	struct sim_wr wr = pair_wr(&b->p, opcode, len);

	/*
	 * The same address on both sides: the fake memory checks that each byte arrives at it.
	 */
	wr.sge[0] = (struct ibv_sge){ .addr = b->va, .length = len, .lkey = b->lkey };
	wr.remote_addr = b->va;
	wr.rkey = b->rkey;
	target->fake_bytes_written = 0;
	pair_post(&b->p, wr);
	pair_go(&b->p);
	pair_expect_send(&b->p, b->p.a->send_cqes.n - 1, b->p.next_wr - 1, IBV_WC_SUCCESS);
	assert_int_equal(target->fake_bytes_written, len);
	assert_int_equal(b->p.a->send_cqes.v[b->p.a->send_cqes.n - 1].byte_len, len);
}

static void two_gigabytes(void **state)
{
	bool small_mtu = getenv("VERBENA_LONG") != NULL;
	struct big b = new_big(small_mtu ? 256 : 4096);
	struct sim_rwr r = { .wr_id = 1, .num_sge = 1,
			     .sge = { { b.va, 1u << 31, 0 } } };

	transfer(&b, IBV_WR_RDMA_WRITE, 1u << 31);
	transfer(&b, IBV_WR_RDMA_READ, 1u << 31);
	r.sge[0].lkey = b.p.h[1]->key[b.p.h[1]->nkeys - 1].lkey;
	assert_true(sim_post_recv(b.p.b, &r));
	transfer(&b, IBV_WR_SEND, 1u << 31);
	assert_int_equal(b.p.b->recv_cqes.v[0].byte_len, 1u << 31);
	assert_int_equal(roce_qp_counters(&b.p.a->roce)->retransmitted_pkts, 0);
	pair_free(&b.p);
}

/* One byte more than 2^31 is too long for any message (IBTA vol 1, 9.7.4.1.6). */
static void one_byte_more(void **state)
{
	struct big b = new_big(4096);
	struct sim_wr wr = pair_wr(&b.p, IBV_WR_RDMA_WRITE, 1);

	wr.sge[0] = (struct ibv_sge){ .addr = b.va, .length = (1u << 31) + 1, .lkey = b.lkey };
	wr.remote_addr = b.va;
	wr.rkey = b.rkey;
	pair_post(&b.p, wr);
	pair_go(&b.p);
	pair_expect_send(&b.p, 0, 0, IBV_WC_LOC_LEN_ERR);
	pair_free(&b.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_edge),
		cmocka_unit_test(two_gigabytes),
		cmocka_unit_test(one_byte_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
