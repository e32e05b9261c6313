/* SPDX-License-Identifier: BSD-2-Clause */
/* How often a poller looks for words: replies with ACKs, and looks that found words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/local/word_looks.h"
#include "util/compiler.h"

static uint64_t now = 1;

static unsigned int looks_of(struct word_looks *w, unsigned int polls, uint64_t apart)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < polls; i++) {
		now += apart;
		n += word_looks_due(w, now);
	}
	return n;
}

static void no_replies_each_poll_looks(void **state)
{
	struct word_looks w = { 0 };

	assert_int_equal(looks_of(&w, 1000, 1), 1000);
	word_looks_found(&w);
	assert_int_equal(looks_of(&w, 1000, 1), 1000);
}

static void replies_make_looks_rare(void **state)
{
	struct word_looks w = { 0 };

	for (int i = 0; i < 1000; i++) {
		word_looks_replied(&w);
		word_looks_found(&w);	/* the first ones are read before the replies */
	}
	looks_of(&w, 1, 1);
	assert_int_equal(looks_of(&w, 10 * TUNE_WORD_LOOK, LIMIT_WORD_STEADY - 1), 10);
}

static void no_looks_while_replies_come(void **state)
{
	struct word_looks w = { 0 };

	for (int i = 0; i < 1000; i++)
		word_looks_replied(&w);
	looks_of(&w, 1, 1);
	for (int i = 0; i < 1000; i++) {
		word_looks_replied(&w);
		assert_int_equal(looks_of(&w, TUNE_WORD_LOOK - 1, 1), 0);
	}
	assert_int_equal(looks_of(&w, 1, 1), 1);
}

static void a_program_that_seldom_polls_always_looks(void **state)
{
	struct word_looks w = { 0 };

	for (int i = 0; i < 1000; i++)
		word_looks_replied(&w);
	assert_int_equal(looks_of(&w, 1000, LIMIT_WORD_STEADY), 1000);
}

static void without_replies_each_poll_looks_again_soon(void **state)
{
	struct word_looks w = { 0 };
	unsigned int found = 0;

	for (int i = 0; i < 1000; i++)
		word_looks_replied(&w);
	looks_of(&w, 1, 1);
	for (; looks_of(&w, TUNE_WORD_LOOK, 1) == 1; found++)
		word_looks_found(&w);
	assert_in_range(found, 1, TUNE_WORD_REPLIES + 1);
	assert_int_equal(looks_of(&w, 1000, 1), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_replies_each_poll_looks),
		cmocka_unit_test(replies_make_looks_rare),
		cmocka_unit_test(no_looks_while_replies_come),
		cmocka_unit_test(a_program_that_seldom_polls_always_looks),
		cmocka_unit_test(without_replies_each_poll_looks_again_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
