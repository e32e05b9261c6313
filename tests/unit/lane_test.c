/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane against an oracle: random packets through a ring, checked byte by byte; a full lane; a
 * corrupted lane.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "local/lane.h"

static uint64_t seed;

static uint32_t rnd32(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 33;
}

struct sent {
	uint8_t bytes[9000];
	struct lane_head head;
};

static struct lane *new_lane(void)
{
	return aligned_alloc(CACHE_LINE, sizeof(struct lane));
}

static struct lane *zero_lane(void)
{
	return memset(new_lane(), 0, sizeof(struct lane));
}

static bool put_random(struct lane_tx *tx, struct sent *s)
{
	uint32_t len = rnd32() % 3 == 0 ? rnd32() % sizeof(s->bytes)
					 : rnd32() % (LANE_INLINE_MAX + 20);
	uint32_t cut = rnd32() % (len + 1);

	if (!lane_tx_room(tx, max(len, (uint32_t)LANE_INLINE_MAX + 1)))
		return false;
	for (uint32_t i = 0; i < len; i++)
		s->bytes[i] = rnd32();
	s->head = (struct lane_head){ .where = rnd32() % 4 ? LANE_INLINE : LANE_PULL,
				      .flags = rnd32(), .nseg = rnd32(), .payload = rnd32(),
				      .ack_psn = rnd32(), .ack_aeth = rnd32() };
	lane_tx_put(tx, &s->head,
		    (struct lane_part[]){ { s->bytes, cut }, { s->bytes + cut, len - cut } }, 2);
	return true;
}

static void get_and_compare(struct lane_rx *rx, const struct sent *s)
{
	struct lane_slot got;
	const uint8_t *data;

	assert_true(lane_rx_get(rx, &got, &data));
	assert_int_equal(got.head.len, s->head.len);
	assert_int_equal(got.head.where, s->head.where);
	assert_int_equal(got.head.flags, s->head.flags);
	if (s->head.where == LANE_PULL) {
		assert_int_equal(got.head.nseg, s->head.nseg);
		assert_int_equal(got.head.payload, s->head.payload);
	}
	assert_int_equal(got.head.ack_psn, s->head.ack_psn);
	assert_int_equal(got.head.ack_aeth, s->head.ack_aeth);
	assert_non_null(data);
	assert_memory_equal(data, s->bytes, got.head.len);
	lane_rx_next(rx);
	lane_rx_free(rx, &got.head);
}

/* Begins at the given offset of the ring. */
static void random_packets_from(uint32_t offset)
{
	static struct sent sent[LANE_SLOTS];
	struct lane *lane = zero_lane();
	struct lane_tx tx;
	struct lane_rx rx;
	uint32_t put = 0, got = 0;

	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	tx.ring_head = tx.ring_tail = lane->ring_tail = offset;
	while (got < 20000) {
		for (uint32_t n = rnd32() % 40; n > 0 && put_random(&tx, &sent[put % LANE_SLOTS]);
		     n--)
			put++;
		for (uint32_t n = rnd32() % 40; n > 0 && got < put; n--, got++)
			get_and_compare(&rx, &sent[got % LANE_SLOTS]);
	}
	free(lane);
}

static void random_packets_arrive_whole_and_in_order(void **state)
{
	random_packets_from(0);
}

/* Offsets into the ring begin anew long before 32 bits are too few. */
static void ring_offsets_begin_anew(void **state)
{
	for (uint32_t before = 0; before < 5 * LANE_BYTES; before += 4800)
		random_packets_from((1u << 31) - before);
}

/* However full the ring was, once it is empty the longest packet fits. */
static void an_empty_ring_takes_the_longest_packet(void **state)
{
	static const uint8_t bytes[LANE_BYTES];
	const uint32_t lens[] = { 100, 5000, 11000, LANE_BYTES - 64, 97, LANE_BYTES };
	struct lane *lane = zero_lane();
	struct lane_slot slot;
	const uint8_t *data;
	struct lane_tx tx;
	struct lane_rx rx;

	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct lane_head head = { 0 };

		assert_true(lane_tx_room(&tx, LANE_BYTES));
		assert_false(lane_tx_room(&tx, LANE_BYTES + 1));
		lane_tx_put(&tx, &head, &(struct lane_part){ bytes, lens[i] }, 1);
		assert_false(lane_tx_room(&tx, LANE_BYTES));
		assert_true(lane_rx_get(&rx, &slot, &data));
		lane_rx_next(&rx);
		lane_rx_free(&rx, &slot.head);
	}
	free(lane);
}

static void a_full_lane_is_reported(void **state)
{
	struct lane *lane = zero_lane();
	struct lane_head head = { 0 };
	struct lane_slot slot;
	const uint8_t *data;
	struct lane_tx tx;
	struct lane_rx rx;

	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	for (int i = 0; i < LANE_SLOTS; i++) {
		assert_true(lane_tx_room(&tx, 0));
		lane_tx_put(&tx, &head, NULL, 0);
	}
	assert_false(lane_tx_room(&tx, 0));
	assert_true(lane_rx_get(&rx, &slot, &data));
	lane_rx_next(&rx);
	lane_rx_free(&rx, &slot.head);
	assert_true(lane_tx_room(&tx, LANE_INLINE_MAX));
	free(lane);
}

/* Whatever a hostile peer writes, no index leaves the lane and every call returns. */
static void garbage_stays_inside(void **state)
{
	struct lane *lane = zero_lane();
	struct lane_tx tx;
	struct lane_rx rx;

	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	for (int round = 0; round < 3000; round++) {
		struct lane_slot copy;
		const uint8_t *data;

		for (int i = 0; i < 60; i++)
			((uint32_t *)lane)[rnd32() % (offsetof(struct lane, bytes) / 4)] = rnd32();
		lane->slot[rx.next % LANE_SLOTS].head.where = rnd32() % 4;
		lane->slot[rx.next % LANE_SLOTS].head.len = rnd32() % 2 ? rnd32() % 9000 : rnd32();
		lane->slot[rx.next % LANE_SLOTS].head.seq = rx.next + 1;
		assert_true(lane_rx_get(&rx, &copy, &data));
		if (data != NULL && copy.head.where != LANE_INLINE) {
			assert_true(data >= lane->bytes);
			assert_true(data + copy.head.len <= lane->bytes + LANE_BYTES);
		}
		lane_rx_next(&rx);
		lane_rx_free(&rx, &copy.head);
		lane->tail = rnd32();
		if (lane_tx_room(&tx, 1000)) {
			static const uint8_t bytes[1000];
			struct lane_head head = { 0 };

			lane_tx_put(&tx, &head, &(struct lane_part){ bytes, sizeof(bytes) }, 1);
			assert_true(head.ring_off % LANE_BYTES + head.len <= LANE_BYTES);
		}
		assert_true(tx.head - tx.tail <= LANE_SLOTS);
	}
	free(lane);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_packets_arrive_whole_and_in_order),
		cmocka_unit_test(ring_offsets_begin_anew),
		cmocka_unit_test(an_empty_ring_takes_the_longest_packet),
		cmocka_unit_test(a_full_lane_is_reported),
		cmocka_unit_test(garbage_stays_inside),
	};
	const char *env = getenv("VERBENA_SEED");

	seed = env ? strtoull(env, NULL, 0) : 20261121;
	printf("VERBENA_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
