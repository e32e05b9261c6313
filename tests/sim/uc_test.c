/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connections: a message arrives whole or not at all (IBTA vol 1, 9.8). A lost packet
 * drops its message, the next message uses the receive of the dropped one, and the next first
 * packet synchronises the PSN again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "oracle.h"
#include "pair.h"
#include "util/compiler.h"

enum { UC_OPS = PLAN_SEND | PLAN_WRITE | PLAN_WRITE_IMM };

/* UDP may duplicate packets: a duplicate right after its original must not count as a message. */
static void duplicates_are_dropped(void **state)
{
	struct sim_seeds s = sim_seeds("uc lossless", 300001, 400);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);
		struct net_config clean = { .delay = c.net.delay, .jitter = c.net.jitter,
					    .dup_ppm = i % 2 * 50000 };
		struct oracle o;
		struct plan *p;

		c.net = clean;
		c.qp.type = IBV_QPT_UC;
		c.qp.rq_depth = 64;
		c.late_receives = false;
		c.spread_ns = 0;
		c.kinds = UC_OPS;
		p = plan_new("uc lossless", s.first + i, &c);
		oracle_init(&o, p);
		plan_start(p);
		world_run(p->w);
		oracle_check(&o);
		oracle_free(&o);
		plan_free(p);
	}
}

/* --- losses: the lost packets determine which messages must arrive --- */

enum { MSGS = 40, MTU = 512, SLOT = 4096 };

struct lossy {
	struct pair p;
	struct rng rng;
	uint32_t loss_ppm;
	struct sim_wr wr[MSGS];
	uint32_t first_psn[MSGS + 1];
	bool broken[MSGS];
};

static bool takes_recv(const struct sim_wr *wr)
{
	return wr->opcode != IBV_WR_RDMA_WRITE;
}

/* Drops packets at random and records the messages that they belong to. */
static bool drop_at_random(void *arg, const struct net_packet *pkt)
{
	struct lossy *l = arg;
	struct roce_pkt d;

	if (!rng_ppm(&l->rng, l->loss_ppm) || roce_decode(&d, pkt->data, pkt->len))
		return false;
	for (uint32_t m = 0; m < MSGS; m++) {
		uint32_t offset = (d.bth.psn - l->first_psn[m]) & 0xffffff;

		if (offset < l->first_psn[m + 1] - l->first_psn[m])
			l->broken[m] = true;
	}
	return true;
}

static const uint32_t lengths[] = { 0, 1, 511, 512, 513, 1024, 1025, 2047, 3000, 4095 };

static void make_messages(struct lossy *l)
{
	static const uint32_t ops[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					IBV_WR_RDMA_WRITE_WITH_IMM };
	uint32_t psn = PAIR_PSN;

	for (uint32_t m = 0; m < MSGS; m++) {
		uint32_t len = lengths[rng_below(&l->rng, ARRAY_SIZE(lengths))];
		struct sim_wr wr = pair_wr(&l->p, ops[rng_below(&l->rng, 4)], len);

		wr.sge[0].addr += rng_below(&l->rng, 8192);
		wr.remote_addr = l->p.h[1]->base + rng_below(&l->rng, PAIR_MEM / 2 - SLOT);
		wr.imm = m;
		l->wr[m] = wr;
		l->first_psn[m] = psn;
		psn += len ? (len + MTU - 1) / MTU : 1;
		pair_post(&l->p, wr);
	}
	l->first_psn[MSGS] = psn;
}

/* Posts the receives: one slot of separate memory each. */
static void post_slots(struct lossy *l, uint64_t base, uint32_t lkey)
{
	for (uint32_t m = 0; m < MSGS; m++) {
		struct sim_rwr r = { .wr_id = m, .num_sge = 1,
				     .sge = { { base + m * SLOT, SLOT, lkey } } };

		assert_true(sim_post_recv(l->p.b, &r));
	}
}

static void check_arrival(struct lossy *l, uint32_t m, uint32_t index, uint64_t base)
{
	const struct sim_wr *wr = &l->wr[m];
	const struct wq_cqe *c = &l->p.b->recv_cqes.v[index];
	struct world *w = l->p.w;
	bool write = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	world_check(w, index < l->p.b->recv_cqes.n, "message %u did not arrive", m);
	world_check(w, c->status == IBV_WC_SUCCESS && c->wr_id == index,
		    "message %u: wr_id %llu %s", m, (unsigned long long)c->wr_id,
		    trace_status(c->status));
	world_check(w, c->byte_len == wr->length, "message %u: %u bytes", m, c->byte_len);
	world_check(w, wr->opcode == IBV_WR_SEND || c->imm == m, "message %u: immediate %u", m,
		    c->imm);
	if (!write)
		world_check(w, memcmp(sim_ptr(l->p.h[1], base + index * SLOT),
				      sim_ptr(l->p.h[0], wr->sge[0].addr), wr->length) == 0,
			    "message %u: wrong data", m);
}

