/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every cell of the QP state table: 6 types x 7 states x 7 states. The rows below are written by
 * attribute and type, as the tables of Modify Queue Pair are, and not by cell as the table in the
 * source is; a cell without a row must be forbidden.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/control/qp_state.h"
#include "util/compiler.h"

enum {
	RC = 1 << 0,
	UC = 1 << 1,
	UD = 1 << 2,
	XS = 1 << 3,
	XR = 1 << 4,
	RAW = 1 << 5,
	CONN = RC | UC | XS | XR,
	ALL = CONN | UD | RAW,
	BITS = 26,
};

static const enum ibv_qp_type types[] = {
	IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET,
};

#define S(name) IBV_QPS_##name

static const struct {
	unsigned int types;
	enum ibv_qp_state cur, next;
} transitions[] = {
	{ ALL, S(RESET), S(RESET) }, { ALL, S(RESET), S(INIT) },
	{ ALL, S(INIT), S(RESET) },  { ALL, S(INIT), S(INIT) },	 { ALL, S(INIT), S(RTR) },
	{ ALL, S(INIT), S(ERR) },
	{ ALL, S(RTR), S(RESET) },   { ALL, S(RTR), S(RTS) },	 { ALL, S(RTR), S(ERR) },
	{ ALL, S(RTS), S(RESET) },   { ALL, S(RTS), S(RTS) },	 { ALL, S(RTS), S(SQD) },
	{ ALL, S(RTS), S(ERR) },
	{ ALL, S(SQD), S(RESET) },   { ALL, S(SQD), S(RTS) },	 { ALL, S(SQD), S(SQD) },
	{ ALL, S(SQD), S(ERR) },
	{ ALL, S(SQE), S(RESET) },   { UC | UD | RAW, S(SQE), S(RTS) }, { ALL, S(SQE), S(ERR) },
	{ ALL, S(ERR), S(RESET) },   { ALL, S(ERR), S(ERR) },
};

enum need {
	REQUIRED,
	OPTIONAL,
};

static const struct {
	enum ibv_qp_state cur, next;
	enum need need;
	int attr;
	unsigned int types;
} attributes[] = {
	{ S(RESET), S(INIT), REQUIRED, IBV_QP_PORT, ALL },
	{ S(RESET), S(INIT), REQUIRED, IBV_QP_PKEY_INDEX, CONN | UD },
	{ S(RESET), S(INIT), REQUIRED, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(RESET), S(INIT), REQUIRED, IBV_QP_QKEY, UD },

	{ S(INIT), S(INIT), OPTIONAL, IBV_QP_PORT, ALL },
	{ S(INIT), S(INIT), OPTIONAL, IBV_QP_PKEY_INDEX, CONN | UD },
	{ S(INIT), S(INIT), OPTIONAL, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(INIT), S(INIT), OPTIONAL, IBV_QP_QKEY, UD },

	{ S(INIT), S(RTR), REQUIRED, IBV_QP_AV, CONN },
	{ S(INIT), S(RTR), REQUIRED, IBV_QP_PATH_MTU, CONN },
	{ S(INIT), S(RTR), REQUIRED, IBV_QP_DEST_QPN, CONN },
	{ S(INIT), S(RTR), REQUIRED, IBV_QP_RQ_PSN, CONN },
	{ S(INIT), S(RTR), REQUIRED, IBV_QP_MAX_DEST_RD_ATOMIC, RC | XR },
	{ S(INIT), S(RTR), REQUIRED, IBV_QP_MIN_RNR_TIMER, RC | XR },
	{ S(INIT), S(RTR), OPTIONAL, IBV_QP_ALT_PATH, CONN },
	{ S(INIT), S(RTR), OPTIONAL, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(INIT), S(RTR), OPTIONAL, IBV_QP_PKEY_INDEX, CONN | UD },
	{ S(INIT), S(RTR), OPTIONAL, IBV_QP_QKEY, UD },

	{ S(RTR), S(RTS), REQUIRED, IBV_QP_SQ_PSN, CONN | UD },
	{ S(RTR), S(RTS), REQUIRED, IBV_QP_TIMEOUT, RC | XS | XR },
	{ S(RTR), S(RTS), REQUIRED, IBV_QP_RETRY_CNT, RC | XS },
	{ S(RTR), S(RTS), REQUIRED, IBV_QP_RNR_RETRY, RC | XS },
	{ S(RTR), S(RTS), REQUIRED, IBV_QP_MAX_QP_RD_ATOMIC, RC | XS },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_CUR_STATE, ALL },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_ALT_PATH, CONN },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_PATH_MIG_STATE, CONN },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_MIN_RNR_TIMER, RC | XR },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_QKEY, UD },
	{ S(RTR), S(RTS), OPTIONAL, IBV_QP_RATE_LIMIT, RAW },

	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_CUR_STATE, ALL },
	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_ALT_PATH, CONN },
	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_PATH_MIG_STATE, CONN },
	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_MIN_RNR_TIMER, RC | XR },
	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_QKEY, UD },
	{ S(RTS), S(RTS), OPTIONAL, IBV_QP_RATE_LIMIT, RAW },

	{ S(RTS), S(SQD), OPTIONAL, IBV_QP_EN_SQD_ASYNC_NOTIFY, ALL },

	{ S(SQD), S(RTS), OPTIONAL, IBV_QP_CUR_STATE, ALL },
	{ S(SQD), S(RTS), OPTIONAL, IBV_QP_ALT_PATH, CONN },
	{ S(SQD), S(RTS), OPTIONAL, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(SQD), S(RTS), OPTIONAL, IBV_QP_PATH_MIG_STATE, CONN },
	{ S(SQD), S(RTS), OPTIONAL, IBV_QP_MIN_RNR_TIMER, RC | XR },
	{ S(SQD), S(RTS), OPTIONAL, IBV_QP_QKEY, UD },

	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_PORT, RC | XS | XR },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_AV, CONN },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_TIMEOUT, RC | XS | XR },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_RETRY_CNT, RC | XS },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_RNR_RETRY, RC | XS },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_MAX_QP_RD_ATOMIC, RC | XS },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_MAX_DEST_RD_ATOMIC, RC | XR },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_ALT_PATH, CONN },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_ACCESS_FLAGS, CONN },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_PKEY_INDEX, CONN | UD },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_MIN_RNR_TIMER, RC | XR },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_PATH_MIG_STATE, CONN },
	{ S(SQD), S(SQD), OPTIONAL, IBV_QP_QKEY, UD },

	{ S(SQE), S(RTS), OPTIONAL, IBV_QP_CUR_STATE, UC | UD | RAW },
	{ S(SQE), S(RTS), OPTIONAL, IBV_QP_ACCESS_FLAGS, UC },
	{ S(SQE), S(RTS), OPTIONAL, IBV_QP_QKEY, UD },
};

