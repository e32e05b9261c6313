/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection, thread and parent domains. */
#include "core/mem/pd.h"

#include "core/base/context.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct vrb_pd *pd;
	int err = vrb_context_enter(&context);

	if (!err)
		err = vrb_pd_alloc(to_vrb_context(context), &pd);
	return err ? answer_null(err) : &pd->ibv;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return TAP_POINTER(alloc_pd, context);
}

static int dealloc_pd(struct ibv_pd *pd)
{
	int err = vrb_pd_check(pd);

	return answer(err ? err : vrb_pd_dealloc(to_vrb_pd(pd)));
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return TAP_ERRNO(dealloc_pd, pd);
}

static struct ibv_pd *import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct vrb_pd *pd;
	int err = vrb_context_enter(&context);

	if (!err)
		err = vrb_pd_import(to_vrb_context(context), pd_handle, &pd);
	return err ? answer_null(err) : &pd->ibv;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	return TAP_POINTER(import_pd, context, pd_handle);
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!vrb_object_check(pd))
		vrb_pd_unimport(to_vrb_pd(pd));
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *c,
					  struct ibv_parent_domain_init_attr *attr)
{
	struct vrb_pd *pd;
	int err = attr ? vrb_context_enter(&c) : EINVAL;

	if (!err)
		err = vrb_pd_alloc_parent(to_vrb_context(c), attr, &pd);
	return err ? answer_null(err) : &pd->ibv;
}

struct ibv_pd *op_alloc_parent_domain(struct ibv_context *c,
				      struct ibv_parent_domain_init_attr *attr)
{
	return TAP_POINTER(alloc_parent_domain, c, attr);
}

static struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr)
{
	struct vrb_td *td;
	int err = attr ? vrb_context_enter(&c) : EINVAL;

	if (!err && attr->comp_mask)
		err = EINVAL;
	if (!err)
		err = vrb_td_alloc(to_vrb_context(c), &td);
	return err ? answer_null(err) : &td->ibv;
}

struct ibv_td *op_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr)
{
	return TAP_POINTER(alloc_td, c, attr);
}

static int dealloc_td(struct ibv_td *td)
{
	int err = td ? vrb_context_check(td->context) : EINVAL;

	return answer(err ? err : vrb_td_dealloc((struct vrb_td *)td));
}

int op_dealloc_td(struct ibv_td *td)
{
	return TAP_ERRNO(dealloc_td, td);
}
