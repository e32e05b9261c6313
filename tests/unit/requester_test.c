/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce_env.h"

#include <stdlib.h>
#include <string.h>

static struct roce_env *pair(enum ibv_qp_type type)
{
	struct roce_env *e = calloc(2, sizeof(*e));

	env_init(&e[0], type);
	env_init(&e[1], type);
	env_connect(&e[0], &e[1]);
	memset(e[1].mem, 0, ENV_MEM);
	env_rts(&e[0]);
	env_rts(&e[1]);
	return e;
}

static void send_write_read_atomic_reach_the_other_end(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 255, 256, 257, 5000, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct roce_env *e = pair(IBV_QPT_RC);
		uint32_t len = lengths[i];

		env_post_recv(&e[1], 0, len);
		env_post(&e[0], IBV_WR_SEND, 100, len);
		env_pump(&e[0], &e[1]);
		env_expect_cqe(&e[0], 0, 0, IBV_WC_SUCCESS);
		env_expect_cqe(&e[1], 0, 1000, IBV_WC_SUCCESS);
		assert_int_equal(e[1].cqes[0].byte_len, len);
		assert_memory_equal(e[1].mem, e[0].mem + 100, len);

		env_post(&e[0], IBV_WR_RDMA_WRITE, 200, len);
		env_pump(&e[0], &e[1]);
		env_expect_cqe(&e[0], 1, 1, IBV_WC_SUCCESS);
		assert_memory_equal(e[1].mem, e[0].mem + 200, len);

		env_post(&e[0], IBV_WR_RDMA_READ, 3, len);
		env_pump(&e[0], &e[1]);
		env_expect_cqe(&e[0], 2, 2, IBV_WC_SUCCESS);
		assert_memory_equal(e[1].mem, e[0].mem + 3, len);

		env_post(&e[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8)->atomic.compare_add = 5;
		env_pump(&e[0], &e[1]);
		env_expect_cqe(&e[0], 3, 3, IBV_WC_SUCCESS);
		assert_int_equal(e[1].atomics, 1);
		assert_int_equal(roce_next_timeout(&e[0].qp), VRB_NEVER);
		free(e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_write_read_atomic_reach_the_other_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
