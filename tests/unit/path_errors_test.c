/* SPDX-License-Identifier: BSD-2-Clause */
/* The newest network error of an address, kept as long as it may matter. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/path_errors.h"

static struct path_errors t;

static struct net_addr host(uint8_t n)
{
	return (struct net_addr){ .raw = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = n } };
}

static int error_of(uint8_t n, uint64_t now)
{
	struct net_addr a = host(n);

	return path_errors_latest(&t, &a, now);
}

static void note(uint8_t n, int err, uint64_t now)
{
	struct net_addr a = host(n);

	path_errors_note(&t, &a, err, now);
}

static int start(void **state)
{
	path_errors_init(&t);
	return 0;
}

static void newest_by_address(void **state)
{
	assert_int_equal(error_of(1, 0), 0);
	note(1, EMSGSIZE, 5);
	note(2, ECONNREFUSED, 5);
	note(1, ENETUNREACH, 6);
	assert_int_equal(error_of(1, 7), ENETUNREACH);
	assert_int_equal(error_of(2, 7), ECONNREFUSED);
	assert_int_equal(error_of(3, 7), 0);
}

static void errors_expire(void **state)
{
	note(1, EMSGSIZE, 5);
	assert_int_equal(error_of(1, 4), EMSGSIZE);
	assert_int_equal(error_of(1, 4 + PATH_ERRORS_MAX_AGE), EMSGSIZE);
	assert_int_equal(error_of(1, 5 + PATH_ERRORS_MAX_AGE), 0);
}

static void the_oldest_is_replaced_first(void **state)
{
	for (uint8_t n = 1; n <= PATH_ERRORS + 1; n++)
		note(n, EMSGSIZE, n);
	assert_int_equal(error_of(1, 20), 0);
	for (uint8_t n = 2; n <= PATH_ERRORS + 1; n++)
		assert_int_equal(error_of(n, 20), EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(newest_by_address, start),
		cmocka_unit_test_setup(errors_expire, start),
		cmocka_unit_test_setup(the_oldest_is_replaced_first, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
