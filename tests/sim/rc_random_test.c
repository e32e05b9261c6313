/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thousands of random runs of the reliable service, compared with the oracle: every opcode, every
 * length around multiples of the MTU, and every fault of the network. Seeds: tests/sim/README.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "oracle.h"

static void run(const char *name, uint64_t seed, const struct plan_config *cfg)
{
	struct plan *p = plan_new(name, seed, cfg);
	struct oracle o;

	oracle_init(&o, p);
	plan_start(p);
	world_run(p->w);
	oracle_check(&o);
	oracle_free(&o);
	plan_free(p);
}

/* All parameters are random. */
static void anything_goes(void **state)
{
	struct sim_seeds s = sim_seeds("rc_random anything", 1, 2000);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);

		run("rc_random anything", s.first + i, &c);
	}
}

/* On a network without faults no packet is retransmitted if receives are posted in time. */
static void clean_network_retransmits_nothing(void **state)
{
	struct sim_seeds s = sim_seeds("rc_random clean", 100001, 400);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);
		struct net_config clean = { .delay = c.net.delay };
		struct roce_counters n;
		struct oracle o;
		struct plan *p;

		c.net = clean;
		c.late_receives = false;
		c.qp.rq_depth = 64;	/* as many as there are messages */
		c.qp.timeout = 12;
		p = plan_new("rc_random clean", s.first + i, &c);
		oracle_init(&o, p);
		plan_start(p);
		world_run(p->w);
		oracle_check(&o);
		n = plan_counters(p);
		world_check(p->w, !n.retransmitted_pkts && !n.duplicate_request &&
				  !n.out_of_seq_request && !n.dropped_pkts && !n.send_rnr_err,
			    "retransmitted %llu duplicate %llu gaps %llu dropped %llu rnr %llu",
			    (unsigned long long)n.retransmitted_pkts,
			    (unsigned long long)n.duplicate_request,
			    (unsigned long long)n.out_of_seq_request,
			    (unsigned long long)n.dropped_pkts,
			    (unsigned long long)n.send_rnr_err);
		oracle_free(&o);
		plan_free(p);
	}
}

/*
 * Losses so heavy that retries run out now and then: such a flow must fail in order and must not
 * hang.
 */
static void heavy_losses_fail_in_order(void **state)
{
	struct sim_seeds s = sim_seeds("rc_random heavy", 200001, 500);
	uint64_t allowed = 1ull << IBV_WC_RETRY_EXC_ERR | 1ull << IBV_WC_WR_FLUSH_ERR;
	uint64_t failed = 0;

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);
		struct oracle o;
		struct plan *p;

		c.net.loss_ppm = 300000;
		c.net.corrupt_ppm = 50000;
		c.qp.retry_cnt = i % 8;
		c.qp.timeout = 6;
		c.ops = 20;
		p = plan_new("rc_random heavy", s.first + i, &c);
		oracle_init(&o, p);
		plan_start(p);
		world_run(p->w);
		failed += oracle_check_failing(&o, allowed);
		oracle_free(&o);
		plan_free(p);
	}
	printf("# %llu flows ran out of retries\n", (unsigned long long)failed);
}

static uint64_t bit(enum ibv_wc_status status)
{
	return 1ull << status;
}

static bool drop_after_failure(void *arg, const struct net_packet *p)
{
	return *(bool *)arg;
}

static void fail_now(struct world *w, void *arg)
{
	*(bool *)arg = true;
}

/*
 * The network fails for good at a random time: every flow ends with RETRY_EXC_ERR unless it is done
 * before.
 */
static void network_fails_at_any_time(void **state)
{
	struct sim_seeds s = sim_seeds("rc_random cut", 600001, 300);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);
		bool is_cut = false;
		struct oracle o;
		struct plan *p;

		c.net.drop = drop_after_failure;
		c.net.drop_arg = &is_cut;
		c.qp.retry_cnt = i % 3;
		p = plan_new("rc_random cut", s.first + i, &c);
		oracle_init(&o, p);
		plan_start(p);
		world_at(p->w, p->w->now + rng_below(&p->rng, 300000), fail_now, &is_cut);
		world_run(p->w);
		oracle_check_failing(&o, bit(IBV_WC_RETRY_EXC_ERR) | bit(IBV_WC_WR_FLUSH_ERR));
		oracle_free(&o);
		plan_free(p);
	}
}

/*
 * Changes one request of the flow so that the peer or its own host refuses it; false if no request
 * is suitable.
 */
static bool spoil_one(struct plan *p, struct flow *f)
{
	uint32_t from = rng_below(&p->rng, f->n);

	for (uint32_t k = 0; k < f->n; k++) {
		struct sim_wr *wr = &f->wr[(from + k) % f->n];

		if (wr->rkey != f->remote.rkey || !wr->length || plan_needs_recv(wr->opcode))
			continue;
		if (wr->num_sge && wr->sge[0].length && rng_percent(&p->rng, 40))
			wr->sge[0].lkey ^= 0x5a5a5a;
		else if (rng_percent(&p->rng, 50))
			wr->rkey ^= 0x5a5a5a;
		else
			wr->remote_addr = f->remote.va + ((f->remote.len - wr->length + 8) & ~7ull);
		return true;
	}
	return false;
}

/*
 * One bad request among good ones, on any network: earlier requests take effect, later ones are
 * flushed.
 */
static void one_bad_request_anywhere(void **state)
{
	struct sim_seeds s = sim_seeds("rc_random bad", 700001, 600);
	uint64_t allowed = bit(IBV_WC_REM_ACCESS_ERR) | bit(IBV_WC_LOC_PROT_ERR) |
			   bit(IBV_WC_RETRY_EXC_ERR) | bit(IBV_WC_WR_FLUSH_ERR);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);
		uint32_t failed;
		struct oracle o;
		struct plan *p;
		bool bad;

		c.kinds |= PLAN_READ | PLAN_ATOMIC;
		p = plan_new("rc_random bad", s.first + i, &c);
		bad = spoil_one(p, &p->flow[0]);
		oracle_init(&o, p);
		plan_start(p);
		world_run(p->w);
		failed = oracle_check_failing(&o, allowed);
		world_check(p->w, (failed != 0) == bad, "%u flows failed", failed);
		world_check(p->w, failed <= (c.both_ways ? 2 : 1), "%u flows failed", failed);
		oracle_free(&o);
		plan_free(p);
	}
}

/* Each length around a multiple of each MTU. */
static void every_boundary_length(void **state)
{
	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2)
		for (uint32_t k = 1; k <= 4; k++)
			for (int32_t d = -1; d <= 1; d++) {
				struct plan_config c = {
					.net = { .delay = 3000, .loss_ppm = 20000 },
					.qp = sim_qp_defaults(), .pairs = 1, .ops = 14,
					.kinds = PLAN_ALL & ~PLAN_INVALIDATE,
					.fixed_len = k * mtu + d, .max_len = k * mtu + d,
					.wraps = true,
				};

				c.qp.mtu = mtu;
				run("rc_random boundary", mtu * 16 + k * 3 + d, &c);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anything_goes),
		cmocka_unit_test(clean_network_retransmits_nothing),
		cmocka_unit_test(heavy_losses_fail_in_order),
		cmocka_unit_test(network_fails_at_any_time),
		cmocka_unit_test(one_bad_request_anywhere),
		cmocka_unit_test(every_boundary_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
