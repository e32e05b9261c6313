/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows and their counters. */
#include "core/raw/flow.h"

#include "core/base/context.h"
#include "core/qp/qp.h"
#include "core/raw/flow_counters.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_flow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct vrb_flow *flow;
	int err = attr ? vrb_context_check(qp->context) : EINVAL;

	if (!err)
		err = vrb_flow_create(to_vrb_qp(qp), attr, &flow);
	return err ? answer_null(err) : &flow->ibv;
}

struct ibv_flow *op_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	return TAP_POINTER(create_flow, qp, attr);
}

static int destroy_flow(struct ibv_flow *flow)
{
	int err = vrb_context_check(flow->context);

	if (!err)
		vrb_flow_destroy(to_vrb_flow(flow));
	return answer(err);
}

int op_destroy_flow(struct ibv_flow *flow)
{
	return TAP_ERRNO(destroy_flow, flow);
}

static struct ibv_counters *create_counters(struct ibv_context *context,
					    struct ibv_counters_init_attr *attr)
{
	struct vrb_flow_count *c;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_flow_count_create(to_vrb_context(context), attr, &c);
	return err ? answer_null(err) : &c->ibv;
}

struct ibv_counters *op_create_counters(struct ibv_context *context,
					struct ibv_counters_init_attr *attr)
{
	return TAP_POINTER(create_counters, context, attr);
}

static int destroy_counters(struct ibv_counters *counters)
{
	int err = vrb_context_check(counters->context);

	return answer(err ? err : vrb_flow_count_destroy(to_vrb_flow_count(counters)));
}

int op_destroy_counters(struct ibv_counters *counters)
{
	return TAP_ERRNO(destroy_counters, counters);
}

int op_attach_counters_point_flow(struct ibv_counters *counters,
				  struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
{
	int err = attr ? vrb_context_check(counters->context) : EINVAL;

	return answer(err ? err : vrb_flow_count_attach(to_vrb_flow_count(counters), attr, flow));
}

int op_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t n, uint32_t flags)
{
	int err = values ? vrb_context_check(counters->context) : EINVAL;

	return answer(err ? err
			  : vrb_flow_count_read(to_vrb_flow_count(counters), values, n, flags));
}
