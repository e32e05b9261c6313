/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Delayed ACKs: sequences of events of a QP, one letter each, and whether its program is then
 * expected to reply.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/delayed_ack.h"
#include "util/compiler.h"
#include "util/tuning.h"

static const struct row {
	const char *what;
	/*
	 * a: ACK requested, reply in time; l: reply too late; p: post without a request; s: the ACK
	 * was sent alone soon; w: it was delayed without a reply
	 */
	const char *events;
	bool believed;
} rows[] = {
	{ "no reply is expected at first", "", false },
	{ "seven replies are not enough", "aaaaaaa", false },
	{ "eight are", "aaaaaaaa", true },
	{ "more replies change nothing", "aaaaaaaaaaaaaaaaaaaaaaaa", true },
	{ "a post without a request is no reply", "pppppppppppp", false },
	{ "nor does it reset the count", "aaaapppaaaa", true },
	{ "one late reply resets it", "aaaaaaaaaaaal", false },
	{ "then seven are not enough again", "aaaaaaaaaaaalaaaaaaa", false },
	{ "eight are enough again", "aaaaaaaaaaaalaaaaaaaa", true },
	{ "so does an ACK delayed without a reply", "aaaaaaaaaaaaw", false },
	{ "an ACK sent soon by a poller does not", "aaaaaaaaaaaas", true },
	{ "a program that never replies", "wwwwwwwwwwwwwwwwwwww", false },
	{ "a program that replies every other time", "awawawawawawawawawaw", false },
};

static void one_event(struct roce_delayed_ack *h, char event, uint64_t *now)
{
	*now += 10 * VRB_USEC;
	if (event != 'p')
		roce_delayed_ack_requested(h, *now);
	switch (event) {
	case 'a':
		*now += TUNE_PINGPONG_REPLY_TIME;
		roce_delayed_ack_posted(h, false, *now);
		break;
	case 'l':
		*now += TUNE_PINGPONG_REPLY_TIME + 1;
		roce_delayed_ack_posted(h, false, *now);
		break;
	case 'p':
		roce_delayed_ack_posted(h, false, *now);
		break;
	case 's':
		*now += TUNE_PINGPONG_REPLY_TIME - 1;
		roce_delayed_ack_alone(h, *now);
		break;
	case 'w':
		*now += TUNE_PINGPONG_REPLY_TIME;
		roce_delayed_ack_alone(h, *now);
		break;
	}
}

static void replies_are_expected_and_forgotten(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_delayed_ack h = { 0 };
		uint64_t now = 1;

		for (const char *e = rows[i].events; *e; e++)
			one_event(&h, *e, &now);
		if (roce_delayed_ack_expects_reply(&h) != rows[i].believed)
			fail_msg("%s (%s)", rows[i].what, rows[i].events);
	}
}

static void an_ack_waits_for_a_poll_or_a_reply(void **state)
{
	enum { FEW = TUNE_ACK_DELAY_PACKETS, MANY };
	static const struct {
		uint32_t packets;
		bool urgent, poller, expects_reply, take_turns, waits;
	} table[] = {
		{ FEW, false, false, false, false, false },
		{ FEW, false, true, false, false, true },
		{ FEW, false, false, true, false, true },
		{ FEW, false, true, true, false, true },
		{ FEW, true, false, false, false, false },
		{ FEW, true, true, false, false, false },
		{ FEW, true, false, true, false, false },
		{ FEW, true, true, true, true, false },
		{ MANY, false, true, true, false, false },
		{ MANY, false, false, true, true, true },
		{ MANY, false, true, true, true, true },
		{ MANY, true, true, true, true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (roce_delayed_ack_may_wait(table[i].packets, table[i].urgent, table[i].poller,
					      table[i].expects_reply, table[i].take_turns) !=
		    table[i].waits)
			fail_msg("row %zu", i);
	assert_false(roce_delayed_ack_polls_over(TUNE_ACK_DELAY_POLLS - 1));
	assert_true(roce_delayed_ack_polls_over(TUNE_ACK_DELAY_POLLS));
	assert_true(roce_delayed_ack_time(true) == TUNE_ACK_DELAY_MAX);
	assert_true(roce_delayed_ack_time(false) == TUNE_PINGPONG_REPLY_TIME);
}

/* Returns in which posts of a reply the ACK stays behind, as a bit each. */
static uint32_t reply(struct roce_delayed_ack *d, unsigned int posts, bool write, uint64_t *now)
{
	uint32_t held = 0;

	*now += 10 * VRB_USEC;
	roce_delayed_ack_requested(d, *now);
	for (unsigned int i = 0; i < posts; i++) {
		*now += VRB_USEC;
		held |= roce_delayed_ack_posted(d, write, *now) << i;
	}
	return held;
}

/* Of a program that replies with as many WRITEs as before, and as usual. */
static void the_ack_leaves_with_the_last_post_of_a_reply(void **state)
{
	struct roce_delayed_ack d = { 0 };
	uint64_t now = 1;

	for (int i = 0; i < TUNE_PINGPONG_REPLIES - 1; i++)
		assert_int_equal(reply(&d, 3, true, &now), 0);
	assert_int_equal(reply(&d, 3, true, &now), 3);
	assert_int_equal(reply(&d, 3, false, &now), 0);
	assert_int_equal(reply(&d, 5, true, &now), 3);	/* two more follow the ACK */
	assert_int_equal(reply(&d, 5, true, &now), 0);
	assert_int_equal(reply(&d, 5, true, &now), 15);
	assert_int_equal(reply(&d, 4, true, &now), 15);	/* the next poll takes it */
	assert_int_equal(reply(&d, 1, true, &now), 0);
	assert_int_equal(reply(&d, 1, true, &now), 0);
	assert_int_equal(reply(&d, 1, true, &now), 0);
	assert_int_equal(reply(&d, 3, true, &now), 0);
	now += TUNE_PINGPONG_REPLY_TIME;
	assert_int_equal(reply(&d, 3, true, &now), 0);
	assert_int_equal(reply(&d, 3, true, &now), 3);
	roce_delayed_ack_requested(&d, now);
	now += TUNE_PINGPONG_REPLY_TIME + 1;
	assert_false(roce_delayed_ack_posted(&d, true, now));
	assert_int_equal(reply(&d, 3, true, &now), 0);
}

static void the_order_follows_from_the_replies(void **state)
{
	static const struct {
		uint8_t replies;
		bool in_turn;
		enum roce_ack_order order;
	} orders[] = {
		{ 0, false, ROCE_ACK_FIRST },
		{ TUNE_PINGPONG_REPLIES - 1, true, ROCE_ACK_FIRST },
		{ TUNE_PINGPONG_REPLIES, false, ROCE_ACK_BEHIND_WRITES },
		{ TUNE_PINGPONG_REPLIES, true, ROCE_ACK_BEHIND_REPLY },
	};

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct roce_delayed_ack d = { .replies = orders[i].replies };

		assert_int_equal(roce_delayed_ack_order(&d, orders[i].in_turn), orders[i].order);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_are_expected_and_forgotten),
		cmocka_unit_test(an_ack_waits_for_a_poll_or_a_reply),
		cmocka_unit_test(the_ack_leaves_with_the_last_post_of_a_reply),
		cmocka_unit_test(the_order_follows_from_the_replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
