/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows from many hosts meet at one switch port. The port must be busy and each flow must get its
 * share, whatever the number of flows, their round-trip times and their losses.
 *
 * Fairness is measured by Jain's index, (sum x)^2 / (n * sum x^2): 1 if all shares are equal, 1 / n
 * if one flow gets everything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fan.h"
#include "util/compiler.h"

enum {
	SEEDS = 4,
	SHAPES = 24, /* combinations of queue length and start, by seed; all: VERBENA_RUNS=24 */
	MESSAGE = 65536,
	QUEUE = 150000,
};

struct row {
	uint32_t opcode, flows, mtu, mbps;
	uint64_t answer_delay; /* see struct world; 0: all delays are exactly equal */
	uint64_t extra_delay;  /* see struct net_config */
	uint32_t loss_ppm;
	uint32_t messages;    /* that the link carries in that time, headers not counted */
	uint32_t jain;        /* minimum, in hundredths */
	uint32_t utilization; /* minimum percentage of the link that delivers messages */
	uint64_t delay;       /* of the nearest flow, one way; 0: 10 us */
	bool marks;           /* the queue marks packets from a fifth of its length on */
};

struct outcome {
	uint32_t jain, utilization;
	uint64_t lost, retransmitted;
};

static struct outcome evaluate(const struct fan *f, const struct row *r, const uint32_t *before)
{
	uint64_t sum = 0, squares = 0;
	struct outcome o;

	for (uint32_t i = 0; i < r->flows; i++) {
		uint64_t done = fan_done(f, i) - before[i];

		sum += done;
		squares += done * done;
	}
	o.jain = squares ? sum * sum * 100 / (r->flows * squares) : 0;
	o.utilization = sum * 100 / r->messages;
	o.lost = f->w->net.count.overflowed + f->w->net.count.lost;
	o.retransmitted = fan_counters(f).retransmitted_pkts;
	return o;
}

/* The flows start one after the other; all are measured from the start of the last one. */
static struct outcome run(const struct row *r, uint64_t seed)
{
	uint64_t message = MESSAGE * 8 * VRB_USEC / r->mbps, shape = 1 + (seed - 1) % SHAPES;
	struct fan_config c = {
		.net = { .delay = r->delay ? r->delay : 10000,
			 .extra_delay = r->extra_delay,
			 .mbit_per_s = r->mbps,
			 .fast_egress = true,
			 .buffer = QUEUE - 12000 + 1000 * shape,
			 .ecn_mark = r->marks ? QUEUE / 5 : 0,
			 .loss_ppm = r->loss_ppm },
		.qp = sim_qp_defaults(),
		.leaves = r->flows,
		.opcode = r->opcode,
		.len = MESSAGE,
		.depth = 16,
		.start_interval = message * (200 + 24 * shape) / (r->flows - 1),
		.answer_delay = r->answer_delay,
	};
	struct fan *f;
	uint32_t before[FAN_MAX];
	struct outcome o;

	c.qp.mtu = r->mtu;
	c.qp.timeout = 14;
	f = fan_new("fairness", seed, &c);
	world_run_until(f->w, f->w->now + c.start_interval * (r->flows - 1));
	for (uint32_t i = 0; i < r->flows; i++)
		before[i] = fan_done(f, i);
	world_run_until(f->w, f->w->now + message * r->messages);
	o = evaluate(f, r, before);
	fan_free(f);
	return o;
}

static void check(const struct row *rows, size_t n)
{
	struct sim_seeds seeds = sim_seeds("fairness", 1, SEEDS);

	for (size_t i = 0; i < n; i++) {
		for (uint64_t seed = seeds.first; seed < seeds.first + seeds.runs; seed++) {
			struct outcome o = run(&rows[i], seed);

			if (o.jain < rows[i].jain || o.utilization < rows[i].utilization)
				fail_msg("row %zu, seed %llu: Jain's index 0.%02u, %u %% of the "
					 "link",
					 i, (unsigned long long)seed, o.jain, o.utilization);
			if (rows[i].loss_ppm && o.retransmitted * 2 > o.lost * 3)
				fail_msg(
					"row %zu, seed %llu: %llu packets lost, %llu retransmitted",
					i, (unsigned long long)seed, (unsigned long long)o.lost,
					(unsigned long long)o.retransmitted);
		}
	}
}

/*
 * Without jitter a flow that fills the queue has an advantage: its packets arrive just when its own
 * packets leave the queue, and take every free place. It must share all the same.
 */
static void equal_delays_favour_no_flow(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 2, 1024, 10000, 0, 0, 0, 800, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 2, 4096, 10000, 0, 0, 0, 1000, 95, 90 },
		{ IBV_WR_RDMA_WRITE, 2, 4096, 10000, 1000, 0, 0, 1000, 95, 90 },
		{ IBV_WR_RDMA_WRITE, 2, 4096, 1000, 0, 0, 0, 600, 95, 90 },
		{ IBV_WR_RDMA_WRITE, 2, 1024, 1000, 0, 0, 0, 2000, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 2, 1024, 100, 0, 0, 0, 1907, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 8, 1024, 100, 0, 0, 0, 1907, 95, 85 },
		{ IBV_WR_RDMA_READ, 2, 4096, 10000, 0, 0, 0, 1000, 95, 80 },
	};

	check(rows, ARRAY_SIZE(rows));
}

static void many_flows_get_equal_shares(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 8, 1024, 1000, 20000, 0, 0, 300, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 8, 4096, 10000, 20000, 0, 0, 1000, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 32, 1024, 10000, 20000, 0, 0, 1000, 95, 80 },
		{ IBV_WR_RDMA_WRITE, 16, 4096, 1000, 20000, 0, 0, 2000, 95, 85 },
	};

	check(rows, ARRAY_SIZE(rows));
}

