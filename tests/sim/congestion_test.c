/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control: CE marks and CNPs (Annex A17), flows that share a bottleneck, pauses that are
 * not congestion, and automatic path migration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "oracle.h"
#include "pair.h"
#include "util/compiler.h"

enum { CNP = 0x81 };

struct cnp_log {
	uint32_t n;
	uint64_t last, closest;
};

static void count_cnp(struct world *w, const struct net_packet *p, const struct roce_pkt *pkt)
{
	struct cnp_log *log = w->user;

	if (pkt->bth.opcode != CNP)
		return;
	assert_true(pkt->bth.becn);
	assert_int_equal(p->src, 1);
	if (log->n++ && w->now - log->last < log->closest)
		log->closest = w->now - log->last;
	log->last = w->now;
}

/*
 * The receiver of CE-marked packets sends CNPs, at most one every 50 us; without marks it sends
 * none.
 */
static void marks_are_notified(void **state)
{
	for (uint32_t marking = 0; marking <= 1; marking++) {
		struct net_config net = { .delay = 5000, .mbit_per_s = 1000, .fast_egress = true,
					  .ecn_mark = marking ? 3000 : 0 };
		struct sim_qp_attr attr = sim_qp_defaults();
		struct pair p = pair_new("ecn", &net, &attr, NULL);
		struct cnp_log log = { .closest = VRB_NEVER };

		p.w->user = &log;
		p.w->tap = count_cnp;
		for (int i = 0; i < 10; i++)
			pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 30000));
		pair_go(&p);
		pair_expect_counts(&p, 10, 0);
		if (marking) {
			assert_true(log.n > 2);
			assert_true(log.closest >= 50 * VRB_USEC);
			assert_int_equal(roce_qp_counters(&p.a->roce)->cnp_rcvd, log.n);
		} else {
			assert_int_equal(log.n, 0);
		}
		pair_free(&p);
	}
}

/*
 * Connections share a slow port: when the first one is done, each other one has completed at least
 * a third of its requests.
 */
static void bottleneck_is_shared(void **state)
{
	struct plan_config c = {
		.net = { .delay = 10000, .mbit_per_s = 1000, .fast_egress = true,
			 .buffer = 300000, .ecn_mark = 60000 },
		.qp = sim_qp_defaults(), .pairs = 4, .ops = 60, .kinds = PLAN_WRITE,
		.fixed_len = 14500, .max_len = 14500,
	};
	struct plan *p = plan_new("bottleneck", 1, &c);
	uint64_t until = p->w->now;
	uint32_t least = ~0u, most = 0;
	struct oracle o;

	oracle_init(&o, p);
	plan_start(p);
	for (most = 0; most < c.ops; until += VRB_MSEC) {
		world_run_until(p->w, until);
		least = ~0u;
		for (uint32_t i = 0; i < p->nflows; i++) {
			const struct send_queue *sq = &p->flow[i].req->wq.sq;

			least = min(least, sq->done);
			most = max(most, sq->done);
		}
	}
	world_check(p->w, least * 3 >= most, "one has done %u, another %u", most, least);
	world_run(p->w);
	oracle_check(&o);
	oracle_free(&o);
	plan_free(p);
}

/* --- a host that gets no CPU for a while --- */

enum { STALLS = 20, STALL_MS = 8, READS = 60, READ_LEN = 65536 };

static void stall(struct world *w, void *arg)
{
	w->net.cfg.delay = STALL_MS * VRB_MSEC;
}

static void stall_briefly(struct world *w, void *arg)
{
	w->net.cfg.delay = 2 * VRB_MSEC;
}

static void end_stall(struct world *w, void *arg)
{
	w->net.cfg.delay = 10000;
}

/*
 * A responder that waits for a CPU now and then loses no packets, and the requests that are
 * repeated meanwhile are no sign of congestion: neither side may slow down. The READs take 34 ms on
 * the link, and the stall 8 ms.
 */
