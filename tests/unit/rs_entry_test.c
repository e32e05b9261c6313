/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of librspreload: what one stands for, how many do, and those without a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "rspreload/entry.h"
#include "rspreload/real.h"
#include "rspreload/stdio.h"

enum {
	SOCKET = 1000,	/* an rsocket */
	LAST = 65535,	/* number with a place */
};

static int closed = -1;

static int note_close(int number)
{
	closed = number;
	return 0;
}

/* In the place of real.c's. */
const struct real *real(void)
{
	static const struct real calls = { .socket = socket, .close = note_close };

	return &calls;
}

/* In the place of stdio.c's: no number here is that of a standard stream. */
void stdio_follow(int number)
{
	assert_true(number > STDERR_FILENO);
}

static void several_numbers_are_one_socket(void **state)
{
	int number = entry_make(ENTRY_SOCKET, SOCKET, false);
	struct entry *e = entry_find(number);

	assert_true(number >= 0 && e && entry_any());
	assert_int_equal(entry_fd(number), SOCKET);
	assert_int_equal(entry_share(e, LAST), LAST);
	assert_int_equal(entry_fd(LAST), SOCKET);
	assert_null(entry_drop(number));
	assert_ptr_equal(entry_drop(LAST), e);
	assert_false(entry_any());
	assert_int_equal(entry_fd(LAST), -1);
	free(e);
	close(number);
}

static void a_number_without_a_place_is_refused(void **state)
{
	static const int numbers[] = { LAST + 1, 2 * LAST, INT32_MAX };
	int number = entry_make(ENTRY_SOCKET, SOCKET, true);
	struct entry *e = entry_find(number);

	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		errno = 0;
		assert_int_equal(entry_share(e, numbers[i]), -1);
		assert_int_equal(errno, EMFILE);
		assert_int_equal(closed, numbers[i]);
		assert_null(entry_find(numbers[i]));
		assert_null(entry_adopt(numbers[i], 0));
	}
	assert_null(entry_find(-1));
	/* It still has one number. */
	assert_ptr_equal(entry_drop(number), e);
	free(e);
	close(number);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_numbers_are_one_socket),
		cmocka_unit_test(a_number_without_a_place_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
