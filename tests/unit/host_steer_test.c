/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes that share a UDP port learn about each other's sockets.
 */
#include <string.h>

#include "host/steer.h"
#include "host_env.h"
#include "util/compiler.h"

static void steering_map_has_processes_of_the_same_port(void **state)
{
	struct host *h[3] = { join(), join(), join() };
	struct net_steer map[16];
	uint32_t qpn[3];
	size_t n, i;

	for (i = 0; i < 3; i++)
		assert_int_equal(host_qpn_alloc(h[i], 0, &qpn[i]), 0);
	assert_false(host_holds_port(h[0], 4791));
	assert_int_equal(host_steer_map(h[0], map, ARRAY_SIZE(map)), 0);
	assert_int_equal(host_steer_slots(h[0], map, ARRAY_SIZE(map)), 0);
	host_publish_wire(h[0], 4791, &(struct host_steer){ .at = { { 5, -1 } } });
	host_publish_wire(h[1], 4791, &(struct host_steer){ .at = { { 6, 2 } } });
	host_publish_wire(h[2], 4792, &(struct host_steer){ .at = { { 7, 7 } } });
	n = host_steer_map(h[0], map, ARRAY_SIZE(map));
	assert_int_equal(n, 3);
	/* QP 1 belongs to all processes */
	assert_true(map[0].number == 0 && map[0].index[0] == 6 && map[0].index[1] == 2);
	assert_true(map[1].number < map[2].number);
	for (i = 1; i < n; i++) {
		bool first = map[i].number == qpn[0] >> 8;

		assert_int_equal(map[i].number, qpn[!first] >> 8);
		assert_int_equal(map[i].index[0], first ? 5 : 6);
		assert_int_equal(map[i].index[1], first ? -1 : 2);
	}
	assert_int_equal(host_steer_map(h[0], map, 1), 1);
	assert_int_equal(host_steer_slots(h[0], map, ARRAY_SIZE(map)), 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(map[i].number, host_slot(h[i]));
		assert_int_equal(map[i].index[0], i ? 6 : 5);
		assert_int_equal(map[i].index[1], i ? 2 : -1);
	}
	assert_int_equal(host_steer_slots(h[0], map, 1), 1);
	assert_true(host_publish_listener(h[1]));
	assert_false(host_publish_listener(h[1]));
	assert_int_equal(host_steer_slots(h[0], map, ARRAY_SIZE(map)), 2);
	assert_false(map[0].listens);
	assert_true(map[1].listens);
	assert_true(host_holds_port(h[0], 4792));
	host_leave(h[2]);
	assert_false(host_holds_port(h[0], 4792));
	assert_true(host_holds_port(h[0], 4791));
	host_leave(h[1]);
	assert_false(host_holds_port(h[0], 4791));
	host_leave(h[0]);
}

/* Blocks of a process are adjacent; a shard without a position uses that of shard 0. */
static void steering_map_has_shards(void **state)
{
	struct host *h[2] = { join(), join() };
	struct host_steer at;
	struct net_steer map[16];
	uint32_t qpn[4], first;
	size_t n, i;

	for (i = 0; i < 4; i++)
		assert_int_equal(host_qpn_alloc(h[i == 3], (unsigned int)i % 3, &qpn[i]), 0);
	first = qpn[0] >> 8;
	assert_true(first > 65500 || (qpn[1] >> 8 == first + 1 && qpn[2] >> 8 == first + 2));
	memset(&at, 0xff, sizeof(at));
	at.at[0][0] = 10;
	at.at[0][1] = 20;
	at.at[1][0] = 11;
	at.at[2][1] = 0;
	host_publish_wire(h[0], 4791, &at);
	host_publish_wire(h[1], 4792, &at);
	n = host_steer_map(h[0], map, ARRAY_SIZE(map));
	assert_int_equal(n, 4);
	for (i = 1; i < n; i++) {
		static const int32_t expected[3][2] = { { 10, 20 }, { 11, 20 }, { 10, 0 } };
		size_t shard = 0;

		while (shard < 2 && qpn[shard] >> 8 != map[i].number)
			shard++;
		assert_int_equal(map[i].number, qpn[shard] >> 8);
		assert_int_equal(map[i].index[0], expected[shard][0]);
		assert_int_equal(map[i].index[1], expected[shard][1]);
	}
	host_leave(h[0]);
	host_leave(h[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(steering_map_has_processes_of_the_same_port),
		IN_DIR(steering_map_has_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
