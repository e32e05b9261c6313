/* SPDX-License-Identifier: BSD-2-Clause */
/* Which small requests wait for others: of RC, and in a stream of UC or UD. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "roce/coalesce.h"
#include "util/compiler.h"
#include "util/tuning.h"

static void few_small_requests_of_a_stream_coalesce(void **state)
{
	static const struct {
		uint32_t waiting, in_flight;
		uint64_t len;
		bool coalesces;
	} table[] = {
		{ 0, 8, 8, false },   { 1, 0, 8, false },          { 1, 1, 8, false },
		{ 1, 2, 8, true },    { 7, 2, 8, true },           { 8, 2, 8, false },
		{ 31, 64, 8, true },  { 32, 64, 8, false },        { 31, 64, 1024, true },
		{ 7, 4, 4096, true }, { 8, 4, 4096, false },       { 1, 2, 16384, true },
		{ 1, 2, 16385, false }, { 1, 2, 1ull << 32, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (roce_coalesces(table[i].waiting, table[i].in_flight, table[i].len) !=
		    table[i].coalesces)
			fail_msg("row %zu", i);
}

/* After requests that waited as long as they may, others do not wait for a while. */
static void what_waits_in_vain_stops_coalescing(void **state)
{
	struct roce_coalescing c = { .since = 5 };

	roce_coalescing_ends(&c, 5 + TUNE_ACK_DELAY_MAX - 1);
	assert_true(roce_coalescing_pays(&c));
	roce_coalescing_ends(&c, 5 + TUNE_ACK_DELAY_MAX);
	for (int i = 0; i < LIMIT_COALESCE_REST; i++)
		assert_false(roce_coalescing_pays(&c));
	assert_true(roce_coalescing_pays(&c));
}

static bool post_after(struct roce_stream *s, uint64_t pause, uint64_t *now)
{
	bool continues;

	*now += pause;
	continues = roce_stream_continues(s, 100, *now);
	*now += 1000;	/* the post itself does not count */
	roce_stream_posted(s, *now);
	return continues;
}

/* Nor does the time of what the packets of the last post waited for. */
static void posts_in_close_succession_are_a_stream(void **state)
{
	struct roce_stream s = { 0 };
	uint64_t now = VRB_SECOND;

	for (int i = 0; i < TUNE_STREAM_POSTS; i++)
		assert_false(post_after(&s, i ? 100 : 0, &now));
	assert_true(post_after(&s, 100, &now));
	assert_false(post_after(&s, 101, &now));	/* one pause does not end it */
	assert_true(post_after(&s, 100, &now));
	now += 500;
	roce_stream_posted(&s, now);
	roce_stream_posted(&s, now - 500);
	assert_true(post_after(&s, 100, &now));
	assert_false(post_after(&s, 101, &now));
	assert_false(post_after(&s, 101, &now));	/* two do */
	for (int i = 0; i < TUNE_STREAM_POSTS - 1; i++)
		assert_false(post_after(&s, 0, &now));
	assert_true(post_after(&s, 0, &now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_small_requests_of_a_stream_coalesce),
		cmocka_unit_test(what_waits_in_vain_stops_coalescing),
		cmocka_unit_test(posts_in_close_succession_are_a_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