/* Compares remote memory with complete WRITEs, except bytes of incomplete ones. */
static void check_writes(struct lossy *l, uint8_t *image)
{
	uint8_t *sure = malloc(PAIR_MEM / 2);
	const uint8_t *is = l->p.h[1]->mem;

	memset(sure, 1, PAIR_MEM / 2);
	for (uint32_t m = 0; m < MSGS; m++) {
		const struct sim_wr *wr = &l->wr[m];
		uint64_t at = wr->remote_addr - l->p.h[1]->base;

		if (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
			continue;
		memset(sure + at, !l->broken[m], wr->length);
		memcpy(image + at, sim_ptr(l->p.h[0], wr->sge[0].addr), wr->length);
	}
	for (uint32_t i = 0; i < PAIR_MEM / 2; i++)
		world_check(l->p.w, !sure[i] || is[i] == image[i], "remote memory differs at +%u",
			    i);
	free(sure);
}

static void run_lossy(uint64_t seed, uint32_t loss_ppm)
{
	struct lossy *l = calloc(1, sizeof(*l));
	struct net_config net = { .delay = 5000, .drop = drop_at_random, .drop_arg = l };
	struct sim_qp_attr attr = sim_qp_defaults();
	uint8_t *image = malloc(PAIR_MEM / 2);
	struct sim_key *slots;
	uint32_t index = 0;

	attr.type = IBV_QPT_UC;
	attr.mtu = MTU;
	l->loss_ppm = loss_ppm;
	rng_seed(&l->rng, seed);
	l->p = pair_new("uc loss", &net, &attr, NULL);
	l->p.w->seed = seed;
	/* The receive buffers lie beyond the memory that WRITEs target. */
	l->p.h[1]->mem = realloc(l->p.h[1]->mem, PAIR_MEM + MSGS * SLOT);
	slots = sim_reg_mr(l->p.h[1], 1, l->p.h[1]->base + PAIR_MEM, MSGS * SLOT,
			   IBV_ACCESS_LOCAL_WRITE);
	post_slots(l, slots->va, slots->lkey);
	make_messages(l);
	memcpy(image, l->p.h[1]->mem, PAIR_MEM / 2);
	pair_go(&l->p);

	pair_expect_counts(&l->p, MSGS, l->p.b->recv_cqes.n);
	for (uint32_t m = 0; m < MSGS; m++) {
		pair_expect_send(&l->p, m, m, IBV_WC_SUCCESS);
		if (takes_recv(&l->wr[m]) && !l->broken[m])
			check_arrival(l, m, index++, slots->va);
	}
	world_check(l->p.w, index == l->p.b->recv_cqes.n, "%u messages too many",
		    l->p.b->recv_cqes.n - index);
	check_writes(l, image);
	pair_expect_event(&l->p, l->p.b, 0, 0);
	pair_free(&l->p);
	free(image);
	free(l);
}

static void lost_packets_drop_their_message(void **state)
{
	struct sim_seeds s = sim_seeds("uc loss", 1, 300);

	for (uint64_t i = 0; i < s.runs; i++)
		run_lossy(s.first + i, 1000 << i % 9);
}

/*
 * Duplicates, reordering and damage may drop any message. Completions must still succeed and be in
 * order.
 */
static void bad_network_delivers_no_wrong_data(void **state)
{
	struct sim_seeds s = sim_seeds("uc any", 1, 200);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct net_config net = { .delay = 5000, .dup_ppm = 100000, .reorder_ppm = 200000,
					  .reorder_delay = 40000, .corrupt_ppm = 50000,
					  .loss_ppm = 50000 };
		struct sim_qp_attr attr = sim_qp_defaults();
		struct pair p;

		attr.type = IBV_QPT_UC;
		attr.mtu = 256;
		p = pair_new("uc any", &net, &attr, NULL);
		p.w->seed = s.first + i;
		rng_seed(&p.w->net.rng, s.first + i);
		for (int k = 0; k < 12; k++)
			pair_recv(&p, 3000);
		for (int k = 0; k < 20; k++)
			pair_post(&p, pair_wr(&p, k % 3 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 1500));
		pair_go(&p);
		pair_expect_counts(&p, 20, p.b->recv_cqes.n);
		for (uint32_t k = 0; k < p.b->recv_cqes.n; k++)
			pair_expect_recv(&p, k, 0x100 + k, IBV_WC_SUCCESS);
		pair_free(&p);
	}
}

/* A message without a receive is dropped silently, and a later one is received. */
static void message_without_receive_is_dropped(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.type = IBV_QPT_UC;
	p = pair_new("uc no receive", NULL, &attr, NULL);
	pair_watch(&p);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 3000));
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 100));
	pair_go(&p);
	pair_expect_counts(&p, 2, 0);
	pair_recv(&p, 100);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 50));
	pair_go(&p);
	pair_expect_counts(&p, 3, 1);
	assert_int_equal(p.b->recv_cqes.v[0].byte_len, 50);
	assert_int_equal(p.sent_b, 0);
	pair_free(&p);
}

/* UC has no READs and atomics: the QP moves to SQE, and its receive queue continues. */
static void reads_are_refused(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.type = IBV_QPT_UC;
	p = pair_new("uc read", NULL, &attr, NULL);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 10));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10));
	pair_go(&p);
	pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
	pair_expect_send(&p, 1, 1, IBV_WC_LOC_QP_OP_ERR);
	pair_expect_send(&p, 2, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p.a->wq.state, IBV_QPS_SQE);
	sim_modify(p.a, IBV_QPS_RTS);
	pair_recv(&p, 100);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 10));
	pair_go(&p);
	pair_expect_send(&p, 3, 3, IBV_WC_SUCCESS);
	pair_expect_recv(&p, 0, 0x100, IBV_WC_SUCCESS);
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duplicates_are_dropped),
		cmocka_unit_test(lost_packets_drop_their_message),
		cmocka_unit_test(bad_network_delivers_no_wrong_data),
		cmocka_unit_test(message_without_receive_is_dropped),
		cmocka_unit_test(reads_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
