/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device permits exactly as many objects as it reports: for each kind the last one can be
 * created, one more fails with ENOMEM, and after one is destroyed another can be created. The
 * counts are set close to the limits by hand, to avoid the memory of a million objects.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/context.h"
#include "left_out.h"

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[64];

static void *make_pd(void)
{
	return ibv_alloc_pd(ctx);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, memory, sizeof(memory), 0);
}

static void *make_null_mr(void)
{
	return ibv_alloc_null_mr(pd);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	assert_int_equal(ibv_query_gid(ctx, 1, 0, &attr.grh.dgid), 0);
	return ibv_create_ah(pd, &attr);
}

static void *make_cq(void)
{
	return ibv_create_cq(ctx, 1, NULL, NULL, 0);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };

	return ibv_create_qp(pd, &attr);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &attr);
}

#define DESTROY(name, call, type)                                                                  \
	static int name(void *object)                                                              \
	{                                                                                          \
		return call((type *)object);                                                       \
	}

DESTROY(drop_pd, ibv_dealloc_pd, struct ibv_pd)
DESTROY(drop_mr, ibv_dereg_mr, struct ibv_mr)
DESTROY(drop_mw, ibv_dealloc_mw, struct ibv_mw)
DESTROY(drop_ah, ibv_destroy_ah, struct ibv_ah)
DESTROY(drop_cq, ibv_destroy_cq, struct ibv_cq)
DESTROY(drop_qp, ibv_destroy_qp, struct ibv_qp)
DESTROY(drop_srq, ibv_destroy_srq, struct ibv_srq)

#define MAX(member) offsetof(struct ibv_device_attr, member)

static const struct {
	enum context_object kind;
	size_t max;	/* int in ibv_device_attr */
	void *(*make)(void);
	int (*drop)(void *object);
} rows[] = {
	{ CTX_PD, MAX(max_pd), make_pd, drop_pd },
	{ CTX_MR, MAX(max_mr), make_mr, drop_mr },
	{ CTX_MR, MAX(max_mr), make_null_mr, drop_mr },
	{ CTX_MW, MAX(max_mw), make_mw, drop_mw },
	{ CTX_AH, MAX(max_ah), make_ah, drop_ah },
	{ CTX_CQ, MAX(max_cq), make_cq, drop_cq },
	{ CTX_QP, MAX(max_qp), make_qp, drop_qp },
	{ CTX_SRQ, MAX(max_srq), make_srq, drop_srq },
};

static void every_limit_holds(void **state)
{
	struct ibv_device_attr dev;

	assert_int_equal(ibv_query_device(ctx, &dev), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int *count = &to_vrb_context(ctx)->n[rows[i].kind];
		int max = *(int *)(void *)((char *)&dev + rows[i].max);
		unsigned int before = *count;
		void *last;

		*count = (unsigned int)max - 1;
		last = rows[i].make();
		assert_non_null(last);
		errno = 0;
		assert_null(rows[i].make());
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(rows[i].drop(last), 0);
		last = rows[i].make();
		assert_non_null(last);
		assert_int_equal(rows[i].drop(last), 0);
		assert_int_equal(*count, max - 1);
		*count = before;
	}
}

static int open_device(void **state)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	assert_non_null(list);
	if (!n)
		LEAVE_OUT("no network interface");
	ctx = ibv_open_device(list[n - 1]);
	ibv_free_device_list(list);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	cq = pd ? ibv_create_cq(ctx, 4, NULL, NULL, 0) : NULL;
	return cq ? 0 : -1;
}

static int close_device(void **state)
{
	return ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(ctx) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_limit_holds),
	};

	return cmocka_run_group_tests(tests, open_device, close_device);
}
