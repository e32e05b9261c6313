/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast the engine recovers from losses: virtual completion times (median, 90th percentile,
 * maximum) and the exact number of retransmitted packets, for fixed loss patterns and rates. A
 * changed number is a change of behaviour. If it is intended, record it: with the argument `record`
 * the program prints the rows of rc_loss_stats.inc anew and tests nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "util/compiler.h"

enum { RUNS = 60, INCAST_RUNS = 10 };

enum workload { WRITES, READS, SENDS, MIXED };

static const struct {
	const char *name;
	uint32_t kinds, ops, len;
} workloads[] = {
	[WRITES] = { "writes", PLAN_WRITE, 16, 14500 },
	[READS] = { "reads", PLAN_READ, 16, 14500 },
	[SENDS] = { "sends", PLAN_SEND, 60, 900 },
	[MIXED] = { "mixed", PLAN_ALL & ~PLAN_INVALIDATE, 40, 3000 },
};

struct expected {
	const char *name;
	enum workload load;
	uint64_t mask;		/* rotating */
	uint32_t loss_ppm;
	uint32_t incast; /* QPs that send to one slow port; then `mask` enables ECN */
	uint64_t median_us, p90_us, max_us;
	uint64_t retransmitted, lost;
};

static const struct expected table[] = {
#include "rc_loss_stats.inc"
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct plan_config config_of(const struct expected *e)
{
	struct plan_config c = {
		.net = { .delay = 10000, .mbit_per_s = 10000, .loss_mask = e->mask,
			 .loss_ppm = e->loss_ppm },
		.qp = sim_qp_defaults(),
		.pairs = 1,
		.ops = workloads[e->load].ops,
		.kinds = workloads[e->load].kinds,
		.fixed_len = workloads[e->load].len,
		.max_len = workloads[e->load].len,
	};

	if (e->incast) {
		c.pairs = e->incast;
		c.net.mbit_per_s = 1000;
		c.net.fast_egress = true;
		c.net.buffer = 200000;
		c.net.ecn_mark = e->mask ? 40000 : 0;
		c.net.loss_mask = 0;
	}
	return c;
}

static void measure(const struct expected *e, struct expected *got)
{
	uint32_t runs = e->incast ? INCAST_RUNS : RUNS;
	uint64_t time[RUNS];

	*got = *e;
	got->retransmitted = got->lost = 0;
	for (uint32_t i = 0; i < runs; i++) {
		struct plan_config c = config_of(e);
		struct plan *p = plan_new(e->name, 1000 + i, &c);
		uint64_t began = p->w->now;
		struct oracle o;

		oracle_init(&o, p);
		plan_start(p);
		world_run(p->w);
		oracle_check(&o);
		time[i] = (p->w->last_cqe - began) / VRB_USEC;
		got->retransmitted += plan_counters(p).retransmitted_pkts;
		got->lost += p->w->net.count.lost + p->w->net.count.overflowed;
		oracle_free(&o);
		plan_free(p);
	}
	qsort(time, runs, sizeof(time[0]), by_value);
	got->median_us = time[runs / 2];
	got->p90_us = time[runs * 9 / 10];
	got->max_us = time[runs - 1];
}

static void print_row(const struct expected *e)
{
	static const char *const loads[] = { "WRITES", "READS", "SENDS", "MIXED" };

	printf("{ \"%s\", %s, 0x%llx, %u, %u,\n  %llu, %llu, %llu, %llu, %llu },\n", e->name,
	       loads[e->load], (unsigned long long)e->mask, e->loss_ppm, e->incast,
	       (unsigned long long)e->median_us, (unsigned long long)e->p90_us,
	       (unsigned long long)e->max_us, (unsigned long long)e->retransmitted,
	       (unsigned long long)e->lost);
}

static bool same(const struct expected *a, const struct expected *b)
{
	return a->median_us == b->median_us && a->p90_us == b->p90_us && a->max_us == b->max_us &&
	       a->retransmitted == b->retransmitted && a->lost == b->lost;
}

static void recorded_distributions(void **state)
{
	uint32_t different = 0;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct expected got;

		measure(&table[i], &got);
		if (same(&table[i], &got))
			continue;
		different++;
		printf("recorded:\n");
		print_row(&table[i]);
		printf("measured:\n");
		print_row(&got);
	}
	assert_int_equal(different, 0);
}

static int record(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct expected got;

		measure(&table[i], &got);
		print_row(&got);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_distributions),
	};

	if (argc > 1 && strcmp(argv[1], "record") == 0)
		return record();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