static void stalls_are_not_losses(void **state)
{
	struct net_config net = { .delay = 10000, .mbit_per_s = 1000 };
	struct sim_qp_attr attr = sim_qp_defaults();
	uint64_t longest = 0;
	struct pair p;

	attr.timeout = 14;
	p = pair_new("stalls", &net, &attr, NULL);
	for (int i = 0; i < STALLS; i++) {
		uint64_t start = p.w->now;

		world_at(p.w, start + 2 * VRB_MSEC, stall, NULL);
		world_at(p.w, start + 3 * VRB_MSEC, end_stall, NULL);
		for (int j = 0; j < READS; j++)
			pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, READ_LEN));
		pair_go(&p);
		longest = max(longest, p.w->last_cqe - start);
	}
	pair_expect_counts(&p, STALLS * READS, 0);
	assert_in_range(longest, 42 * VRB_MSEC, 44 * VRB_MSEC);
	assert_int_equal(roce_qp_counters(&p.b->roce)->duplicate_request,
			 roce_qp_counters(&p.a->roce)->retransmitted_pkts);
	assert_in_range(roce_qp_counters(&p.a->roce)->retransmitted_pkts, 1, 4 * STALLS);
	pair_free(&p);
}

/*
 * A queue of 1.1 ms, the window at 1 Gbit/s, is longer than a quarter of the ACK timeout. After a
 * stall no packet may be retransmitted more than once: probes sent before the queue is empty would
 * keep it full of retransmissions.
 */
static void stall_causes_few_retransmissions(void **state)
{
	struct net_config net = { .delay = 10000, .mbit_per_s = 1000 };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.timeout = 10;
	p = pair_new("stall before a queue", &net, &attr, NULL);
	world_at(p.w, p.w->now + 2 * VRB_MSEC, stall_briefly, NULL);
	world_at(p.w, p.w->now + 3 * VRB_MSEC, end_stall, NULL);
	for (int i = 0; i < READS; i++)
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, READ_LEN));
	pair_go(&p);
	pair_expect_counts(&p, READS, 0);
	assert_in_range(roce_qp_counters(&p.a->roce)->retransmitted_pkts, 1, 128);
	pair_free(&p);
}

/* --- services without a window --- */

enum { TICK_US = 20, TICK_MESSAGES = 10, MESSAGE = 1024, QKEY = 0x11111111 };	/* 4 Gbit/s */

struct source {
	struct sim_qp *qp;
	struct sim_wr wr;
};

/* A program that posts at a constant rate, as far as its send queue has room. */
static void tick(struct world *w, void *arg)
{
	struct source *s = arg;

	for (int i = 0; i < TICK_MESSAGES && sim_post_send(s->qp, &s->wr); i++)
		s->wr.wr_id++;
	world_kick(w, s->qp);
	world_at(w, w->now + TICK_US * VRB_USEC, tick, s);
}

/*
 * UC and UD messages at four times the rate of the link. If the queue (a router's, or the
 * receiver's socket) marks packets, or drops those of a UC QP, whose PSNs show it, the sender slows
 * down to the link's rate, and after the first 50 ms few packets are lost. A queue that does not
 * mark must drop the rest of a UD QP's: it may have sent the missing PSNs to others.
 */
