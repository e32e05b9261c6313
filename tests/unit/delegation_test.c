/* SPDX-License-Identifier: BSD-2-Clause */
/* Delegated responders: which configurations from another process are accepted. */
#include "core/xrc/delegation.h"

#include "core/xrc/msg.h"
#include "roce/const.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct xrc_config good = {
	.mtu = 1024, .max_msg = 1 << 20, .state = IBV_QPS_RTS, .max_dest_rd_atomic = 16,
};

static void accepts_each_receiving_state(void **state)
{
	struct xrc_config c = good;

	for (unsigned int s = 0; s < 256; s++) {
		c.state = (uint8_t)s;
		assert_int_equal(vrb_delegation_config_ok(&c), wq_receives(s));
	}
}

static void accepts_standard_mtus(void **state)
{
	struct xrc_config c = good;

	for (uint32_t mtu = 0; mtu <= 2 * ROCE_MAX_MTU; mtu++) {
		bool standard = mtu == 256 || mtu == 512 || mtu == 1024 || mtu == 2048 ||
				mtu == 4096;

		c.mtu = mtu;
		assert_int_equal(vrb_delegation_config_ok(&c), standard);
	}
}

static void bounds_sizes(void **state)
{
	struct xrc_config c = good;

	c.max_msg = 0x80000000u;
	assert_true(vrb_delegation_config_ok(&c));
	c.max_msg++;
	assert_false(vrb_delegation_config_ok(&c));
	c = good;
	c.max_dest_rd_atomic = ROCE_MAX_RD_ATOMIC;
	assert_true(vrb_delegation_config_ok(&c));
	c.max_dest_rd_atomic++;
	assert_false(vrb_delegation_config_ok(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_each_receiving_state),
		cmocka_unit_test(accepts_standard_mtus),
		cmocka_unit_test(bounds_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
