/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Splitting a copy between two threads: in any order, each piece is taken once; expired and invalid
 * offers and claims.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "local/split_copy.h"

#include "util/tuning.h"
#include "random.h"

enum { LENGTH_MAX = 4 << 20, GRAIN = 4096, ROUNDS = 300 };

static struct lane *new_lane(void)
{
	return memset(aligned_alloc(CACHE_LINE, sizeof(struct lane)), 0, sizeof(struct lane));
}

static struct split_copy_offer offer_of(const struct split_copy *h)
{
	return (struct split_copy_offer){ .id = h->id, .length = h->length, .piece = h->piece };
}

/* Which side copied each grain of a payload; pieces begin at whole grains. */
static uint8_t copier_of[LENGTH_MAX / GRAIN + 1];

static void note(uint64_t at, uint64_t len, uint32_t length, uint8_t copier)
{
	assert_int_equal(at % GRAIN, 0);
	assert_true(len > 0 && at + len <= length);
	assert_true(len % GRAIN == 0 || at + len == length);
	for (uint64_t i = at / GRAIN; i * GRAIN < at + len; i++) {
		assert_int_equal(copier_of[i], 0);
		copier_of[i] = copier;
	}
}

static void expect_all_taken(const struct split_copy *h)
{
	for (uint64_t at = 0; at < h->length; at += GRAIN)
		assert_int_equal(copier_of[at / GRAIN], at < split_copy_sender_part(h) ? 1 : 2);
}

static void each_piece_has_one_taker(void **state)
{
	struct lane *lane = new_lane();
	struct split_copy h;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t mine = 0, bias = random_below(4);
		struct split_copy_offer o;
		uint64_t at, len;

		memset(copier_of, 0, sizeof(copier_of));
		split_copy_open(&h, lane,
				TUNE_SPLIT_COPY_MIN +
					random_below(LENGTH_MAX - TUNE_SPLIT_COPY_MIN));
		o = offer_of(&h);
		for (;;) {
			if (random_below(4) < bias &&
			    split_copy_claim(&lane->split_copy, &o, mine, &at, &len)) {
				note(at, len, h.length, 2);
				split_copy_report(&lane->split_copy, &o, ++mine, false);
			}
			if (random_below(4) < bias)
				continue;
			if (!split_copy_take(&h, &at, &len))
				break;
			note(at, len, h.length, 1);
		}
		expect_all_taken(&h);
		assert_false(split_copy_claim(&lane->split_copy, &o, mine, &at, &len));
		assert_int_equal(split_copy_await(&h, NULL, 0), SPLIT_COPY_DONE);
	}
	free(lane);
}

struct racer {
	struct lane *lane;
	struct split_copy_offer offer;
	uint64_t bytes;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	uint32_t mine = 0;
	uint64_t at, len;

	while (split_copy_claim(&r->lane->split_copy, &r->offer, mine, &at, &len)) {
		note(at, len, r->offer.length, 2);
		r->bytes += len;
		split_copy_report(&r->lane->split_copy, &r->offer, ++mine, false);
	}
	return NULL;
}

static void two_threads(void **state)
{
	struct lane *lane = new_lane();
	struct split_copy h;

	for (int round = 0; round < ROUNDS; round++) {
		struct racer r = { .lane = lane };
		uint64_t at, len;
		pthread_t t;

		memset(copier_of, 0, sizeof(copier_of));
		split_copy_open(&h, lane, LENGTH_MAX - random_below(TUNE_SPLIT_COPY_MIN));
		r.offer = offer_of(&h);
		assert_int_equal(pthread_create(&t, NULL, race, &r), 0);
		while (split_copy_take(&h, &at, &len))
			note(at, len, h.length, 1);
		pthread_join(t, NULL);
		assert_int_equal(split_copy_await(&h, NULL, 0), SPLIT_COPY_DONE);
		expect_all_taken(&h);
		assert_int_equal(r.bytes, h.length - split_copy_sender_part(&h));
	}
	free(lane);
}

