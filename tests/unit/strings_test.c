/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_*_str(): texts at the ends and in the gaps of the tables, and for values that no enum has. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

static const char *node_type(int v)
{
	return ibv_node_type_str((enum ibv_node_type)v);
}

static const char *port_state(int v)
{
	return ibv_port_state_str((enum ibv_port_state)v);
}

static const char *event_type(int v)
{
	return ibv_event_type_str((enum ibv_event_type)v);
}

static const char *wc_status(int v)
{
	return ibv_wc_status_str((enum ibv_wc_status)v);
}

static const char *wr_opcode(int v)
{
	return ibv_wr_opcode_str((enum ibv_wr_opcode)v);
}

static const struct {
	const char *(*str)(int value);
	int value;
	const char *text;
} rows[] = {
	{ node_type, IBV_NODE_UNKNOWN, "unknown" },
	{ node_type, 0, "unknown" },
	{ node_type, IBV_NODE_CA, "InfiniBand channel adapter" },
	{ node_type, IBV_NODE_UNSPECIFIED, "unspecified" },
	{ node_type, IBV_NODE_UNSPECIFIED + 1, "unknown" },
	{ port_state, IBV_PORT_NOP, "no state change (NOP)" },
	{ port_state, IBV_PORT_ACTIVE, "active" },
	{ port_state, IBV_PORT_ACTIVE_DEFER, "active defer" },
	{ port_state, IBV_PORT_ACTIVE_DEFER + 1, "unknown" },
	{ event_type, IBV_EVENT_CQ_ERR, "CQ error" },
	{ event_type, IBV_EVENT_WQ_FATAL, "WQ fatal" },
	{ event_type, IBV_EVENT_DEVICE_SPEED_CHANGE, "device speed change" },
	{ event_type, IBV_EVENT_DEVICE_SPEED_CHANGE + 1, "unknown" },
	{ wc_status, IBV_WC_SUCCESS, "success" },
	{ wc_status, IBV_WC_WR_FLUSH_ERR, "Work Request Flushed Error" },
	{ wc_status, IBV_WC_TM_RNDV_INCOMPLETE, "TM software rendezvous" },
	{ wc_status, IBV_WC_TM_RNDV_INCOMPLETE + 1, "unknown" },
	{ wr_opcode, IBV_WR_RDMA_WRITE, "rdma-write" },
	{ wr_opcode, IBV_WR_DRIVER1, "driver1" },
	{ wr_opcode, IBV_WR_DRIVER1 + 1, "unknown" },
	{ wr_opcode, IBV_WR_FLUSH, "flush" },
	{ wr_opcode, IBV_WR_ATOMIC_WRITE, "atomic-write" },
	{ wr_opcode, IBV_WR_ATOMIC_WRITE + 1, "unknown" },
};

static void texts(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(rows[i].str(rows[i].value), rows[i].text);
}

static void no_value_crashes(void **state)
{
	static const int values[] = { INT_MIN, -2, -1, 1000, INT_MAX };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++)
			assert_string_equal(rows[i].str(values[v]), "unknown");
}

/* Every value in between has a name of its own. */
static void no_gaps(void **state)
{
	for (int v = IBV_NODE_CA; v <= IBV_NODE_UNSPECIFIED; v++)
		assert_string_not_equal(node_type(v), "unknown");
	for (int v = IBV_PORT_NOP; v <= IBV_PORT_ACTIVE_DEFER; v++)
		assert_string_not_equal(port_state(v), "unknown");
	for (int v = IBV_EVENT_CQ_ERR; v <= IBV_EVENT_DEVICE_SPEED_CHANGE; v++)
		assert_string_not_equal(event_type(v), "unknown");
	for (int v = IBV_WC_SUCCESS; v <= IBV_WC_TM_RNDV_INCOMPLETE; v++)
		assert_string_not_equal(wc_status(v), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(no_value_crashes),
		cmocka_unit_test(no_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
