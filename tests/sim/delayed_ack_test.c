/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs in the simulation with what core adds to the engine: delayed ACKs, the reorder queue, and
 * the fairness probe with a window that fills a queue. All counts are exact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "oracle.h"
#include "pair.h"
#include "util/tuning.h"

enum { REPLY_AFTER = 20000, ROUNDS = 20, BATCHES = 4, MESSAGE = 65536 };

/* a sends a small WRITE; b's program posts a reply, or does not. */
static void ping(struct pair *p, bool reply)
{
	struct sim_wr wr = pair_wr(p, IBV_WR_RDMA_WRITE, 8);

	pair_post(p, wr);
	world_kick(p->w, p->a);
	world_run_until(p->w, p->w->now + REPLY_AFTER);
	if (reply) {
		roce_delayed_ack_posted(&p->b->delayed_ack, true, p->w->now);
		world_kick(p->w, p->b);
	}
	world_run(p->w);
}

/* An ACK is delayed once enough messages were replied to, until a reply is missing. */
static void acks_wait_for_expected_replies(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("delayed ack", NULL, &attr, NULL);

	pair_watch(&p);
	p.b->delays_acks = true;
	for (int i = 0; i < ROUNDS; i++)
		ping(&p, true);
	assert_int_equal(p.b->acks_delayed, ROUNDS - TUNE_PINGPONG_REPLIES);
	assert_int_equal(p.b->acks_overdue, 0);
	ping(&p, false);
	assert_int_equal(p.b->acks_delayed, ROUNDS - TUNE_PINGPONG_REPLIES + 1);
	assert_int_equal(p.b->acks_overdue, 1);
	for (int i = 0; i < ROUNDS; i++)
		ping(&p, false);
	assert_int_equal(p.b->acks_overdue, 1);
	assert_int_equal(p.sent_a, 2 * ROUNDS + 1);
	assert_int_equal(p.sent_b, 2 * ROUNDS + 1);
	pair_expect_counts(&p, 2 * ROUNDS + 1, 0);
	pair_free(&p);
}

/* Drops the second packet of a message, once. */
static bool lose_second(void *arg, const struct net_packet *pkt)
{
	uint32_t *seen = arg;

	return pkt->src == 0 && ++*seen == 2;
}

static void check_reordering(bool holds, uint32_t sent)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	uint32_t seen = 0;
	struct net_config net = { .delay = 5000, .drop = lose_second, .drop_arg = &seen };
	struct pair p = pair_new("reordering", &net, &attr, NULL);

	pair_watch(&p);
	p.b->holds = holds;
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 5 * attr.mtu));
	pair_go(&p);
	pair_expect_counts(&p, 1, 0);
	assert_int_equal(p.naks, 1);
	assert_int_equal(p.sent_a, sent);
	pair_free(&p);
}

/* With the reorder queue only the lost packet is retransmitted, without it all after the gap. */
static void packets_after_a_gap_are_not_retransmitted(void **state)
{
	check_reordering(true, 5 + 1);
	check_reordering(false, 5 + 4);
}

struct probing {
	struct pair p;
	uint32_t trials, sent;
	bool in_trial;
};

static void count_trials(struct world *w, const struct net_packet *pkt, const struct roce_pkt *d)
{
	struct probing *c = w->user;
	bool now = c->p.a->roce.cc.probe.window != 0;

	c->sent += pkt->src == 0;
	c->trials += now && !c->in_trial;
	c->in_trial = now;
}

/*
 * again: packets that probes (roce/retry.c) retransmit while the round-trip time is not known yet.
 */
static void check_probing(const char *name, const struct net_config *net, uint32_t trials,
			  uint32_t again)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct probing c = { 0 };

	attr.timeout = 14;	/* longer than the queue */
	c.p = pair_new(name, net, &attr, NULL);
	c.p.w->user = &c;
	c.p.w->tap = count_trials;
	for (uint32_t i = 0; i < BATCHES; i++) {
		for (uint32_t k = 0; k < attr.sq_depth; k++)
			pair_post(&c.p, pair_wr(&c.p, IBV_WR_RDMA_WRITE, MESSAGE));
		pair_go(&c.p);
	}
	pair_expect_counts(&c.p, BATCHES * attr.sq_depth, 0);
	assert_int_equal(c.sent, BATCHES * attr.sq_depth * (MESSAGE / attr.mtu) + again);
	assert_int_equal(c.trials, trials);
	pair_free(&c.p);
}

/* The flow itself fills a deep queue: each trial shortens it, so the next one follows soon. */
static void own_queue_is_probed_often(void **state)
{
	struct net_config net = { .delay = 10000, .mbit_per_s = 100, .fast_egress = true };

	check_probing("own queue", &net, 26, 0);
}

/* A long path without a queue: trials have no effect and become rare. */
static void long_path_is_probed_rarely(void **state)
{
	struct net_config net = { .delay = 6 * VRB_MSEC };

	check_probing("long path", &net, 2, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acks_wait_for_expected_replies),
		cmocka_unit_test(packets_after_a_gap_are_not_retransmitted),
		cmocka_unit_test(own_queue_is_probed_often),
		cmocka_unit_test(long_path_is_probed_rarely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
