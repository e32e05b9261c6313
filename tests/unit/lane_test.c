/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane against an oracle: random packets through a ring, checked byte by byte; a full one; a
 * hostile one.
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

static uint32_t rnd(void)
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
	uint32_t len = rnd() % 3 == 0 ? rnd() % sizeof(s->bytes) : rnd() % (LANE_INLINE_MAX + 20);
	uint32_t cut = rnd() % (len + 1);

	if (!lane_tx_room(tx, max(len, (uint32_t)LANE_INLINE_MAX + 1)))
		return false;
	for (uint32_t i = 0; i < len; i++)
		s->bytes[i] = rnd();
	s->head = (struct lane_head){ .where = rnd() % 4 ? LANE_INLINE : LANE_PULL,
				      .flags = rnd(), .nseg = rnd(), .payload = rnd(),
				      .ack_psn = rnd(), .ack_aeth = rnd() };
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
	assert_int_equal(got.head.nseg, s->head.nseg);
	assert_int_equal(got.head.payload, s->head.payload);
	assert_int_equal(got.head.ack_psn, s->head.ack_psn);
	assert_int_equal(got.head.ack_aeth, s->head.ack_aeth);
	assert_non_null(data);
	assert_memory_equal(data, s->bytes, got.head.len);
	lane_rx_done(rx, &got.head);
}

static void random_packets_arrive_whole_and_in_order(void **state)
{
	static struct sent sent[LANE_SLOTS];
	struct lane *lane = zero_lane();
	struct lane_tx tx;
	struct lane_rx rx;
	uint32_t put = 0, got = 0;

	lane_tx_init(&tx, lane);
	lane_rx_init(&rx, lane);
	while (got < 20000) {
		for (uint32_t n = rnd() % 40; n > 0 && put_random(&tx, &sent[put % LANE_SLOTS]);
		     n--)
			put++;
		for (uint32_t n = rnd() % 40; n > 0 && got < put; n--, got++)
			get_and_compare(&rx, &sent[got % LANE_SLOTS]);
	}
	free(lane);
}

static void a_full_lane_says_so(void **state)
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
	lane_rx_done(&rx, &slot.head);
	assert_true(lane_tx_room(&tx, LANE_INLINE_MAX));
	assert_false(lane_tx_room(&tx, LANE_BYTES));
	free(lane);
}

/* Whatever a hostile peer writes, no index leaves the lane and no call runs on. */
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
			((uint32_t *)lane)[rnd() % (offsetof(struct lane, bytes) / 4)] = rnd();
		lane->slot[rx.next % LANE_SLOTS].head.where = rnd() % 4;
		lane->slot[rx.next % LANE_SLOTS].head.len = rnd() % 2 ? rnd() % 9000 : rnd();
		lane->slot[rx.next % LANE_SLOTS].head.seq = rx.next + 1;
		assert_true(lane_rx_get(&rx, &copy, &data));
		if (data != NULL && copy.head.where != LANE_INLINE) {
			assert_true(data >= lane->bytes);
			assert_true(data + copy.head.len <= lane->bytes + LANE_BYTES);
		}
		lane_rx_done(&rx, &copy.head);
		lane->tail = rnd();
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
		cmocka_unit_test(a_full_lane_says_so),
		cmocka_unit_test(garbage_stays_inside),
	};
	const char *env = getenv("VERBENA_SEED");

	seed = env ? strtoull(env, NULL, 0) : 20261121;
	printf("VERBENA_SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