/* Ten seconds; of 32 flows at MTU 4096 the queue holds one packet each. */
static void ten_seconds_of_slow_links_are_shared(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 2, 1024, 100, 20000, 0, 0, 1907, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 32, 1024, 100, 20000, 0, 0, 1907, 95, 80 },
		{ IBV_WR_RDMA_WRITE, 2, 4096, 1000, 20000, 0, 0, 19073, 95, 90 },
		{ IBV_WR_RDMA_WRITE, 32, 4096, 1000, 20000, 0, 0, 19073, 95, 85 },
	};

	check(rows, ARRAY_SIZE(rows));
}

/* The queue holds about two packets of each of 16 flows. */
static void readers_and_slow_links_get_equal_shares(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_READ, 8, 1024, 1000, 20000, 0, 0, 2000, 95, 80 },
		{ IBV_WR_RDMA_READ, 8, 4096, 10000, 20000, 0, 0, 2000, 95, 75 },
		{ IBV_WR_RDMA_READ, 32, 1024, 1000, 20000, 0, 0, 2000, 95, 75 },
		{ IBV_WR_RDMA_READ, 8, 1024, 100, 20000, 0, 0, 2000, 95, 80 },
		{ IBV_WR_RDMA_READ, 8, 4096, 100, 20000, 0, 0, 2000, 95, 75 },
		{ IBV_WR_RDMA_READ, 16, 4096, 100, 20000, 0, 0, 2000, 95, 75 },
		{ IBV_WR_RDMA_WRITE, 8, 4096, 100, 20000, 0, 0, 2000, 95, 85 },
		{ IBV_WR_RDMA_WRITE, 16, 4096, 100, 20000, 0, 0, 2000, 95, 85 },
		{ IBV_WR_RDMA_READ, 16, 4096, 1000, 20000, 0, 0, 2000, 95, 75 },
	};

	check(rows, ARRAY_SIZE(rows));
}

/*
 * A flow with a longer round trip gets nearly as much: round trips are up to 1.5 ms longer than the
 * shortest, of 40 to 520 us, and the queue adds 1.2 ms to all.
 */
static void far_flows_get_their_share(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 2, 4096, 1000, 20000, 100000, 0, 600, 95, 90, 110000 },
		{ IBV_WR_RDMA_WRITE, 4, 4096, 1000, 20000, 250000, 0, 1000, 85, 85, 260000 },
		{ IBV_WR_RDMA_WRITE, 8, 1024, 1000, 20000, 100000, 0, 300, 88, 80, 110000 },
		{ IBV_WR_RDMA_WRITE, 4, 4096, 10000, 20000, 10000, 0, 1000, 95, 80, 20000 },
	};

	check(rows, ARRAY_SIZE(rows));
}

/*
 * Round trips from 200 us to ten times as long, or from 1 to 10 ms, to which the queue adds up to
 * 1.2 or 12 ms. Windows grow by the same amount per unit of time, but above 3 ms once per round
 * trip, as TCP's do; so near flows of the slow link get more. Readers' responses leave as their
 * requests arrive, in runs of up to three quarters of a window.
 */
static void round_trips_ten_times_as_long_get_a_share(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 2, 1024, 1000, 20000, 900000, 0, 4000, 90, 85, 100000 },
		{ IBV_WR_RDMA_WRITE, 4, 1024, 1000, 20000, 300000, 0, 4000, 85, 85, 100000 },
		{ IBV_WR_RDMA_WRITE, 8, 4096, 1000, 20000, 128571, 0, 4000, 85, 90, 100000 },
		{ IBV_WR_RDMA_READ, 4, 1024, 1000, 20000, 300000, 0, 4000, 75, 70, 100000 },
		{ IBV_WR_RDMA_WRITE, 4, 1024, 100, 20000, 1500000, 0, 1907, 80, 85, 500000 },
	};

	check(rows, ARRAY_SIZE(rows));
}

/* The same; the queue marks, so it adds 240 us at most. */
static void marks_slow_down_near_and_far_flows_alike(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 2, 1024, 1000, 20000, 900000, 0, 4000, 90, 85, 100000, true },
		{ IBV_WR_RDMA_WRITE, 4, 1024, 1000, 20000, 300000, 0, 4000, 90, 85, 100000, true },
		{ IBV_WR_RDMA_WRITE, 8, 1024, 1000, 20000, 128571, 0, 4000, 90, 85, 100000, true },
	};

	check(rows, ARRAY_SIZE(rows));
}

/* 5 % random loss: at most 1.5 times as many packets are retransmitted as were lost. */
static void losses_do_not_collapse_throughput(void **state)
{
	static const struct row rows[] = {
		{ IBV_WR_RDMA_WRITE, 2, 1024, 1000, 20000, 0, 50000, 600, 95, 65 },
		{ IBV_WR_RDMA_WRITE, 8, 4096, 1000, 20000, 0, 50000, 1000, 90, 80 },
		{ IBV_WR_RDMA_WRITE, 16, 4096, 1000, 20000, 0, 50000, 2000, 90, 80 },
		{ IBV_WR_RDMA_WRITE, 8, 4096, 10000, 20000, 0, 50000, 1000, 90, 80 },
	};

	check(rows, ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_delays_favour_no_flow),
		cmocka_unit_test(many_flows_get_equal_shares),
		cmocka_unit_test(ten_seconds_of_slow_links_are_shared),
		cmocka_unit_test(readers_and_slow_links_get_equal_shares),
		cmocka_unit_test(far_flows_get_their_share),
		cmocka_unit_test(round_trips_ten_times_as_long_get_a_share),
		cmocka_unit_test(marks_slow_down_near_and_far_flows_alike),
		cmocka_unit_test(losses_do_not_collapse_throughput),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
