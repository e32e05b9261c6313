/* SPDX-License-Identifier: BSD-2-Clause */
/* Link rates: conversion in both directions for every rate, and refusal of other values. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

/* By value of the enum; 0 in the columns: not a rate, or no multiple. */
static const struct {
	int mult;
	int mbps;
} rates[] = {
	[IBV_RATE_2_5_GBPS] = { 1, 2500 },     [IBV_RATE_5_GBPS] = { 2, 5000 },
	[IBV_RATE_10_GBPS] = { 4, 10000 },     [IBV_RATE_20_GBPS] = { 8, 20000 },
	[IBV_RATE_30_GBPS] = { 12, 30000 },    [IBV_RATE_40_GBPS] = { 16, 40000 },
	[IBV_RATE_60_GBPS] = { 24, 60000 },    [IBV_RATE_80_GBPS] = { 32, 80000 },
	[IBV_RATE_120_GBPS] = { 48, 120000 },  [IBV_RATE_14_GBPS] = { 0, 14062 },
	[IBV_RATE_56_GBPS] = { 0, 56250 },     [IBV_RATE_112_GBPS] = { 0, 112500 },
	[IBV_RATE_168_GBPS] = { 0, 168750 },   [IBV_RATE_25_GBPS] = { 0, 25781 },
	[IBV_RATE_100_GBPS] = { 0, 103125 },   [IBV_RATE_200_GBPS] = { 0, 206250 },
	[IBV_RATE_300_GBPS] = { 0, 309375 },   [IBV_RATE_28_GBPS] = { 11, 28125 },
	[IBV_RATE_50_GBPS] = { 20, 53125 },    [IBV_RATE_400_GBPS] = { 160, 425000 },
	[IBV_RATE_600_GBPS] = { 240, 637500 }, [IBV_RATE_800_GBPS] = { 320, 850000 },
	[IBV_RATE_1200_GBPS] = { 480, 1275000 },
};

static void both_directions(void **state)
{
	for (int i = 0; i < (int)(sizeof(rates) / sizeof(rates[0])); i++) {
		enum ibv_rate rate = (enum ibv_rate)i;

		assert_int_equal(ibv_rate_to_mult(rate), rates[i].mult ? rates[i].mult : -1);
		assert_int_equal(ibv_rate_to_mbps(rate), rates[i].mbps ? rates[i].mbps : -1);
		if (rates[i].mult)
			assert_int_equal(mult_to_ibv_rate(rates[i].mult), rate);
		if (rates[i].mbps)
			assert_int_equal(mbps_to_ibv_rate(rates[i].mbps), rate);
	}
}

static void not_a_rate(void **state)
{
	static const int values[] = { INT_MIN, -1, 25, INT_MAX };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(ibv_rate_to_mult((enum ibv_rate)values[i]), -1);
		assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)values[i]), -1);
		assert_int_equal(mult_to_ibv_rate(values[i]), IBV_RATE_MAX);
		assert_int_equal(mbps_to_ibv_rate(values[i]), IBV_RATE_MAX);
	}
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(10001), IBV_RATE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_directions),
		cmocka_unit_test(not_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
