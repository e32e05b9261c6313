/* SPDX-License-Identifier: BSD-2-Clause */
/* Alignment of clocks whose true differences are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/align.h"
#include "unit/random.h"

static void two_clocks(void **state)
{
	struct align out[2];
	int64_t most[4];

	align_init(most, 2);
	align_message(most, 2, 0, 1, 100, 100 + 5000 + 30); /* clock 1 is 5000 ahead */
	align_message(most, 2, 0, 1, 200, 200 + 5000 + 20);
	align_message(most, 2, 1, 0, 300 + 5000, 300 + 10);
	align_message(most, 2, 1, 0, 400 + 5000, 400 + 90);
	assert_true(align_solve(most, 2, out));
	assert_int_equal(out[0].ahead, 0);
	assert_int_equal(out[1].least, 4990);
	assert_int_equal(out[1].most, 5020);
	assert_int_equal(out[1].ahead, 5005);
}

static void one_way_only(void **state)
{
	struct align out[3];
	int64_t most[9];

	align_init(most, 3);
	align_message(most, 3, 0, 1, 100, 130);
	align_message(most, 3, 2, 0, 100, 60);
	assert_true(align_solve(most, 3, out));
	assert_int_equal(out[1].least, INT64_MIN);
	assert_int_equal(out[1].most, 30);
	assert_int_equal(out[1].ahead, 30);
	assert_int_equal(out[2].least, 40);
	assert_int_equal(out[2].most, ALIGN_NONE);
	assert_int_equal(out[2].ahead, 40);
}

static void no_messages(void **state)
{
	struct align out[3];
	int64_t most[9];

	align_init(most, 3);
	align_same(most, 3, 0, 2);
	assert_true(align_solve(most, 3, out));
	assert_int_equal(out[1].least, INT64_MIN);
	assert_int_equal(out[1].most, ALIGN_NONE);
	assert_int_equal(out[1].ahead, 0);
	assert_int_equal(out[2].least, 0);
	assert_int_equal(out[2].most, 0);
}

static void contradictions(void **state)
{
	struct align out[3];
	int64_t most[9];

	align_init(most, 2);
	align_message(most, 2, 0, 1, 100, 90);
	align_message(most, 2, 1, 0, 100, 109);
	assert_false(align_solve(most, 2, out));

	align_init(most, 2);
	align_same(most, 2, 0, 1);
	align_message(most, 2, 1, 0, 100, 99);
	assert_false(align_solve(most, 2, out));

	/* forged times must not overflow */
	align_init(most, 3);
	align_message(most, 3, 0, 1, 0, INT64_MAX - 1);
	align_message(most, 3, 1, 2, 0, INT64_MAX - 1);
	assert_false(align_solve(most, 3, out));
	align_init(most, 2);
	align_message(most, 2, 1, 0, 1ull << 63, 0);
	assert_false(align_solve(most, 2, out));
}

/*
 * Random clocks and messages, some pairs without messages, some with messages in one direction: the
 * bounds contain the true differences, and with the chosen offsets each message arrives after it
 * was sent.
 */
static void many_clocks(void **state)
{
	enum { MAX = 8, MESSAGES = 60 };

	random_start();
	for (int round = 0; round < 500; round++) {
		size_t n = 2 + random_below(MAX - 1);
		struct {
			size_t from, to;
			uint64_t sent, received;
		} sent[MESSAGES];
		int64_t clock[MAX], most[MAX * MAX];
		struct align out[MAX];
		size_t count = random_below(MESSAGES);

		for (size_t i = 0; i < n; i++)
			clock[i] = (int64_t)random_below(1ull << 50);
		align_init(most, n);
		for (size_t i = 0; i < count; i++) {
			uint64_t now = (1ull << 51) + i * 1000;

			sent[i].from = random_below(n);
			sent[i].to = random_below(n);
			sent[i].sent = now + (uint64_t)clock[sent[i].from];
			sent[i].received = now + (uint64_t)clock[sent[i].to] + random_below(5000);
			align_message(most, n, sent[i].from, sent[i].to, sent[i].sent,
				      sent[i].received);
		}
		assert_true(align_solve(most, n, out));
		for (size_t i = 0; i < n; i++)
			assert_true(clock[i] - clock[0] >= out[i].least &&
				    clock[i] - clock[0] <= out[i].most);
		for (size_t i = 0; i < count; i++) {
			const struct align *a = &out[sent[i].from], *b = &out[sent[i].to];

			if ((a->least == INT64_MIN && a->most == ALIGN_NONE) ||
			    (b->least == INT64_MIN && b->most == ALIGN_NONE))
				continue;
			assert_true((int64_t)sent[i].received - b->ahead >=
				    (int64_t)sent[i].sent - a->ahead);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_clocks),  cmocka_unit_test(one_way_only),
		cmocka_unit_test(no_messages), cmocka_unit_test(contradictions),
		cmocka_unit_test(many_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
