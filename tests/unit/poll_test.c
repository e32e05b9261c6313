/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_poll_cq returns completions that are in the CQ without polling the network; the test ensures
 * this by holding the poll lock.
 */
#include "core/fastpath/poll.h"

#include "core_env.h"

#include "core/cq/cq.h"
#include "core/progress/poll_loop.h"
#include "core/qp/qp.h"

enum { QPN = 100 };

static struct vrb_context *ctx;
static struct vrb_qp *qp;
static struct vrb_cq *cq;

static int set_up(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4 };

	ctx = core_env_open();
	qp = calloc(1, sizeof(*qp));
	assert_non_null(qp);
	qp->wq.qpn = QPN;
	assert_int_equal(vrb_cq_create(ctx, &attr, false, NULL, &cq), 0);
	lock_acquire(&vrb.poll_lock);
	return 0;
}

static int tear_down(void **state)
{
	lock_release(&vrb.poll_lock);
	assert_int_equal(vrb_cq_destroy(cq), 0);
	free(qp);
	core_env_close(ctx);
	return 0;
}

static void complete(uint64_t wr_id)
{
	const struct wq_cqe wc = { .wr_id = wr_id, .release = (uint32_t)wr_id };

	vrb_cq_add(cq, qp, &qp->wq.sq.released, QPN, &wc, 0);
}

static void returns_completions_in_order(void **state)
{
	struct ibv_wc wc[4];

	for (uint64_t i = 1; i <= 3; i++)
		complete(i);
	assert_int_equal(vrb_cq_poll(cq, 0, wc), 0);
	assert_int_equal(vrb_cq_poll(cq, -1, wc), 0);
	assert_int_equal(vrb_cq_poll(cq, 2, wc), 2);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[1].wr_id, 2);
	assert_int_equal(wc[1].qp_num, QPN);
	assert_int_equal(qp->wq.sq.released, 2);
	assert_int_equal(vrb_cq_poll(cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(vrb_cq_poll(cq, 4, wc), 0);
}

/*
 * Completions from before the overrun are still returned; after them, each poll returns the error.
 */
static void an_overrun_is_an_error_after_the_rest(void **state)
{
	struct ibv_wc wc[16];
	int n = cq->ibv.cqe;

	for (int i = 0; i <= n; i++)
		complete((uint64_t)i);
	assert_int_equal(vrb_cq_poll(cq, 16, wc), n);
	assert_int_equal(vrb_cq_poll(cq, 16, wc), -1);
	assert_int_equal(vrb_cq_poll(cq, 16, wc), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(returns_completions_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_overrun_is_an_error_after_the_rest, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
