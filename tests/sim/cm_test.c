/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random runs of the communication manager (cm_world.c), thousands of them, each checked against an
 * oracle. Seeds: README.md.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "cm_world.h"
#include "world.h"

static void anything_goes(void **state)
{
	struct sim_seeds s = sim_seeds("cm anything", 1, 4000);
	struct cm_world_result sum = { 0 };

	for (uint64_t i = 0; i < s.runs; i++) {
		struct cm_world_config c = cm_world_random_config(s.first + i);
		struct cm_world_result r = cm_world_run(s.first + i, &c);

		sum.connected += r.connected;
		sum.refused += r.refused;
		sum.unreachable += r.unreachable;
		sum.retried += r.retried;
		sum.duplicates += r.duplicates;
	}
	printf("# connected %u, refused %u, unreachable %u, retransmitted %llu, duplicates %llu\n",
	       sum.connected, sum.refused, sum.unreachable, (unsigned long long)sum.retried,
	       (unsigned long long)sum.duplicates);
}

/* On a network without losses all attempts connect, and no MAD is retransmitted. */
static void clean_network(void **state)
{
	struct sim_seeds s = sim_seeds("cm clean", 100001, 500);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct cm_world_config c = { .hosts = 2 + i % 3,
					     .attempts = 10,
					     .delay_min = 1000,
					     .delay_max = 100000,
					     .datagrams = i % 2 ? 30 : 0 };
		struct cm_world_result r = cm_world_run(s.first + i, &c);

		if (r.connected != c.attempts || r.retried)
			fail_msg("seed %llu: %u of %u connected, %llu retransmitted",
				 (unsigned long long)(s.first + i), r.connected, c.attempts,
				 (unsigned long long)r.retried);
	}
}

/* 30 % of the MADs are lost. With 16 transmissions of each, every attempt connects. */
static void losses_are_recovered(void **state)
{
	struct sim_seeds s = sim_seeds("cm losses", 200001, 500);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct cm_world_config c = { .hosts = 2,
					     .attempts = 8,
					     .loss = 300000,
					     .duplication = 100000,
					     .delay_min = 1000,
					     .delay_max = 100 * VRB_MSEC };
		struct cm_world_result r = cm_world_run(s.first + i, &c);

		if (r.connected != c.attempts)
			fail_msg("seed %llu: %u of %u connected", (unsigned long long)(s.first + i),
				 r.connected, c.attempts);
	}
}

/* Processes are killed and their hosts send the exit MADs: no peer keeps a connection to them. */
static void exit_mads_reach_all_peers(void **state)
{
	struct sim_seeds s = sim_seeds("cm exit MADs", 300001, 500);

	for (uint64_t i = 0; i < s.runs; i++) {
		struct cm_world_config c = { .hosts = 3,
					     .attempts = 12,
					     .delay_min = 1000,
					     .delay_max = 10 * VRB_MSEC,
					     .kills = 3,
					     .exit_mads = true,
					     .slow = 10 };
		struct cm_world_result r = cm_world_run(s.first + i, &c);

		if (r.orphans)
			fail_msg("seed %llu: %u orphans", (unsigned long long)(s.first + i),
				 r.orphans);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anything_goes),
		cmocka_unit_test(clean_network),
		cmocka_unit_test(losses_are_recovered),
		cmocka_unit_test(exit_mads_reach_all_peers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
