/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a deregistration costs beside other queue pairs, counted in queue pairs that it looks at:
 * nothing for those of other domains and for those that posted nothing since the last one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/progress/drain.h"
#include "core/qp/qp.h"
#include "place.h"

enum {
	IDLE = 2000,
	BUSY = 20,
	REGIONS = 50,
};

static struct ibv_context *ctx;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static uint8_t memory[64];

static struct ibv_qp *new_qp(struct ibv_pd *of)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(of, &init);

	assert_non_null(qp);
	return qp;
}

static void move(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	assert_int_equal(ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE), 0);
}

/* A QP that is its own peer, without receives. */
static struct ibv_qp *new_peer_of_itself(struct ibv_pd *of)
{
	struct ibv_qp *qp = new_qp(of);

	move(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1,
				       .qp_access_flags = IBV_ACCESS_REMOTE_WRITE },
	     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	move(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				       .dest_qp_num = qp->qp_num, .min_rnr_timer = 1,
				       .ah_attr = { .is_global = 1, .port_num = 1,
						    .grh = { .dgid = gid } } },
	     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	move(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
				       .rnr_retry = 7 },
	     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		     IBV_QP_MAX_QP_RD_ATOMIC);
	return qp;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *bad, wr = { .opcode = opcode, .send_flags = IBV_SEND_SIGNALED };

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

static void wait_for_success(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Queue pairs that so many deregistrations in `pd` look at. */
static uint64_t looks_of(unsigned int regions)
{
	uint64_t before = vrb_drain_looks;

	while (regions--) {
		struct ibv_mr *m = ibv_reg_mr(pd, memory, sizeof(memory), 0);

		assert_non_null(m);
		assert_int_equal(ibv_dereg_mr(m), 0);
	}
	return vrb_drain_looks - before;
}

static void idle_ones_cost_nothing(struct ibv_pd *of)
{
	static struct ibv_qp *qp[IDLE];

	for (int i = 0; i < IDLE; i++)
		qp[i] = new_qp(of);
	assert_int_equal(looks_of(REGIONS), 0);
	for (int i = 0; i < IDLE; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

static void idle_ones_of_this_domain(void **state)
{
	idle_ones_cost_nothing(pd);
}

static void idle_ones_of_another_domain(void **state)
{
	idle_ones_cost_nothing(other_pd);
}

static void those_that_posted_are_looked_at_once(void **state)
{
	struct ibv_qp *qp[BUSY];

	for (int i = 0; i < BUSY; i++)
		qp[i] = new_peer_of_itself(pd);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < BUSY; i++) {
			post(qp[i], IBV_WR_RDMA_WRITE);
			post(qp[i], IBV_WR_RDMA_WRITE);
			wait_for_success();
			wait_for_success();
		}
		assert_int_equal(looks_of(1), BUSY);
		assert_int_equal(looks_of(REGIONS), 0);
	}
	post(qp[0], IBV_WR_RDMA_WRITE);
	wait_for_success();
	for (int i = 0; i < BUSY; i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
	assert_int_equal(looks_of(1), 0);
}

/* Its SEND waits for a receive for ever. */
static void see_busy_one(struct ibv_pd *of, uint64_t looks)
{
	struct ibv_qp *qp = new_peer_of_itself(of);

	post(qp, IBV_WR_SEND);
	assert_int_equal(looks_of(REGIONS), looks);
	move(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_busy_one_is_looked_at_each_time(void **state)
{
	see_busy_one(pd, REGIONS);
}

static void not_for_another_domain(void **state)
{
	see_busy_one(other_pd, 0);
}

static void a_parent_domain_has_the_list_of_its_parent(void **state)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &attr);

	assert_non_null(parent);
	see_busy_one(parent, REGIONS);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static char dir[64];

static int set_up(void **state)
{
	struct ibv_device **list;
	char port[8];
	int n = 0;

	place_make_dir(dir);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_LOG", "off", 0);
	list = ibv_get_device_list(&n);
	ctx = n ? ibv_open_device(list[n - 1]) : NULL;
	ibv_free_device_list(list);
	assert_non_null(ctx);
	assert_int_equal(ibv_query_gid(ctx, 1, 0, &gid), 0);
	pd = ibv_alloc_pd(ctx);
	other_pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 8, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	assert_true(pd && other_pd && cq && mr);
	return 0;
}

static int tear_down(void **state)
{
	int ret = ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) ||
		  ibv_dealloc_pd(other_pd) || ibv_close_device(ctx);

	place_remove_dir(dir);
	return ret;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_ones_of_this_domain),
		cmocka_unit_test(idle_ones_of_another_domain),
		cmocka_unit_test(those_that_posted_are_looked_at_once),
		cmocka_unit_test(a_busy_one_is_looked_at_each_time),
		cmocka_unit_test(not_for_another_domain),
		cmocka_unit_test(a_parent_domain_has_the_list_of_its_parent),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
