/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters (beyond release 64). */
#include <string.h>

#include "core/base/context.h"
#include "core/control/qp_modify.h"
#include "core/cq/comp_cntr.h"
#include "core/qp/qp.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "verbs/answer.h"

/* A caller of another release may know fewer members, or more: those are set to 0. */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size)
{
	struct ibv_comp_cntr_caps ours;
	int err = caps ? vrb_context_enter(&context) : EINVAL;

	if (err)
		return answer(err);
	vrb_cntr_caps(&ours);
	memset(caps, 0, caps_size);
	memcpy(caps, &ours, min(caps_size, sizeof(ours)));
	return 0;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr)
{
	struct vrb_cntr *c;
	int err = cc_attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_cntr_create(to_vrb_context(context), cc_attr, &c);
	return err ? answer_null(err) : &c->ibv;
}

static int check(const struct ibv_comp_cntr *c)
{
	return c ? vrb_context_check(c->context) : EINVAL;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr)
{
	int err = check(comp_cntr);

	return answer(err ? err : vrb_cntr_destroy(to_vrb_cntr(comp_cntr)));
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	int err = check(comp_cntr);

	if (!err)
		store_relaxed(&to_vrb_cntr(comp_cntr)->done, value);
	return answer(err);
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value)
{
	int err = check(comp_cntr);

	if (!err)
		store_relaxed(&to_vrb_cntr(comp_cntr)->failed, value);
	return answer(err);
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	int err = check(comp_cntr);

	if (!err)
		fetch_add_relaxed(&to_vrb_cntr(comp_cntr)->done, amount);
	return answer(err);
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount)
{
	int err = check(comp_cntr);

	if (!err)
		fetch_add_relaxed(&to_vrb_cntr(comp_cntr)->failed, amount);
	return answer(err);
}

int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
{
	int err = value ? check(comp_cntr) : EINVAL;

	if (!err)
		*value = load_acquire(
			&to_vrb_cntr(comp_cntr)->done); /* pairs with core/cq/comp_cntr.c */
	return answer(err);
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value)
{
	int err = value ? check(comp_cntr) : EINVAL;

	if (!err)
		*value = load_acquire(&to_vrb_cntr(comp_cntr)->failed);
	return answer(err);
}

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr)
{
	int err = qp && attr ? check(comp_cntr) : EINVAL;

	if (!err && attr->comp_mask)
		err = EOPNOTSUPP;
	return answer(err ? err :
			    vrb_qp_attach_cntr(to_vrb_qp(qp)->config.target, to_vrb_cntr(comp_cntr),
					    attr->op_mask));
}
