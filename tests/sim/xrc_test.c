/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connections: one receive QP serves several SRQs; each message holds the number
 * of its SRQ (IBTA vol 1, Annex A14).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pair.h"

enum { XRCD = 3, SRQS = 3, MSGS = 24, SLOT = 2048, FIRST_SRQ = 0x700 };

struct xrc {
	struct pair p;
	struct sim_srq *srq[SRQS];
};

static struct xrc new_xrc(const struct net_config *net, uint64_t seed)
{
	struct sim_qp_attr send = sim_qp_defaults(), recv;
	struct xrc x;

	send.type = IBV_QPT_XRC_SEND;
	send.mtu = 512;
	recv = send;
	recv.type = IBV_QPT_XRC_RECV;
	recv.xrcd = XRCD;
	x.p = pair_new("xrc", net, &send, &recv);
	x.p.w->seed = seed;
	rng_seed(&x.p.w->net.rng, seed);
	for (uint32_t i = 0; i < SRQS; i++)
		x.srq[i] = sim_create_srq(x.p.h[1], FIRST_SRQ + i, XRCD);
	return x;
}

static void fill_srqs(struct xrc *x, uint32_t each)
{
	for (uint32_t i = 0; i < SRQS * each; i++) {
		struct sim_rwr r = { .wr_id = i,
				     .num_sge = 1,
				     .sge = { { x->p.h[1]->base + PAIR_MEM / 2 + i % 30 * SLOT,
						SLOT, x->p.mr[1]->lkey } } };

		sim_post_srq_recv(x->p.w, x->srq[i / each], &r);
	}
}

/* Messages and one-sided requests in turn; message m goes to SRQ m % 3. */
static void post_mix(struct xrc *x)
{
	for (uint32_t m = 0; m < MSGS; m++) {
		struct sim_wr wr = pair_wr(&x->p, IBV_WR_SEND_WITH_IMM, 100 + 61 * m);

		if (m % 4 == 3)
			wr = pair_wr(&x->p, m % 8 == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 900);
		wr.remote_addr = x->p.h[1]->base;
		wr.imm = m;
		wr.srqn = FIRST_SRQ + m % SRQS;
		pair_post(&x->p, wr);
	}
}

static void check_mix(struct xrc *x, uint32_t each)
{
	uint32_t at[SRQS] = { 0 }, received = 0;

	for (uint32_t m = 0; m < MSGS; m++) {
		const struct wq_cqe *c = &x->p.b->recv_cqes.v[received];
		uint32_t srq = m % SRQS;

		pair_expect_send(&x->p, m, m, IBV_WC_SUCCESS);
		if (m % 4 == 3)
			continue;
		pair_expect_recv(&x->p, received++, srq * each + at[srq]++, IBV_WC_SUCCESS);
		world_check(x->p.w, c->imm == m && c->byte_len == 100 + 61 * m,
			    "message %u: immediate %u length %u", m, c->imm, c->byte_len);
	}
	pair_expect_counts(&x->p, MSGS, received);
}

static void each_message_to_its_srq(void **state)
{
	struct sim_seeds s = sim_seeds("xrc", 1, 100);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct net_config net = { .delay = 5000, .loss_ppm = 10000 * (i % 6),
					  .dup_ppm = 10000 * (i % 3), .reorder_ppm = 8000 * (i % 4),
					  .reorder_delay = 30000 };
		struct xrc x = new_xrc(&net, s.first + i);

		fill_srqs(&x, 10);
		post_mix(&x);
		pair_go(&x.p);
		check_mix(&x, 10);
		pair_free(&x.p);
	}
}

static void fill_srqs_late(struct world *w, void *arg)
{
	fill_srqs(arg, 10);
}

/* A message to an empty SRQ waits, with RNR NAKs, and so do all later ones. */
static void empty_srq_is_rnr(void **state)
{
	struct xrc x = new_xrc(NULL, 1);

	post_mix(&x);
	world_at(x.p.w, x.p.w->now + 3 * VRB_MSEC, fill_srqs_late, &x);
	pair_watch(&x.p);
	pair_go(&x.p);
	assert_true(x.p.naks > 0);
	check_mix(&x, 10);
	pair_free(&x.p);
}

/* A message to an SRQ number that the domain does not have: NAK invalid request. */
static void unknown_srq(void **state)
{
	struct xrc x = new_xrc(NULL, 1);
	struct sim_wr wr = pair_wr(&x.p, IBV_WR_SEND, 10);

	fill_srqs(&x, 1);
	wr.srqn = FIRST_SRQ + SRQS;
	pair_post(&x.p, wr);
	pair_watch(&x.p);
	pair_go(&x.p);
	pair_expect_counts(&x.p, 1, 0);
	pair_expect_send(&x.p, 0, 0, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(x.p.last_syndrome, 0x61);
	pair_free(&x.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message_to_its_srq),
		cmocka_unit_test(empty_srq_is_rnr),
		cmocka_unit_test(unknown_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
