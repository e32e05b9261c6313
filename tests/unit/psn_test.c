/* SPDX-License-Identifier: BSD-2-Clause */
/* 24-bit serial arithmetic at its boundaries, and against the definition by counting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/psn.h"
#include "unit/random.h"
#include "util/compiler.h"

static const struct {
	const char *name;
	uint32_t a, b;
	int32_t diff;
} differences[] = {
	{ "equal", 5, 5, 0 },
	{ "next", 6, 5, 1 },
	{ "previous", 5, 6, -1 },
	{ "over the wrap", 0, 0xffffff, 1 },
	{ "back over the wrap", 0xffffff, 0, -1 },
	{ "latest later one", 0x7fffff, 0, 0x7fffff },
	{ "half way is earlier", 0x800000, 0, -0x800000 },
	{ "half way is earlier from either side", 0, 0x800000, -0x800000 },
	{ "latest later one over the wrap", 0x7ffffe, 0xffffff, 0x7fffff },
	{ "other bits above bit 23", 0xaa000006, 0x55000005, 1 },
};

static void differences_at_boundaries(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(differences); i++) {
		uint32_t a = differences[i].a, b = differences[i].b;
		int32_t diff = differences[i].diff;

		if (psn_diff(a, b) != diff)
			fail_msg("%s: %d, not %d", differences[i].name, psn_diff(a, b), diff);
		assert_int_equal(psn_before(a, b), diff < 0);
	}
}

static void steps_stay_in_24_bits(void **state)
{
	assert_int_equal(psn_next(0xffffff), 0);
	assert_int_equal(psn_prev(0), 0xffffff);
	assert_int_equal(psn_add(0xfffffe, 3), 1);
	assert_int_equal(psn_add(0xff000001, 1), 2);
}

static const struct {
	uint32_t psn, first, last;
	bool in;
} ranges[] = {
	{ 10, 10, 10, true },		{ 11, 10, 10, false },	      { 9, 10, 10, false },
	{ 0xffffff, 0xfffffe, 1, true }, { 0, 0xfffffe, 1, true },    { 1, 0xfffffe, 1, true },
	{ 2, 0xfffffe, 1, false },	{ 0xfffffd, 0xfffffe, 1, false },
};

static void ranges_wrap(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		assert_int_equal(psn_in_range(ranges[i].psn, ranges[i].first, ranges[i].last),
				 ranges[i].in);
}

static const struct {
	uint32_t length, mtu, packets;
} messages[] = {
	{ 0, 1024, 1 },	   { 1, 1024, 1 },    { 1024, 1024, 1 }, { 1025, 1024, 2 },
	{ 2048, 1024, 2 }, { 1u << 31, 256, 1u << 23 }, { UINT32_MAX, 4096, 1u << 20 },
};

static void packets_of_a_message(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		assert_int_equal(psn_packets(messages[i].length, messages[i].mtu),
				 messages[i].packets);
}

/* Walking n < 2^23 steps forward from b gives a number that is n later; b is then n earlier. */
static void random_walks(void **state)
{
	random_start();
	for (int i = 0; i < 100000; i++) {
		uint32_t b = (uint32_t)random_below(1 << 24);
		uint32_t n = (uint32_t)random_below(PSN_HALF);
		uint32_t a = psn_add(b, n);

		assert_true(a <= ROCE_PSN_MASK);
		assert_int_equal(psn_diff(a, b), n);
		assert_int_equal(psn_diff(b, a), -(int32_t)n);
		assert_true(psn_in_range(a, b, psn_add(b, PSN_HALF - 1)));
		assert_true(n == 0 || !psn_in_range(b, psn_next(b), a));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences_at_boundaries),
		cmocka_unit_test(steps_stay_in_24_bits),
		cmocka_unit_test(ranges_wrap),
		cmocka_unit_test(packets_of_a_message),
		cmocka_unit_test(random_walks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
