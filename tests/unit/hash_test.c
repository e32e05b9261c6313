/* SPDX-License-Identifier: BSD-2-Clause */
/* FNV against the vectors that its authors publish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "util/hash.h"

static void test_vectors(void **state)
{
	assert_true(hash_bytes(HASH_START, "", 0) == HASH_START);
	assert_true(hash_bytes(HASH_START, "a", 1) == 0xaf63dc4c8601ec8cull);
	assert_true(hash_bytes(HASH_START, "foobar", 6) == 0x85944171f73967e8ull);
	assert_true(hash_bytes(hash_bytes(HASH_START, "foo", 3), "bar", 3) ==
		    0x85944171f73967e8ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
