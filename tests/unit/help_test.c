/* SPDX-License-Identifier: BSD-2-Clause */
/* Sharing a copy: whoever comes when, each piece has one taker; offers that are past, claims and offers that make no sense. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "local/help.h"
#include "random.h"

enum { LENGTH_MAX = 4 << 20, GRAIN = 4096, ROUNDS = 300 };

static struct lane *new_lane(void)
{
	return memset(aligned_alloc(CACHE_LINE, sizeof(struct lane)), 0, sizeof(struct lane));
}

static struct help_offer offer_of(const struct help *h)
{
	return (struct help_offer){ .id = h->id, .length = h->length, .piece = h->piece };
}

/* By whom each grain of a payload was taken; pieces begin at whole grains. */
static uint8_t taker[LENGTH_MAX / GRAIN + 1];

static void note(uint64_t at, uint64_t len, uint32_t length, uint8_t who)
{
	assert_int_equal(at % GRAIN, 0);
	assert_true(len > 0 && at + len <= length);
	assert_true(len % GRAIN == 0 || at + len == length);
	for (uint64_t i = at / GRAIN; i * GRAIN < at + len; i++) {
		assert_int_equal(taker[i], 0);
		taker[i] = who;
	}
}

static void want_all_taken(const struct help *h)
{
	for (uint64_t at = 0; at < h->length; at += GRAIN)
		assert_int_equal(taker[at / GRAIN], at < help_theirs(h) ? 1 : 2);
}

static void each_piece_has_one_taker(void **state)
{
	struct lane *lane = new_lane();
	struct help h;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t mine = 0, bias = random_below(4);
		struct help_offer o;
		uint64_t at, len;

		memset(taker, 0, sizeof(taker));
		help_open(&h, lane, HELP_MIN + random_below(LENGTH_MAX - HELP_MIN));
		o = offer_of(&h);
		for (;;) {
			if (random_below(4) < bias && help_claim(&lane->help, &o, mine, &at, &len)) {
				note(at, len, h.length, 2);
				help_report(&lane->help, &o, ++mine, false);
			}
			if (random_below(4) < bias)
				continue;
			if (!help_take(&h, &at, &len))
				break;
			note(at, len, h.length, 1);
		}
		want_all_taken(&h);
		assert_false(help_claim(&lane->help, &o, mine, &at, &len));
		assert_int_equal(help_await(&h, NULL, 0), HELP_DONE);
	}
	free(lane);
}

struct racer {
	struct lane *lane;
	struct help_offer offer;
	uint64_t bytes;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	uint32_t mine = 0;
	uint64_t at, len;

	while (help_claim(&r->lane->help, &r->offer, mine, &at, &len)) {
		note(at, len, r->offer.length, 2);
		r->bytes += len;
		help_report(&r->lane->help, &r->offer, ++mine, false);
	}
	return NULL;
}

static void two_threads(void **state)
{
	struct lane *lane = new_lane();
	struct help h;

	for (int round = 0; round < ROUNDS; round++) {
		struct racer r = { .lane = lane };
		uint64_t at, len;
		pthread_t t;

		memset(taker, 0, sizeof(taker));
		help_open(&h, lane, LENGTH_MAX - random_below(HELP_MIN));
		r.offer = offer_of(&h);
		assert_int_equal(pthread_create(&t, NULL, race, &r), 0);
		while (help_take(&h, &at, &len))
			note(at, len, h.length, 1);
		pthread_join(t, NULL);
		assert_int_equal(help_await(&h, NULL, 0), HELP_DONE);
		want_all_taken(&h);
		assert_int_equal(r.bytes, h.length - help_theirs(&h));
	}
	free(lane);
}

static void past_offers(void **state)
{
	struct lane *lane = new_lane();
	struct help_offer o;
	struct help h;
	uint64_t at, len;

	help_open(&h, lane, HELP_MIN);
	o = offer_of(&h);
	help_open(&h, lane, HELP_MIN);
	assert_false(help_claim(&lane->help, &o, 0, &at, &len));
	o = offer_of(&h);
	assert_true(help_claim(&lane->help, &o, 0, &at, &len));
	assert_false(help_claim(&lane->help, &o, 0, &at, &len));	/* of which it has one already */
	help_close(&h);
	assert_false(help_claim(&lane->help, &o, 1, &at, &len));
	assert_int_equal(help_theirs(&h), HELP_MIN - h.piece);
	free(lane);
}

static void failed_copies(void **state)
{
	struct lane *lane = new_lane();
	struct help_offer o;
	struct help h;
	uint64_t at, len;

	help_open(&h, lane, HELP_MIN);
	o = offer_of(&h);
	assert_true(help_claim(&lane->help, &o, 0, &at, &len));
	help_report(&lane->help, &o, 1, true);
	while (help_take(&h, &at, &len))
		;
	assert_int_equal(help_await(&h, NULL, 0), HELP_FAILED);
	assert_int_equal(help_theirs(&h), HELP_MIN - h.piece);
	free(lane);
}

/* Whatever the sender makes of the claim, the receiver takes each piece once, and all of those that it does not find claimed. */
static void rubbish_in_the_claim(void **state)
{
	struct lane *lane = new_lane();
	struct help h;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t steps = 0, when = random_below(8);
		uint64_t at, len;

		memset(taker, 0, sizeof(taker));
		help_open(&h, lane, HELP_MIN + random_below(LENGTH_MAX - HELP_MIN));
		for (; help_take(&h, &at, &len); steps++) {
			note(at, len, h.length, 1);
			if (steps == when && round % 2)
				lane->help.claim = (uint64_t)h.id << 32 | h.front << 16 | random_below(70);
			else if (steps == when)
				lane->help.claim = (uint64_t)random_below(UINT32_MAX) << 32 | random_below(UINT32_MAX);
			if (steps == when + 1)
				lane->help.claim = 0;
		}
		for (at = 0; at < help_theirs(&h); at += GRAIN)
			assert_int_equal(taker[at / GRAIN], 1);
		help_close(&h);
	}
	free(lane);
}

static void rubbish_offers(void **state)
{
	static const struct help_offer offers[] = {
		{ 1, .length = 1 << 20, .piece = 0 },
		{ 1, .length = 1 << 20, .piece = HELP_PIECE_MIN - 1 },
		{ 1, .length = UINT32_MAX, .piece = HELP_PIECE_MIN },
		{ 1, .length = 0, .piece = HELP_PIECE_MIN },
		{ 2, .length = 1 << 20, .piece = HELP_PIECE_MIN },
	};
	struct lane *lane = new_lane();
	struct help h;
	uint64_t at, len;

	help_open(&h, lane, 1 << 20);
	assert_int_equal(h.id, 1);
	for (size_t i = 0; i < ARRAY_SIZE(offers); i++)
		assert_false(help_claim(&lane->help, &offers[i], 0, &at, &len));
	free(lane);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_piece_has_one_taker), cmocka_unit_test(two_threads),
		cmocka_unit_test(past_offers),		    cmocka_unit_test(failed_copies),
		cmocka_unit_test(rubbish_in_the_claim),	    cmocka_unit_test(rubbish_offers),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
