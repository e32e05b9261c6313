/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several hosts and one bottleneck: the shares of flows, the time that an incast of 32 takes, the
 * effect of ECN marks, and the time to recover from a loss. Data flows to one host through a switch
 * port with a short queue.
 *
 * sharing_incast.inc records the times of the incast: a changed time is a change of behaviour. If
 * it is intended, the argument `record` prints the rows anew and tests nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fan.h"
#include "pair.h"
#include "util/compiler.h"

enum {
	SEEDS = 3,
	NEW_FLOWS = 11,
	MESSAGE = 65536,
	QUEUE = 150000,
	LAZY_NS = 20000, /* programs answer after at most this time */
};

static struct fan_config fan_config(uint32_t opcode, uint32_t leaves, uint32_t mtu, uint32_t mbps,
				    bool ecn)
{
	struct fan_config c = {
		.net = { .delay = 10000,
			 .mbit_per_s = mbps,
			 .fast_egress = true,
			 .buffer = QUEUE,
			 .ecn_mark = ecn ? QUEUE / 5 : 0 },
		.qp = sim_qp_defaults(),
		.leaves = leaves,
		.opcode = opcode,
		.len = MESSAGE,
		.depth = 16,
		.start_interval = 5000,
		.answer_delay = LAZY_NS,
	};

	c.qp.mtu = mtu;
	c.qp.timeout = 14;
	return c;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct share {
	uint32_t opcode, mtu, mbps;
	bool ecn;
};

/* At least 70 % of the link's capacity is goodput, and no flow gets more than twice the other. */
static void check_share(const struct share *s, uint64_t seed)
{
	struct fan_config c = fan_config(s->opcode, 2, s->mtu, s->mbps, s->ecn);
	struct fan *f = fan_new("two flows", seed, &c);
	uint64_t time = 400 * VRB_SECOND / s->mbps, delivered;
	uint32_t a, b;

	world_run_until(f->w, f->w->now + time);
	a = fan_done(f, 0);
	b = fan_done(f, 1);
	world_check(f->w, a <= 2 * b && b <= 2 * a,
		    "%u Mbit/s, MTU %u: one has done %u, the other %u", s->mbps, s->mtu, a, b);
	delivered = (a + b) * (uint64_t)MESSAGE * 8;
	world_check(f->w, delivered * 10 >= 7 * s->mbps * (time / VRB_USEC),
		    "%u Mbit/s, MTU %u: only %u and %u done", s->mbps, s->mtu, a, b);
	fan_free(f);
}

static void two_flows_share_within_two_to_one(void **state)
{
	static const struct share rows[] = {
		{ IBV_WR_RDMA_WRITE, 1024, 100, false },
		{ IBV_WR_RDMA_WRITE, 1024, 1000, false },
		{ IBV_WR_RDMA_WRITE, 1024, 10000, false },
		{ IBV_WR_RDMA_WRITE, 4096, 100, false },
		{ IBV_WR_RDMA_WRITE, 4096, 1000, false },
		{ IBV_WR_RDMA_WRITE, 4096, 10000, false },
		{ IBV_WR_RDMA_WRITE, 1024, 1000, true },
		{ IBV_WR_RDMA_WRITE, 4096, 10000, true },
		{ IBV_WR_RDMA_READ, 1024, 100, false },
		{ IBV_WR_RDMA_READ, 1024, 1000, false },
		{ IBV_WR_RDMA_READ, 4096, 1000, false },
		{ IBV_WR_RDMA_READ, 1024, 1000, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (uint64_t seed = 1; seed <= SEEDS; seed++)
			check_share(&rows[i], seed);
}

struct newcomer {
	uint32_t opcode, mtu, mbps;
	uint64_t answer_delay; /* with small values all delays are nearly equal */
};

/*
 * The ratio of the messages of two flows, in hundredths. One has filled the queue by itself when
 * the other, the newcomer, starts.
 */
static uint32_t newcomer_ratio(const struct newcomer *n, uint64_t seed)
{
	struct fan_config c = fan_config(n->opcode, 2, n->mtu, n->mbps, false);
	uint64_t alone = 100 * VRB_SECOND / n->mbps, one_host = 300 * VRB_SECOND / n->mbps;
	uint32_t old, new;
	struct fan *f;

	c.start_interval = alone + alone / 8 * seed;
	c.answer_delay = n->answer_delay;
	c.net.buffer = QUEUE - 12000 + 2000 * seed;
	f = fan_new("newcomer", seed, &c);
	world_run_until(f->w, f->w->now + c.start_interval);
	old = fan_done(f, 0);
	world_run_until(f->w, f->w->now + one_host);
	old = fan_done(f, 0) - old;
	new = fan_done(f, 1);
	fan_free(f);
	return max(old, new) * 100 / max(1u, min(old, new));
}

/*
 * A flow has filled the queue and loses nothing, so a newcomer finds no free place. It must get its
 * share all the same, within the time of 36,000 packets of 1024 bytes.
 */
static void newcomers_get_their_share(void **state)
{
	static const struct newcomer rows[] = {
		{ IBV_WR_RDMA_WRITE, 1024, 100, 0 },
		{ IBV_WR_RDMA_WRITE, 1024, 100, LAZY_NS },
		{ IBV_WR_RDMA_WRITE, 1024, 200, 0 },
		{ IBV_WR_RDMA_WRITE, 1024, 1000, 1000 },
		{ IBV_WR_RDMA_WRITE, 1024, 10000, LAZY_NS },
		{ IBV_WR_RDMA_WRITE, 4096, 100, 0 },
		{ IBV_WR_RDMA_WRITE, 4096, 1000, LAZY_NS },
		{ IBV_WR_RDMA_WRITE, 4096, 10000, LAZY_NS },
		{ IBV_WR_RDMA_READ, 1024, 100, LAZY_NS },
		{ IBV_WR_RDMA_READ, 4096, 1000, LAZY_NS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t ratio[NEW_FLOWS];

		for (uint64_t seed = 1; seed <= NEW_FLOWS; seed++)
			ratio[seed - 1] = newcomer_ratio(&rows[i], seed);
		qsort(ratio, NEW_FLOWS, sizeof(ratio[0]), by_value);
		if (ratio[NEW_FLOWS / 2] > 130 || ratio[NEW_FLOWS - 1] > 200)
			fail_msg("row %zu: %llu : 100 in the middle, %llu : 100 at most", i,
				 (unsigned long long)ratio[NEW_FLOWS / 2],
				 (unsigned long long)ratio[NEW_FLOWS - 1]);
	}
}

/*
 * A queue marks packets from a fifth of its length on. The marks cause CNPs, these slow down the
 * senders, and no packet is lost or retransmitted.
 */
static void marks_slow_down_before_anything_is_lost(void **state)
{
	static const uint32_t opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct fan_config c = fan_config(opcodes[i], 2, 1024, 1000, true);
		struct fan *f = fan_new("marks", 1, &c);
		struct roce_counters n;

		world_run_until(f->w, f->w->now + VRB_SECOND);
		n = fan_counters(f);
		assert_true(f->w->net.count.marked > 0);
		assert_true(n.cnp_sent > 0);
		assert_in_range(n.cnp_rcvd, n.cnp_sent - 2, n.cnp_sent);
		assert_int_equal(f->w->net.count.overflowed, 0);
		assert_int_equal(n.retransmitted_pkts, 0);
		fan_free(f);
	}
}

/*
 * QPs from one host to another share one window, which fits into the port's queue. So no packet is
 * lost except at the start, before the QPs share it, although the window of each would fill the
 * queue. Their shares are equal, and the link is busy.
 */
static void qps_to_one_host_share_a_window(void **state)
{
	static const struct {
		uint32_t qps, mtu, mbps;
	} rows[] = {
		{ 2, 1024, 1000 }, { 4, 1024, 1000 },  { 16, 1024, 1000 }, { 32, 1024, 1000 },
		{ 4, 4096, 1000 }, { 32, 4096, 1000 }, { 16, 1024, 100 },  { 16, 4096, 1000 }
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fan_config c = fan_config(IBV_WR_RDMA_WRITE, rows[i].qps, rows[i].mtu,
						 rows[i].mbps, false);
		uint64_t time = 400 * VRB_SECOND / rows[i].mbps, delivered = 0, lost, again;
		uint32_t least = ~0u, most = 0;
		struct fan *f;

		c.one_host = true;
		c.start_interval = 0;
		f = fan_new("one window", 1, &c);
		world_run_until(f->w, f->w->now + time / 10);
		lost = f->w->net.count.overflowed;
		again = fan_counters(f).retransmitted_pkts;
		world_run_until(f->w, f->w->now + time / 10 * 9);
		for (uint32_t k = 0; k < c.leaves; k++) {
			least = min(least, fan_done(f, k));
			most = max(most, fan_done(f, k));
			delivered += fan_done(f, k) * (uint64_t)MESSAGE * 8;
		}
		world_check(f->w,
			    lost <= rows[i].qps && again <= 8 * rows[i].qps &&
				    f->w->net.count.overflowed == lost &&
				    fan_counters(f).retransmitted_pkts == again,
			    "row %zu: %llu packets were lost at first, %llu in all", i,
			    (unsigned long long)lost,
			    (unsigned long long)f->w->net.count.overflowed);
		world_check(f->w, most <= 2 * least, "row %zu: one has done %u, another %u", i,
			    least, most);
		world_check(f->w, delivered * 10 >= 8 * rows[i].mbps * (time / VRB_USEC),
			    "row %zu: only %llu bits", i, (unsigned long long)delivered);
		fan_free(f);
	}
}

/* --- incast: 32 at once, half a megabyte each --- */

struct incast {
	const char *name;
	uint32_t opcode;
	bool ecn;
	uint64_t first_us, median_us, p90_us, last_us;
	uint64_t retransmitted, lost;
};

static const struct incast recorded[] = {
#include "sharing_incast.inc"
};

static struct incast run_incast(const struct incast *row)
{
	struct fan_config c = fan_config(row->opcode, FAN_MAX, 1024, 10000, row->ecn);
	struct incast got = *row;
	uint64_t time[SEEDS * FAN_MAX];

	c.messages = 8;
	c.start_interval = 0;
	got.retransmitted = got.lost = 0;
	for (uint32_t seed = 0; seed < SEEDS; seed++) {
		struct fan *f = fan_new("incast", seed + 1, &c);

		world_run(f->w);
		for (uint32_t i = 0; i < FAN_MAX; i++) {
			assert_int_equal(fan_done(f, i), c.messages);
			time[seed * FAN_MAX + i] = (f->leg[i].ended - f->leg[i].began) / VRB_USEC;
		}
		got.retransmitted += fan_counters(f).retransmitted_pkts;
		got.lost += f->w->net.count.overflowed;
		fan_free(f);
	}
	qsort(time, ARRAY_SIZE(time), sizeof(time[0]), by_value);
	got.first_us = time[0];
	got.median_us = time[ARRAY_SIZE(time) / 2];
	got.p90_us = time[ARRAY_SIZE(time) * 9 / 10];
	got.last_us = time[ARRAY_SIZE(time) - 1];
	return got;
}

static void print_row(const struct incast *r)
{
	printf("{ \"%s\", %s, %s,\n  %llu, %llu, %llu, %llu, %llu, %llu },\n", r->name,
	       r->opcode == IBV_WR_RDMA_READ ? "IBV_WR_RDMA_READ" : "IBV_WR_RDMA_WRITE",
	       r->ecn ? "true" : "false", (unsigned long long)r->first_us,
	       (unsigned long long)r->median_us, (unsigned long long)r->p90_us,
	       (unsigned long long)r->last_us, (unsigned long long)r->retransmitted,
	       (unsigned long long)r->lost);
}

static bool same(const struct incast *a, const struct incast *b)
{
	return a->first_us == b->first_us && a->median_us == b->median_us &&
	       a->p90_us == b->p90_us && a->last_us == b->last_us &&
	       a->retransmitted == b->retransmitted && a->lost == b->lost;
}

static int record(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++) {
		struct incast got = run_incast(&recorded[i]);

		print_row(&got);
	}
	return 0;
}

static void incast_of_32_as_recorded(void **state)
{
	unsigned int different = 0;

	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++) {
		struct incast got = run_incast(&recorded[i]);

		if (same(&got, &recorded[i]))
			continue;
		different++;
		print_row(&got);
	}
	assert_int_equal(different, 0);
}

/* --- recovery from a loss --- */

struct recovery {
	uint32_t psn;   /* the packet that is lost */
	uint32_t times; /* how often it is lost */
	uint32_t seen;
};

static bool drop_psn(void *arg, const struct net_packet *p)
{
	struct recovery *r = arg;
	struct roce_pkt pkt;

	if (p->src != 0 || roce_decode(&pkt, p->data, p->len) != ROCE_DECODED ||
	    pkt.bth.psn != PAIR_PSN + r->psn || r->seen == r->times)
		return false;
	r->seen++;
	return true;
}

/*
 * A WRITE of 24 packets, all in flight at once. If later packets arrive, a NAK recovers the loss in
 * a round trip, without the timer (67 ms); otherwise a probe does. A peer that keeps packets after
 * a gap gets the lost packet only, another one also all that follow it.
 */
static void loss_is_recovered_without_the_timer(void **state)
{
	static const struct {
		bool goes_back;
		uint32_t psn, times;
		uint32_t naks, again; /* NAKs, retransmitted packets */
		uint64_t within_us;
	} rows[] = {
		{ false, 3, 1, 1, 1, 200 },
		{ true, 3, 1, 1, 21, 200 },
		{ false, 22, 1, 1, 1, 200 },
		{ true, 22, 1, 1, 2, 200 },
		{ false, 23, 1, 0, 2, 1300 }, /* the last one: a probe after a millisecond */
		{ false, 3, 2, 1, 2, 1300 },  /* one NAK per gap: a probe recovers the rest */
		{ true, 3, 2, 1, 22, 1300 },
		{ false, 23, 3, 0, 4, 8000 }, /* each probe waits twice as long */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct recovery r = { .psn = rows[i].psn, .times = rows[i].times };
		struct net_config net = { .delay = 5000, .drop = drop_psn, .drop_arg = &r };
		struct sim_qp_attr attr = sim_qp_defaults();
		struct roce_counters n;
		struct pair p;
		uint64_t began;

		attr.timeout = 14;
		attr.goes_back = rows[i].goes_back;
		p = pair_new("repair", &net, &attr, NULL);
		pair_watch(&p);
		began = p.w->now;
		pair_post(&p, pair_wr(&p, IBV_WR_RDMA_WRITE, 24 * 1024));
		pair_go(&p);
		pair_expect_send(&p, 0, 0, IBV_WC_SUCCESS);
		n = *roce_qp_counters(&p.a->roce);
		world_check(p.w, p.naks == rows[i].naks && n.retransmitted_pkts == rows[i].again,
			    "row %zu: %u NAKs, %llu packets retransmitted", i, p.naks,
			    (unsigned long long)n.retransmitted_pkts);
		world_check(p.w, p.w->last_cqe - began < rows[i].within_us * VRB_USEC,
			    "row %zu: recovered after %llu us", i,
			    (unsigned long long)(p.w->last_cqe - began) / VRB_USEC);
		pair_free(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_flows_share_within_two_to_one),
		cmocka_unit_test(newcomers_get_their_share),
		cmocka_unit_test(marks_slow_down_before_anything_is_lost),
		cmocka_unit_test(qps_to_one_host_share_a_window),
		cmocka_unit_test(incast_of_32_as_recorded),
		cmocka_unit_test(loss_is_recovered_without_the_timer),
	};

	if (argc > 1 && strcmp(argv[1], "record") == 0)
		return record();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
