/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/comm_id.h"

#include "core/base/state.h"
#include "host/host.h"
#include "host/relay.h"
#include "run/config.h"
#include "util/atomic.h"

enum { SERIAL_BITS = NET_COMM_ID_SERIAL_BITS };

static struct {
	uint32_t serial;	/* atomic */
	uint32_t place, key;
} ids;

/*
 * A permutation of SERIAL_BITS-bit numbers, three Feistel rounds, so that earlier ids do not reveal
 * the next one.
 */
static uint32_t scramble(uint32_t n)
{
	const uint32_t half = SERIAL_BITS / 2, mask = (1u << half) - 1;
	uint32_t left = n >> half & mask, right = n & mask;

	for (uint32_t round = 0; round < 3; round++) {
		uint32_t mixed = (right ^ ids.key ^ round << 28) * 0x9e3779b1u;
		uint32_t next = left ^ (mixed >> 17 & mask);

		left = right;
		right = next;
	}
	return left << half | right;
}

uint32_t vrb_comm_id(void)
{
	const uint32_t mask = (1u << SERIAL_BITS) - 1;
	uint32_t id;

	do
		id = ids.place << SERIAL_BITS | scramble(fetch_add_relaxed(&ids.serial, 1) & mask);
	while (!id);
	return id;
}

unsigned int vrb_comm_id_place(uint32_t id)
{
	return id >> SERIAL_BITS;
}

bool vrb_comm_id_mine(uint32_t id)
{
	return vrb_comm_id_place(id) == ids.place;
}

/* A process without slot and number takes a random place. */
static uint32_t choose_place(uint32_t random)
{
	int slot = host_slot(vrb.host);
	unsigned int number = host_relay_number(vrb.host);

	if (number)
		return number;
	return slot == HOST_NO_SLOT ? random % HOST_SLOTS : (uint32_t)slot;
}

void vrb_comm_id_start(void)
{
	uint64_t random = config_random();

	ids.place = choose_place((uint32_t)random);
	ids.key = (uint32_t)(random >> 32);
	store_relaxed(&ids.serial, (uint32_t)config_random());
}
