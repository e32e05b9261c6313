/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of flows: which value a program reads at which index, and until when counters can be
 * attached.
 */
#include "core/raw/flow_counters.h"

#include "core_env.h"

#include <errno.h>

enum { LAST_INDEX = 8191 };	/* as on hardware */

static struct vrb_context *ctx;
static struct vrb_flow_count *count;

static int set_up(void **state)
{
	const struct ibv_counters_init_attr attr = { 0 };

	ctx = core_env_open();
	return vrb_flow_count_create(ctx, &attr, &count);
}

static int tear_down(void **state)
{
	assert_int_equal(vrb_flow_count_destroy(count), 0);
	assert_int_equal(ctx->n[CTX_FLOW_COUNT], 0);
	core_env_close(ctx);
	return 0;
}

static int attach(enum ibv_counter_description what, uint32_t index)
{
	const struct ibv_counter_attach_attr attr = { .counter_desc = what, .index = index };

	return vrb_flow_count_attach(count, &attr, NULL);
}

static void frames_and_bytes_at_the_chosen_indices(void **state)
{
	uint64_t values[4] = { 9, 9, 9, 9 };

	assert_int_equal(attach(IBV_COUNTER_PACKETS, 2), 0);
	assert_int_equal(attach(IBV_COUNTER_BYTES, 0), 0);
	vrb_flow_count_add(count, 60);
	vrb_flow_count_add(count, 1000);
	assert_int_equal(vrb_flow_count_read(count, values, 4, 0), 0);
	assert_int_equal(values[0], 1060);
	assert_int_equal(values[1], 0);
	assert_int_equal(values[2], 2);
	assert_int_equal(values[3], 0);
	/* two counters at one index are added up */
	assert_int_equal(attach(IBV_COUNTER_PACKETS, 0), 0);
	assert_int_equal(vrb_flow_count_read(count, values, 4, 0), 0);
	assert_int_equal(values[0], 1062);
	/* No room for index 2 */
	assert_int_equal(vrb_flow_count_read(count, values, 2, 0), EINVAL);
}

static void counters_are_attached_before_flows(void **state)
{
	static const struct ibv_flow flow;
	const struct ibv_counter_attach_attr attr = { .counter_desc = IBV_COUNTER_BYTES };

	assert_int_equal(vrb_flow_count_attach(count, &attr, &flow), ENOTSUP);
	assert_int_equal(attach(IBV_COUNTER_BYTES, LAST_INDEX), 0);
	assert_int_equal(attach(IBV_COUNTER_BYTES, LAST_INDEX + 1), EINVAL);
	assert_int_equal(attach(IBV_COUNTER_BYTES + 1, 0), ENOTSUP);
	vrb_flow_count_get(count);
	assert_int_equal(attach(IBV_COUNTER_BYTES, 0), EBUSY);
	assert_int_equal(vrb_flow_count_destroy(count), EBUSY);
	vrb_flow_count_put(count);
	assert_int_equal(attach(IBV_COUNTER_BYTES, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_and_bytes_at_the_chosen_indices, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(counters_are_attached_before_flows, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
