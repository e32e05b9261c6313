/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs that no device of this library supports (docs/VERBS.md lists them): each fails with
 * EOPNOTSUPP, and none calls through a NULL pointer.
 */
#include <errno.h>

#include "world.h"

static struct world w;

#define EXPECT_EOPNOTSUPP(call)                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK((call) == NULL);                                                             \
		CHECK_EQ(errno, EOPNOTSUPP);                                                       \
	} while (0)

static void test_flow_actions(void)
{
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_flow_action action = { .context = w.ctx };

	EXPECT_EOPNOTSUPP(ibv_create_flow_action_esp(w.ctx, &esp));
	CHECK_EQ(ibv_modify_flow_action_esp(&action, &esp), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_flow_action(&action), EOPNOTSUPP);
}

int main(void)
{
	world_open(&w);
	test_flow_actions();
	world_close(&w);
	return 0;
}