static void past_offers(void **state)
{
	struct lane *lane = new_lane();
	struct split_copy_offer o;
	struct split_copy h;
	uint64_t at, len;

	split_copy_open(&h, lane, TUNE_SPLIT_COPY_MIN);
	o = offer_of(&h);
	split_copy_open(&h, lane, TUNE_SPLIT_COPY_MIN);
	assert_false(split_copy_claim(&lane->split_copy, &o, 0, &at, &len));
	o = offer_of(&h);
	assert_true(split_copy_claim(&lane->split_copy, &o, 0, &at, &len));
	/* which has one already */
	assert_false(split_copy_claim(&lane->split_copy, &o, 0, &at, &len));
	split_copy_close(&h);
	assert_false(split_copy_claim(&lane->split_copy, &o, 1, &at, &len));
	assert_int_equal(split_copy_sender_part(&h), TUNE_SPLIT_COPY_MIN - h.piece);
	free(lane);
}

static void failed_copies(void **state)
{
	struct lane *lane = new_lane();
	struct split_copy_offer o;
	struct split_copy h;
	uint64_t at, len;

	split_copy_open(&h, lane, TUNE_SPLIT_COPY_MIN);
	o = offer_of(&h);
	assert_true(split_copy_claim(&lane->split_copy, &o, 0, &at, &len));
	split_copy_report(&lane->split_copy, &o, 1, true);
	while (split_copy_take(&h, &at, &len))
		;
	assert_int_equal(split_copy_await(&h, NULL, 0), SPLIT_COPY_FAILED);
	assert_int_equal(split_copy_sender_part(&h), TUNE_SPLIT_COPY_MIN - h.piece);
	free(lane);
}

/*
 * Whatever the sender writes into the claim, the receiver takes each piece once, and all those that
 * are not claimed.
 */
static void invalid_claims(void **state)
{
	struct lane *lane = new_lane();
	struct split_copy h;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t steps = 0, when = random_below(8);
		uint64_t at, len;

		memset(copier_of, 0, sizeof(copier_of));
		split_copy_open(&h, lane,
				TUNE_SPLIT_COPY_MIN +
					random_below(LENGTH_MAX - TUNE_SPLIT_COPY_MIN));
		for (; split_copy_take(&h, &at, &len); steps++) {
			note(at, len, h.length, 1);
			if (steps == when && round % 2)
				lane->split_copy.claim =
					(uint64_t)h.id << 32 | h.front << 16 | random_below(70);
			else if (steps == when)
				lane->split_copy.claim = (uint64_t)random_below(UINT32_MAX) << 32 |
							 random_below(UINT32_MAX);
			if (steps == when + 1)
				lane->split_copy.claim = 0;
		}
		for (at = 0; at < split_copy_sender_part(&h); at += GRAIN)
			assert_int_equal(copier_of[at / GRAIN], 1);
		split_copy_close(&h);
	}
	free(lane);
}

static void invalid_offers(void **state)
{
	static const struct split_copy_offer offers[] = {
		{ 1, .length = 1 << 20, .piece = 0 },
		{ 1, .length = 1 << 20, .piece = TUNE_SPLIT_COPY_PIECE_MIN - 1 },
		{ 1, .length = UINT32_MAX, .piece = TUNE_SPLIT_COPY_PIECE_MIN },
		{ 1, .length = 0, .piece = TUNE_SPLIT_COPY_PIECE_MIN },
		{ 2, .length = 1 << 20, .piece = TUNE_SPLIT_COPY_PIECE_MIN },
	};
	struct lane *lane = new_lane();
	struct split_copy h;
	uint64_t at, len;

	split_copy_open(&h, lane, 1 << 20);
	assert_int_equal(h.id, 1);
	for (size_t i = 0; i < ARRAY_SIZE(offers); i++)
		assert_false(split_copy_claim(&lane->split_copy, &offers[i], 0, &at, &len));
	free(lane);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_piece_has_one_taker), cmocka_unit_test(two_threads),
		cmocka_unit_test(past_offers),		    cmocka_unit_test(failed_copies),
		cmocka_unit_test(invalid_claims),	    cmocka_unit_test(invalid_offers),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
