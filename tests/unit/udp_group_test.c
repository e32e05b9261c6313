/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes, and RX queues of one process, that share the port: steering finds the owner. */
#include "udp_env.h"

#include <stdlib.h>
#include <string.h>

#include "host/steer.h"
#include "place.h"
#include "util/be.h"
#include "util/compiler.h"

/* Processes that share the port, used as core does. */
enum { MEMBERS = 5 };

struct member {
	struct host *host;
	struct wire *wire;
	uint32_t qpn;
};

static void refresh(struct member *m)
{
	struct net_steer map[64];
	size_t n = host_steer_map(m->host, map, ARRAY_SIZE(map));

	assert_int_equal(udp_steer(m->wire, (struct net_steer_list){ map, n },
				   (struct net_steer_list){ NULL, 0 }), 0);
}

static void find_position(struct member *m)
{
	struct host_steer steer = { 0 };
	int32_t *position = steer.at[0];

	refresh(m);
	udp_probe(m->wire, MEMBERS + 3);
	assert_int_equal(env_drain(m->wire), 0);
	udp_position(m->wire, position);
	assert_true(position[0] >= 0 && position[0] < MEMBERS);
	assert_true(!m->wire->ipv6 || (position[1] >= 0 && position[1] < MEMBERS));
	host_publish_wire(m->host, m->wire->port, &steer);
	refresh(m);
}

static void member_up(struct member *m, const char *dir)
{
	assert_int_equal(host_join(dir, &m->host), 0);
	m->wire = env_open();
	assert_int_equal(host_qpn_alloc(m->host, 0, &m->qpn), 0);
	find_position(m);
}

static void member_down(struct member *m)
{
	wire_close(m->wire);
	host_leave(m->host);
	m->wire = NULL;
}

/*
 * Returns how many packets sent by `from` to `to` arrive there directly; drains the rest from all
 * other members.
 */
static unsigned int arrive_directly_of(struct member *m, unsigned int n, struct member *from,
				       struct member *to)
{
	uint8_t data[32] = { 4, 0x40 };
	struct wire_pkt out = { .data = data, .len = sizeof(data) };
	unsigned int i, direct = 0, total = 0;

	put_be24(data + 5, to->qpn);
	for (i = 0; i < 8; i++) {
		out.path = i % 2 && from->wire->ipv6 ? env_path_v6() : env_path_v4();
		out.path.flow_label = 0;
		assert_int_equal(wire_send(from->wire, &out, 1), 1);
	}
	direct = env_drain(to->wire);
	for (i = 0; i < n; i++)
		if (m[i].wire)
			total += env_drain(m[i].wire);
	assert_int_equal(direct + total, 8);
	return direct;
}

static unsigned int arrive_directly(struct member *m, struct member *from, struct member *to)
{
	return arrive_directly_of(m, MEMBERS, from, to);
}

static void steering_finds_the_owner_and_survives_departures(void **state)
{
	struct member m[MEMBERS] = { { NULL } };
	unsigned int i, j;
	char dir[64];

	place_make_dir(dir);
	for (i = 0; i < MEMBERS; i++)
		member_up(&m[i], dir);
	for (i = 0; i < MEMBERS; i++)
		for (j = 0; j < MEMBERS; j++)
			assert_int_equal(arrive_directly(m, &m[i], &m[j]), 8);

	/*
	 * The last socket moves into the gap: nothing is lost, and a refresh corrects the
	 * positions.
	 */
	member_down(&m[1]);
	for (j = 0; j < MEMBERS; j++)
		if (m[j].wire)
			arrive_directly(m, &m[0], &m[j]);
	find_position(&m[MEMBERS - 1]);
	for (j = 0; j < MEMBERS; j++)
		if (m[j].wire)
			assert_int_equal(arrive_directly(m, &m[0], &m[j]), 8);

	member_up(&m[1], dir);
	for (j = 0; j < MEMBERS; j++)
		assert_int_equal(arrive_directly(m, &m[2], &m[j]), 8);
	for (i = 0; i < MEMBERS; i++)
		member_down(&m[i]);
	place_remove_dir(dir);
}

/* A process with two wires: each gets the packets of its shard, and closing one loses nothing. */
static void each_shard_has_its_own_wire(void **state)
{
	struct member m[2] = { { NULL } }, shard = { NULL };
	struct host_steer steer;
	char dir[64];

	place_make_dir(dir);
	member_up(&m[0], dir);
	member_up(&m[1], dir);
	shard.host = m[0].host;
	shard.wire = env_open();
	assert_int_equal(host_qpn_alloc(shard.host, 3, &shard.qpn), 0);
	refresh(&m[0]);
	/* no steering yet: the first wire gets it */
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &shard), 0);

	memset(&steer, 0xff, sizeof(steer));
	udp_probe(m[0].wire, MEMBERS);
	udp_probe(shard.wire, MEMBERS);
	assert_int_equal(env_drain(m[0].wire) + env_drain(shard.wire), 0);
	udp_position(m[0].wire, steer.at[0]);
	udp_position(shard.wire, steer.at[3]);
	assert_int_not_equal(steer.at[0][0], steer.at[3][0]);
	host_publish_wire(m[0].host, m[0].wire->port, &steer);
	refresh(&m[1]);
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &shard), 8);
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &m[0]), 8);
	assert_int_equal(arrive_directly_of(m, 2, &m[0], &m[1]), 8);

	wire_close(shard.wire);
	steer.at[3][0] = steer.at[3][1] = -1;
	host_publish_wire(m[0].host, m[0].wire->port, &steer);
	refresh(&m[1]);
	shard.wire = m[0].wire;
	assert_int_equal(arrive_directly_of(m, 2, &m[1], &shard), 8);
	member_down(&m[0]);
	member_down(&m[1]);
	place_remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(steering_finds_the_owner_and_survives_departures,
				       env_new_port),
		cmocka_unit_test_setup(each_shard_has_its_own_wire, env_new_port),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
