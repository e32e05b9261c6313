/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Draining the send queue (IBTA vol 1, 10.3.1.5): requests that have started are finished, others
 * wait for RTS, and SQ_DRAINED is raised once if it was requested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "oracle.h"
#include "pair.h"

static void to_sqd(struct sim_qp *qp, bool notify)
{
	qp->wq.sqd_notify = notify;
	qp->wq.sq_draining = true;
	sim_modify(qp, IBV_QPS_SQD);
}

static void begun_requests_finish(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("sqd", NULL, &attr, NULL);

	pair_recv(&p, 4096);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 5000));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 5000));
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 3000));
	world_kick(p.w, p.a);
	to_sqd(p.a, true);
	assert_int_equal(p.a->events[IBV_EVENT_SQ_DRAINED], 0);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 10)); /* allowed; the request waits */
	pair_go(&p);
	pair_expect_counts(&p, 3, 1);
	pair_expect_event(&p, p.a, IBV_EVENT_SQ_DRAINED, 1);
	assert_int_equal(p.a->wq.state, IBV_QPS_SQD);
	assert_false(p.a->wq.sq_draining);
	assert_true(roce_next_timeout(&p.a->roce) == VRB_NEVER);
	sim_modify(p.a, IBV_QPS_RTS);
	pair_go(&p);
	pair_expect_counts(&p, 4, 1);
	for (int i = 0; i < 4; i++)
		pair_expect_send(&p, i, i, IBV_WC_SUCCESS);
	pair_expect_event(&p, p.a, IBV_EVENT_SQ_DRAINED, 1);
	pair_free(&p);
}

/* A queue without requests in flight is drained at once. */
static void idle_queue_drains_at_once(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("sqd idle", NULL, &attr, NULL);

	to_sqd(p.a, true);
	pair_expect_event(&p, p.a, IBV_EVENT_SQ_DRAINED, 1);
	assert_false(p.a->wq.sq_draining);
	sim_modify(p.a, IBV_QPS_RTS);
	to_sqd(p.a, false);
	pair_expect_event(&p, p.a, IBV_EVENT_SQ_DRAINED, 1);
	pair_free(&p);
}

/* Requests that wait for max_rd_atomic or the fence have not started. */
static void waiting_requests_have_not_begun(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;
	struct sim_wr fenced;

	attr.max_rd_atomic = 2;
	p = pair_new("sqd waiting", NULL, &attr, NULL);
	for (int i = 0; i < 5; i++)
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 2000));
	fenced = pair_wr(&p, IBV_WR_RDMA_WRITE, 10);
	fenced.flags |= IBV_SEND_FENCE;
	pair_post(&p, fenced);
	world_kick(p.w, p.a);
	to_sqd(p.a, true);
	pair_go(&p);
	pair_expect_counts(&p, 2, 0);
	pair_expect_event(&p, p.a, IBV_EVENT_SQ_DRAINED, 1);
	sim_modify(p.a, IBV_QPS_RTS);
	pair_go(&p);
	pair_expect_counts(&p, 6, 0);
	pair_free(&p);
}

/* The responder continues in SQD. */
static void responder_continues(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("sqd responder", NULL, &attr, NULL);

	to_sqd(p.b, true);
	pair_recv(&p, 100);
	pair_post(&p, pair_wr(&p, IBV_WR_SEND, 100));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 100));
	pair_go(&p);
	pair_expect_counts(&p, 2, 1);
	pair_expect_event(&p, p.b, IBV_EVENT_SQ_DRAINED, 1);
	pair_free(&p);
}

/* Moving to ERR while draining flushes the requests and raises no SQ_DRAINED. */
static void error_ends_the_drain(void **state)
{
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p = pair_new("sqd error", NULL, &attr, NULL);

	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 5000));
	world_kick(p.w, p.a);
	to_sqd(p.a, true);
	sim_modify(p.a, IBV_QPS_ERR);
	pair_go(&p);
	pair_expect_send(&p, 0, 0, IBV_WC_WR_FLUSH_ERR);
	pair_expect_event(&p, p.a, 0, 0);
	pair_free(&p);
}

