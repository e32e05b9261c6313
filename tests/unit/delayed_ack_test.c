/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of what a QP sees: a letter each, and whether its program is believed to answer afterwards.
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
	 * a: asked and answered in time; l: answered too late; p: posted unasked; s: the ACK left
	 * alone soon; w: it waited in vain
	 */
	const char *events;
	bool believed;
} rows[] = {
	{ "nothing is believed at first", "", false },
	{ "a habit has to show", "aaaaaaa", false },
	{ "and then is one", "aaaaaaaa", true },
	{ "it stays one", "aaaaaaaaaaaaaaaaaaaaaaaa", true },
	{ "posting unasked is no answer", "pppppppppppp", false },
	{ "nor does it harm", "aaaapppaaaa", true },
	{ "one answer too late ends it", "aaaaaaaaaaaal", false },
	{ "and it has to show again", "aaaaaaaaaaaalaaaaaaa", false },
	{ "as at first", "aaaaaaaaaaaalaaaaaaaa", true },
	{ "so does an ACK that waited in vain", "aaaaaaaaaaaaw", false },
	{ "one that a poller sent soon does not", "aaaaaaaaaaaas", true },
	{ "who never answers is never believed", "wwwwwwwwwwwwwwwwwwww", false },
	{ "nor who answers every other time", "awawawawawawawawawaw", false },
};

static void happen(struct roce_delayed_ack *h, char event, uint64_t *now)
{
	*now += 10 * VRB_USEC;
	if (event != 'p')
		roce_delayed_ack_requested(h, *now);
	switch (event) {
	case 'a':
		*now += TUNE_PINGPONG_REPLY_TIME;
		roce_delayed_ack_posted(h, *now);
		break;
	case 'l':
		*now += TUNE_PINGPONG_REPLY_TIME + 1;
		roce_delayed_ack_posted(h, *now);
		break;
	case 'p':
		roce_delayed_ack_posted(h, *now);
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

static void habits_show_and_end(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_delayed_ack h = { 0 };
		uint64_t now = 1;

		for (const char *e = rows[i].events; *e; e++)
			happen(&h, *e, &now);
		if (roce_delayed_ack_expects_reply(&h) != rows[i].believed)
			fail_msg("%s (%s)", rows[i].what, rows[i].events);
	}
}

static void an_ack_waits_for_a_poll_or_a_reply(void **state)
{
	static const struct {
		bool urgent, poller, expects_reply, waits;
	} table[] = {
		{ false, false, false, false }, { false, true, false, true },
		{ false, false, true, true },   { false, true, true, true },
		{ true, false, false, false },  { true, true, false, false },
		{ true, false, true, false },   { true, true, true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (roce_delayed_ack_may_wait(table[i].urgent, table[i].poller,
					      table[i].expects_reply) != table[i].waits)
			fail_msg("row %zu", i);
	assert_true(roce_delayed_ack_round(TUNE_ACK_DELAY_PACKETS));
	assert_false(roce_delayed_ack_round(TUNE_ACK_DELAY_PACKETS + 1));
	assert_false(roce_delayed_ack_polls_over(TUNE_ACK_DELAY_POLLS - 1));
	assert_true(roce_delayed_ack_polls_over(TUNE_ACK_DELAY_POLLS));
	assert_true(roce_delayed_ack_time(true) == TUNE_ACK_DELAY_MAX);
	assert_true(roce_delayed_ack_time(false) == TUNE_PINGPONG_REPLY_TIME);
}

static void few_small_requests_of_a_stream_coalesce(void **state)
{
	static const struct {
		uint32_t waiting, in_flight;
		uint64_t len;
		bool coalesces;
	} table[] = {
		{ 0, 8, 8, false },   { 1, 0, 8, false },          { 1, 1, 8, false },
		{ 1, 2, 8, true },    { 7, 2, 8, true },           { 8, 2, 8, false },
		{ 31, 64, 8, true },  { 32, 64, 8, false },        { 1, 2, 512, true },
		{ 1, 2, 513, false }, { 1, 2, 1ull << 32, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (roce_coalesces(table[i].waiting, table[i].in_flight, table[i].len) !=
		    table[i].coalesces)
			fail_msg("row %zu", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(habits_show_and_end),
		cmocka_unit_test(an_ack_waits_for_a_poll_or_a_reply),
		cmocka_unit_test(few_small_requests_of_a_stream_coalesce),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
