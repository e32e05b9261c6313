/* SPDX-License-Identifier: BSD-2-Clause */
/* The attributes of new QPs before their objects are checked, and the granted sizes. */
#include "core/control/qp_init.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/context.h"
#include "core/base/limits.h"
#include "util/compiler.h"

static struct vrb_context ctx;

static int check(const struct ibv_qp_init_attr_ex *a)
{
	return qp_init_check(&ctx, a, qp_shape_of(a));
}

static void each_type_has_its_queues(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		bool sends, receives, shared;
	} rows[] = {
		{ IBV_QPT_RC, true, true, false },	  { IBV_QPT_UC, true, true, false },
		{ IBV_QPT_UD, true, true, false },	  { IBV_QPT_XRC_SEND, true, false, false },
		{ IBV_QPT_XRC_RECV, false, false, true }, { IBV_QPT_RAW_PACKET, true, true, false },
	};
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_DRIVER };

	assert_null(qp_shape_of(&a));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct qp_shape *s;

		a.qp_type = rows[i].type;
		s = qp_shape_of(&a);
		assert_non_null(s);
		assert_int_equal(s->sends, rows[i].sends);
		assert_int_equal(s->receives, rows[i].receives);
		assert_int_equal(s->shared, rows[i].shared);
	}
	/* a QP that distributes frames over work queues has no queue of its own */
	a.comp_mask = QP_INIT_RSS;
	assert_false(qp_shape_of(&a)->sends || qp_shape_of(&a)->receives);
}

static void refusals(void **state)
{
	static const struct {
		const char *what;
		struct ibv_qp_init_attr_ex a;
		int err;
	} rows[] = {
		{ "driver type", { .qp_type = IBV_QPT_DRIVER }, EOPNOTSUPP },
		{ "no type", { .qp_type = 99 }, EINVAL },
		{ "unknown bit", { .qp_type = IBV_QPT_RC, .comp_mask = 1u << 30 }, EOPNOTSUPP },
		{ "no PD", { .qp_type = IBV_QPT_RC }, EINVAL },
		{ "no XRC domain", { .qp_type = IBV_QPT_XRC_RECV }, EINVAL },
		{ "create flag of another type",
		  { .qp_type = IBV_QPT_RC,
		    .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
		    .create_flags = IBV_QP_CREATE_CVLAN_STRIPPING },
		  EOPNOTSUPP },
		{ "segmentation on RC",
		  { .qp_type = IBV_QPT_RC,
		    .comp_mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
		    .max_tso_header = 14 },
		  EOPNOTSUPP },
		{ "READ on UD",
		  { .qp_type = IBV_QPT_UD,
		    .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		    .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ },
		  EOPNOTSUPP },
		{ "a hash without a table",
		  { .qp_type = IBV_QPT_RAW_PACKET, .comp_mask = IBV_QP_INIT_ATTR_RX_HASH },
		  EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (check(&rows[i].a) != rows[i].err)
			fail_msg("%s: %d, not %d", rows[i].what, check(&rows[i].a), rows[i].err);
}

static struct ibv_qp_cap granted(enum ibv_qp_type type, struct ibv_qp_cap cap, bool srq)
{
	const struct ibv_qp_init_attr_ex a = { .qp_type = type };

	qp_init_grant(&cap, qp_shape_of(&a), srq);
	return cap;
}

static void grants_at_least_the_request(void **state)
{
	for (uint32_t n = 1; n <= 4096; n += 37) {
		const struct ibv_qp_cap want = { n, n, 1 + n % 30, 1 + n % 30, n % 512 };
		struct ibv_qp_cap got = granted(IBV_QPT_RC, want, false);

		assert_true(got.max_send_wr >= n && got.max_send_wr >= 16);
		assert_true(got.max_recv_wr >= n && got.max_recv_wr >= 16);
		assert_true(got.max_send_sge >= want.max_send_sge && got.max_send_sge >= 2);
		assert_true(got.max_recv_sge >= want.max_recv_sge);
		assert_true(got.max_inline_data >= want.max_inline_data);
		assert_true(got.max_inline_data >= got.max_send_sge * sizeof(struct ibv_sge));
	}
}

/* A program that leaves the sizes out can post, as on mlx4. */
static void grants_some_if_none_is_requested(void **state)
{
	struct ibv_qp_cap got = granted(IBV_QPT_RC, (struct ibv_qp_cap){ 0 }, false);

	assert_true(got.max_send_wr && got.max_send_sge && got.max_recv_wr && got.max_recv_sge);
}

static void grants_nothing_to_a_missing_queue(void **state)
{
	const struct ibv_qp_cap want = { 8, 8, 2, 2, 64 };
	struct ibv_qp_cap got = granted(IBV_QPT_XRC_RECV, want, false);

	assert_int_equal(got.max_send_wr | got.max_send_sge | got.max_inline_data, 0);
	assert_int_equal(got.max_recv_wr | got.max_recv_sge, 0);
	got = granted(IBV_QPT_RC, want, true);
	assert_int_equal(got.max_recv_wr | got.max_recv_sge, 0);
	assert_true(got.max_send_wr >= 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_has_its_queues),
		cmocka_unit_test(refusals),
		cmocka_unit_test(grants_at_least_the_request),
		cmocka_unit_test(grants_some_if_none_is_requested),
		cmocka_unit_test(grants_nothing_to_a_missing_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