/*
 * Random work on a bad network, drained and resumed again and again: no request is lost, repeated
 * or reordered.
 */
struct drainer {
	struct plan *p;
	uint32_t rounds;
};

static void resume(struct world *w, void *arg);

static void drain(struct world *w, void *arg)
{
	struct drainer *s = arg;

	for (uint32_t i = 0; i < s->p->nflows; i++)
		if (s->p->flow[i].req->wq.state == IBV_QPS_RTS)
			to_sqd(s->p->flow[i].req, true);
	world_at(w, w->now + rng_range(&w->rng, 1000, 200000), resume, s);
}

/* Only a drained queue may go back to RTS. */
static void resume(struct world *w, void *arg)
{
	struct drainer *s = arg;

	for (uint32_t i = 0; i < s->p->nflows; i++) {
		struct sim_qp *qp = s->p->flow[i].req;

		if (qp->wq.state == IBV_QPS_SQD && qp->wq.sq_draining) {
			world_at(w, w->now + 100000, resume, s);
			return;
		}
	}
	for (uint32_t i = 0; i < s->p->nflows; i++)
		if (s->p->flow[i].req->wq.state == IBV_QPS_SQD)
			sim_modify(s->p->flow[i].req, IBV_QPS_RTS);
	if (s->rounds--)
		world_at(w, w->now + rng_range(&w->rng, 1000, 200000), drain, s);
}

static void drains_in_the_middle_lose_nothing(void **state)
{
	struct sim_seeds s = sim_seeds("sqd random", 400001, 200);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct plan_config c = plan_random_config(s.first + i);
		struct drainer drainer = { .rounds = 6 };
		struct oracle o;

		drainer.p = plan_new("sqd random", s.first + i, &c);
		oracle_init(&o, drainer.p);
		plan_start(drainer.p);
		world_at(drainer.p->w, drainer.p->w->now + 10000, drain, &drainer);
		world_run(drainer.p->w);
		for (uint32_t f = 0; f < drainer.p->nflows; f++) {
			uint32_t *n = &drainer.p->flow[f].req->events[IBV_EVENT_SQ_DRAINED];

			world_check(drainer.p->w, *n == 7, "SQ_DRAINED %u times, not 7", *n);
			*n = 0;
		}
		oracle_check(&o);
		oracle_free(&o);
		plan_free(drainer.p);
	}
}

/* Loses the first packets of host 0. */
static bool drop_first(void *arg, const struct net_packet *p)
{
	uint32_t *left = arg;

	if (p->src != 0 || !*left)
		return false;
	--*left;
	return true;
}

/* READs that have begun are repeated, whatever the number that may begin from now on. */
static void begun_reads_finish_with_another_limit(void **state)
{
	for (uint8_t most = 0; most < 3; most++) {
		uint32_t left = 3;
		struct net_config net = { .delay = 5000, .drop = drop_first, .drop_arg = &left };
		struct sim_qp_attr attr = sim_qp_defaults();
		struct pair p = pair_new("sqd other limit", &net, &attr, NULL);

		for (int i = 0; i < 3; i++)
			pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 1000));
		world_kick(p.w, p.a);
		to_sqd(p.a, true);
		p.a->wq.max_rd_atomic = most;
		roce_qp_changed(&p.a->roce);
		pair_go(&p);
		pair_expect_counts(&p, 3, 0);
		for (int i = 0; i < 3; i++)
			pair_expect_send(&p, i, i, IBV_WC_SUCCESS);
		pair_expect_event(&p, p.a, IBV_EVENT_SQ_DRAINED, 1);
		pair_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begun_requests_finish),
		cmocka_unit_test(idle_queue_drains_at_once),
		cmocka_unit_test(waiting_requests_have_not_begun),
		cmocka_unit_test(responder_continues),
		cmocka_unit_test(error_ends_the_drain),
		cmocka_unit_test(drains_in_the_middle_lose_nothing),
		cmocka_unit_test(begun_reads_finish_with_another_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
