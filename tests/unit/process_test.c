/* SPDX-License-Identifier: BSD-2-Clause */
/* The process state is set up by its first user, torn down by its last one, and set up again. */
#include "core/process/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "place.h"

static char dir[64];

static int set_up(void **state)
{
	char port[8];

	place_make_dir(dir);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_LOG", "off", 0);
	return 0;
}

static int tear_down(void **state)
{
	place_remove_dir(dir);
	return 0;
}

static void is_up_while_it_has_users(void **state)
{
	for (int round = 0; round < 2; round++) {
		struct host *host;

		assert_null(vrb.host);
		assert_int_equal(vrb_process_get(), 0);
		host = vrb.host;
		assert_non_null(host);
		assert_non_null(vrb.timers);
		assert_non_null(vrb.progress);
		assert_int_equal(vrb_process_get(), 0);
		assert_ptr_equal(vrb.host, host);
		vrb_process_put();
		assert_ptr_equal(vrb.host, host);
		vrb_process_put();
		assert_null(vrb.host);
		assert_null(vrb.timers);
		assert_null(vrb.progress);
		assert_null(vrb.local);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_up_while_it_has_users),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