static bool listed(unsigned int t, enum ibv_qp_state cur, enum ibv_qp_state next)
{
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++)
		if (transitions[i].cur == cur && transitions[i].next == next &&
		    (transitions[i].types & 1u << t))
			return true;
	return false;
}

static int masks(unsigned int t, enum ibv_qp_state cur, enum ibv_qp_state next, enum need need)
{
	int mask = 0;

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		if (attributes[i].cur == cur && attributes[i].next == next &&
		    attributes[i].need == need && (attributes[i].types & 1u << t))
			mask |= attributes[i].attr;
	return mask;
}

/* Each attribute alone: missing, added, or not allowed. */
static void check_cell(unsigned int t, enum ibv_qp_state cur, enum ibv_qp_state next)
{
	int required = masks(t, cur, next, REQUIRED), optional = masks(t, cur, next, OPTIONAL);
	int got_required, got_optional;
	bool allowed = listed(t, cur, next);

	assert_int_equal(qp_state_masks(types[t], cur, next, &got_required, &got_optional),
			 allowed);
	assert_int_equal(qp_state_allowed(types[t], cur, next, required), allowed);
	assert_int_equal(qp_state_allowed(types[t], cur, next, required | IBV_QP_STATE), allowed);
	if (!allowed)
		return;
	assert_int_equal(got_required, required);
	assert_int_equal(got_optional, optional);
	assert_true(qp_state_allowed(types[t], cur, next, required | optional));
	for (int bit = 1; bit < BITS; bit++) {
		int attr = 1 << bit;

		if (required & attr)
			assert_false(qp_state_allowed(types[t], cur, next, required & ~attr));
		else
			assert_int_equal(qp_state_allowed(types[t], cur, next, required | attr),
					 (optional & attr) != 0);
	}
}

static void test_every_cell(void **state)
{
	for (unsigned int t = 0; t < ARRAY_SIZE(types); t++)
		for (enum ibv_qp_state cur = S(RESET); cur <= S(ERR); cur++)
			for (enum ibv_qp_state next = S(RESET); next <= S(ERR); next++)
				check_cell(t, cur, next);
}

static void test_outside_the_table(void **state)
{
	assert_false(qp_state_allowed(IBV_QPT_RC, IBV_QPS_UNKNOWN, S(RESET), 0));
	assert_false(qp_state_allowed(IBV_QPT_RC, S(RESET), IBV_QPS_UNKNOWN, 0));
	assert_false(qp_state_allowed(IBV_QPT_RC, (enum ibv_qp_state)-1, S(RESET), 0));
	assert_false(qp_state_allowed(IBV_QPT_RC, S(RESET), (enum ibv_qp_state)1000, 0));
	assert_false(qp_state_allowed(IBV_QPT_DRIVER, S(RESET), S(RESET), 0));
	assert_false(qp_state_allowed((enum ibv_qp_type)0, S(RESET), S(RESET), 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell),
		cmocka_unit_test(test_outside_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
