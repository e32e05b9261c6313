/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs that no device here supports: each says so by errno, and none calls through NULL.
 * docs/VERBS.md lists them. */
#include <errno.h>

#include "world.h"

static struct world w;
static struct ibv_qp *qp;
static struct ibv_cq *cq;

#define REFUSED_PTR(call)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK((call) == NULL);                                                             \
		CHECK_EQ(errno, EOPNOTSUPP);                                                       \
	} while (0)

static void test_flows(void)
{
	struct ibv_flow_attr flow = { .type = IBV_FLOW_ATTR_NORMAL,
				      .size = sizeof(flow),
				      .port = 1 };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_flow_action action = { .context = w.ctx };
	struct ibv_flow none = { .context = w.ctx };

	REFUSED_PTR(ibv_create_flow(qp, &flow));
	CHECK_EQ(ibv_destroy_flow(&none), EOPNOTSUPP);
	REFUSED_PTR(ibv_create_flow_action_esp(w.ctx, &esp));
	CHECK_EQ(ibv_modify_flow_action_esp(&action, &esp), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_flow_action(&action), EOPNOTSUPP);
}

static void test_counters(void)
{
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counters counters = { .context = w.ctx };
	struct ibv_counter_attach_attr attach = { 0 };
	uint64_t value[1];

	REFUSED_PTR(ibv_create_counters(w.ctx, &init));
	CHECK_EQ(ibv_attach_counters_point_flow(&counters, &attach, NULL), EOPNOTSUPP);
	CHECK_EQ(ibv_read_counters(&counters, value, 1, 0), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_counters(&counters), EOPNOTSUPP);
}

static void test_receive_work_queues(void)
{
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = w.pd, .cq = cq
	};
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_rwq_ind_table no_table = { .context = w.ctx };
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE };
	struct ibv_wq none = { .context = w.ctx };

	REFUSED_PTR(ibv_create_wq(w.ctx, &init));
	CHECK_EQ(ibv_modify_wq(&none, &attr), EOPNOTSUPP);
	CHECK_EQ(ibv_destroy_wq(&none), EOPNOTSUPP);
	REFUSED_PTR(ibv_create_rwq_ind_table(w.ctx, &table));
	CHECK_EQ(ibv_destroy_rwq_ind_table(&no_table), EOPNOTSUPP);
}

int main(void)
{
	world_open(&w);
	cq = world_cq(&w, 4);
	qp = world_qp(&w, IBV_QPT_RC, cq, NULL);

	test_flows();
	test_counters();
	test_receive_work_queues();

	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