static void datagrams_slow_down_when_marked_or_missing(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t buffer, mark;
	} rows[] = {
		{ IBV_QPT_UC, 150000, 0 },      { IBV_QPT_UC, 150000, 30000 },
		{ IBV_QPT_UC, 425984, 319488 }, { IBV_QPT_UD, 150000, 0 },
		{ IBV_QPT_UD, 150000, 30000 },  { IBV_QPT_UD, 425984, 319488 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct net_config net = { .delay = 10000, .mbit_per_s = 1000, .fast_egress = true,
					  .buffer = rows[i].buffer, .ecn_mark = rows[i].mark };
		struct sim_qp_attr attr = sim_qp_defaults();
		bool slows = rows[i].mark || rows[i].type == IBV_QPT_UC;
		uint64_t sent, lost, arrived;
		struct net_path path;
		struct source s;
		struct pair p;

		attr.type = rows[i].type;
		p = pair_new("datagrams", &net, &attr, NULL);
		if (rows[i].type == IBV_QPT_UD) {
			sim_ud_ready(p.a, QKEY);
			sim_ud_ready(p.b, QKEY);
		}
		path = sim_path(p.h[0], p.h[1]);
		s = (struct source){ .qp = p.a };
		s.wr = pair_wr(&p, rows[i].type == IBV_QPT_UD ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
			       MESSAGE);
		s.wr.path = &path;
		s.wr.qpn = p.b->wq.qpn;
		s.wr.qkey = QKEY;
		tick(p.w, &s);
		world_run_until(p.w, p.w->now + 50 * VRB_MSEC);
		sent = p.w->net.count.sent;
		lost = p.w->net.count.overflowed;
		world_run_until(p.w, p.w->now + 500 * VRB_MSEC);
		sent = p.w->net.count.sent - sent;
		lost = p.w->net.count.overflowed - lost;
		arrived = (sent - lost) * MESSAGE * 8 / (500 * 1000);	/* Mbit/s */
		world_check(p.w, slows ? lost * 100 <= sent : lost * 10 >= 7 * sent,
			    "row %zu: %llu of %llu packets lost", i, (unsigned long long)lost,
			    (unsigned long long)sent);
		world_check(p.w, arrived >= 700, "row %zu: %llu Mbit/s arrive", i,
			    (unsigned long long)arrived);
		pair_free(&p);
	}
}

/* --- automatic path migration, IBTA vol 1, 17.2.8 --- */

struct cut {
	struct net_addr dead[2];
	bool cut;
};

static bool drop_on_dead_path(void *arg, const struct net_packet *p)
{
	const struct cut *c = arg;

	return c->cut && (net_addr_equal(&p->path.dst, &c->dead[0]) ||
			  net_addr_equal(&p->path.dst, &c->dead[1]));
}

static void arm(struct sim_qp *qp, const struct sim_host *peer)
{
	qp->wq.alt_path = qp->wq.path;
	qp->wq.alt_path.src = qp->host->second_addr;
	qp->wq.alt_path.dst = peer->second_addr;
	qp->wq.alt_timeout = qp->wq.timeout;
	qp->wq.mig_state = IBV_MIG_REARM;
	roce_qp_changed(&qp->roce);
}

/* All packets of the first path are lost: both QPs migrate to the alternate one. */
static void failed_path_is_migrated(void **state)
{
	struct cut cut = { .cut = false };
	struct net_config net = { .delay = 5000, .drop = drop_on_dead_path, .drop_arg = &cut };
	struct sim_qp_attr attr = sim_qp_defaults();
	struct pair p;

	attr.retry_cnt = 2;
	p = pair_new("path migration", &net, &attr, NULL);
	cut.dead[0] = p.h[0]->addr;
	cut.dead[1] = p.h[1]->addr;
	arm(p.a, p.h[1]);
	arm(p.b, p.h[0]);
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 3000));
	pair_go(&p);
	assert_int_equal(p.a->wq.mig_state, IBV_MIG_ARMED);
	assert_int_equal(p.b->wq.mig_state, IBV_MIG_ARMED);
	cut.cut = true;
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 3000));
	pair_post(&p, pair_wr(&p, IBV_WR_RDMA_READ, 3000));
	pair_go(&p);
	pair_expect_counts(&p, 3, 0);
	for (int i = 0; i < 3; i++)
		pair_expect_send(&p, i, i, IBV_WC_SUCCESS);
	assert_int_equal(p.a->wq.mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(p.b->wq.mig_state, IBV_MIG_MIGRATED);
	pair_expect_event(&p, p.a, IBV_EVENT_PATH_MIG, 1);
	pair_expect_event(&p, p.b, IBV_EVENT_PATH_MIG, 1);
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_are_notified),
		cmocka_unit_test(bottleneck_is_shared),
		cmocka_unit_test(stalls_are_not_losses),
		cmocka_unit_test(stall_causes_few_retransmissions),
		cmocka_unit_test(datagrams_slow_down_when_marked_or_missing),
		cmocka_unit_test(failed_path_is_migrated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
