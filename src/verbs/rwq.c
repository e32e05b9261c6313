/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues and their indirection tables. */
#include "core/control/wq.h"

#include "core/base/context.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_wq *create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	struct vrb_wq *wq;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_wq_create(to_vrb_context(context), attr, &wq);
	return err ? answer_null(err) : &wq->ibv;
}

struct ibv_wq *op_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	return TAP_POINTER(create_wq, context, attr);
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	int err = attr ? vrb_context_check(wq->context) : EINVAL;

	return answer(err ? err : vrb_wq_modify(to_vrb_wq(wq), attr));
}

int op_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	return TAP_ERRNO(modify_wq, wq, attr);
}

static int destroy_wq(struct ibv_wq *wq)
{
	int err = vrb_context_check(wq->context);

	return answer(err ? err : vrb_wq_destroy(to_vrb_wq(wq)));
}

int op_destroy_wq(struct ibv_wq *wq)
{
	return TAP_ERRNO(destroy_wq, wq);
}

static struct ibv_rwq_ind_table *create_rwq_ind_table(struct ibv_context *context,
						      struct ibv_rwq_ind_table_init_attr *attr)
{
	struct vrb_rwq_table *t;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_rwq_table_create(to_vrb_context(context), attr, &t);
	return err ? answer_null(err) : &t->ibv;
}

struct ibv_rwq_ind_table *op_create_rwq_ind_table(struct ibv_context *context,
						  struct ibv_rwq_ind_table_init_attr *attr)
{
	return TAP_POINTER(create_rwq_ind_table, context, attr);
}

static int destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	int err = vrb_context_check(table->context);

	return answer(err ? err : vrb_rwq_table_destroy(to_vrb_rwq_table(table)));
}

int op_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	return TAP_ERRNO(destroy_rwq_ind_table, table);
}
