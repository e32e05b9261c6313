/* SPDX-License-Identifier: BSD-2-Clause */
/* What posting and polling may call of run/ is no cancellation point, and leaves errno alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cancelled.h"
#include "run/config.h"
#include "run/netdev.h"

/* The first of all calls, so it also reads the environment. */
static void draw(void)
{
	config_random();
}

static void random_numbers(void **state)
{
	assert_true(survives_cancel(draw));
}

static void ask_for_addresses(void)
{
	static const struct net_addr own = { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
				     other = { { 0x20, 1, 0xd, 0xb8, [15] = 1 } };

	netdev_owns(&own, 0, NULL);
	netdev_owns(&other, 0, NULL);
}

static void own_addresses(void **state)
{
	assert_true(survives_cancel(ask_for_addresses));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_numbers),
		cmocka_unit_test(own_addresses),
	};

	unsetenv("VERBENA_SEED");
	setenv("VERBENA_UDP_PORT", "4791", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
