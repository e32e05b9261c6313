/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Computed code tables against the printed ones: RNR timers, credit counts, ACK timeouts,
 * syndromes, P_Keys.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/const.h"
#include "util/compiler.h"

/* In units of 10 microseconds, as printed in the specification. */
static const uint32_t rnr_timers[32] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static void rnr_timer_codes(void **state)
{
	for (uint8_t code = 0; code < 32; code++)
		assert_int_equal(roce_rnr_timer_ns(code), rnr_timers[code] * 10000ull);
	assert_int_equal(roce_rnr_timer_ns(1), 10000);
	assert_int_equal(roce_rnr_timer_ns(0), 655360000);
	assert_int_equal(roce_rnr_timer_ns(31), 491520000);
}

static const uint32_t credit_counts[31] = {
	0,   1,	  2,   3,   4,	  6,	8,    12,   16,	  24,	32,   48,    64,    96,	   128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

static void credit_codes(void **state)
{
	for (uint8_t code = 0; code < 31; code++) {
		assert_int_equal(roce_credits(code), credit_counts[code]);
		assert_int_equal(roce_credit_code(credit_counts[code]), code);
	}
	assert_int_equal(roce_credits(31), ROCE_CREDITS_UNLIMITED);
}

/*
 * A code never stands for more receives than there are, nor for fewer than the next smaller code.
 */
static void credits_are_rounded_down(void **state)
{
	for (uint32_t credits = 0; credits <= 40000; credits++) {
		uint8_t code = roce_credit_code(credits);

		assert_true(code < ROCE_CREDITS_INVALID && credit_counts[code] <= credits);
		assert_true(code == 30 || credit_counts[code + 1] > credits);
	}
	assert_int_equal(roce_credit_code(UINT32_MAX), 30);
}

static void ack_timeouts(void **state)
{
	assert_true(roce_ack_timeout_ns(0) == VRB_NEVER);
	assert_int_equal(roce_ack_timeout_ns(1), 8192);
	assert_int_equal(roce_ack_timeout_ns(14), 67108864);
	assert_int_equal(roce_ack_timeout_ns(31), 4096ull << 31);
}

static const struct {
	uint8_t syndrome;
	enum roce_aeth_class class;
	uint8_t value;
} syndromes[] = {
	{ 0x00, ROCE_AETH_ACK, 0 },
	{ 0x1f, ROCE_AETH_ACK, ROCE_CREDITS_INVALID },
	{ 0x20, ROCE_AETH_RNR_NAK, 0 },
	{ 0x2c, ROCE_AETH_RNR_NAK, 12 },
	{ 0x40, ROCE_AETH_RESERVED, 0 },
	{ 0x60, ROCE_AETH_NAK, ROCE_NAK_PSN_SEQUENCE_ERROR },
	{ 0x61, ROCE_AETH_NAK, ROCE_NAK_INVALID_REQUEST },
	{ 0x62, ROCE_AETH_NAK, ROCE_NAK_REMOTE_ACCESS_ERROR },
	{ 0x63, ROCE_AETH_NAK, ROCE_NAK_REMOTE_OPERATIONAL_ERROR },
	{ 0x64, ROCE_AETH_NAK, ROCE_NAK_INVALID_RD_REQUEST },
};

static void syndromes_split_and_join(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(syndromes); i++) {
		assert_int_equal(roce_syndrome_class(syndromes[i].syndrome), syndromes[i].class);
		assert_int_equal(roce_syndrome_value(syndromes[i].syndrome), syndromes[i].value);
		assert_int_equal(roce_syndrome(syndromes[i].class, syndromes[i].value),
				 syndromes[i].syndrome);
	}
	for (unsigned s = 0x80; s < 0x100; s++)
		assert_int_equal(roce_syndrome_class((uint8_t)s), ROCE_AETH_RESERVED);
}

static const struct {
	uint16_t a, b;
	bool match;
} pkeys[] = {
	{ 0xffff, 0xffff, true }, { 0xffff, 0x7fff, true },  { 0x7fff, 0xffff, true },
	{ 0x7fff, 0x7fff, false }, { 0x8001, 0x0001, true }, { 0x8001, 0x8002, false },
	{ 0x8000, 0x8000, false }, { 0, 0, false },
};

static void pkeys_match_by_base_and_membership(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(pkeys); i++)
		assert_int_equal(roce_pkey_match(pkeys[i].a, pkeys[i].b), pkeys[i].match);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr_timer_codes),
		cmocka_unit_test(credit_codes),
		cmocka_unit_test(credits_are_rounded_down),
		cmocka_unit_test(ack_timeouts),
		cmocka_unit_test(syndromes_split_and_join),
		cmocka_unit_test(pkeys_match_by_base_and_membership),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
