/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters; comp_cntr.h documents the interface. */
#include "core/cq/comp_cntr.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "run/log.h"
#include "util/atomic.h"
#include "wq/wqe.h"

enum {
	MAX_COUNTERS = 65536,
};

static const uint32_t op_bits[VRB_CNTR_OPS] = {
	[VRB_CNTR_SEND] = IBV_QP_ATTACH_COMP_CNTR_OP_SEND,
	[VRB_CNTR_RECV] = IBV_QP_ATTACH_COMP_CNTR_OP_RECV,
	[VRB_CNTR_READ] = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ,
	[VRB_CNTR_WRITE] = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE,
};

uint32_t vrb_cntr_ops(void)
{
	uint32_t mask = 0;

	for (unsigned int i = 0; i < VRB_CNTR_OPS; i++)
		mask |= op_bits[i];
	return mask;
}

void vrb_cntr_caps(struct ibv_comp_cntr_caps *caps)
{
	*caps = (struct ibv_comp_cntr_caps){
		.max_value = UINT64_MAX,
		.max_counters = MAX_COUNTERS,
		.supported_qp_attach_ops = vrb_cntr_ops(),
	};
}

int vrb_cntr_create(struct vrb_context *ctx, const struct ibv_comp_cntr_init_attr *attr,
		    struct vrb_cntr **out)
{
	struct vrb_cntr *c;
	int err;

	if (attr->comp_mask || attr->flags)
		return EOPNOTSUPP;
	if (attr->type != IBV_COMP_CNTR_TYPE_WRS && attr->type != IBV_COMP_CNTR_TYPE_BYTES)
		return EINVAL;
	err = vrb_context_take(ctx, CTX_CNTR, MAX_COUNTERS);
	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c) {
		vrb_context_give(ctx, CTX_CNTR);
		return ENOMEM;
	}
	c->ctx = ctx;
	c->bytes = attr->type == IBV_COMP_CNTR_TYPE_BYTES;
	c->ibv.context = &ctx->vctx.context;
	*out = c;
	return 0;
}

int vrb_cntr_destroy(struct vrb_cntr *c)
{
	uint32_t users = load_acquire(&c->users);	/* pairs with vrb_cntr_release() */

	if (users)
		return vrb_in_use("ibv_destroy_comp_cntr", users, "operations of QPs");
	vrb_context_give(c->ctx, CTX_CNTR);
	free(c);
	return 0;
}

int vrb_cntr_attach(struct vrb_cntr *slots[], struct vrb_cntr *c, uint32_t op_mask)
{
	for (unsigned int i = 0; i < VRB_CNTR_OPS; i++) {
		if (!(op_mask & op_bits[i]) || !slots[i])
			continue;
		log_info(LOG_CORE, "ibv_qp_attach_comp_cntr: the QP counts operation 0x%x already",
			 op_bits[i]);
		return EBUSY;
	}
	for (unsigned int i = 0; i < VRB_CNTR_OPS; i++) {
		if (!(op_mask & op_bits[i]))
			continue;
		fetch_add_relaxed(&c->users, 1);
		slots[i] = c;
	}
	return 0;
}

void vrb_cntr_release(struct vrb_cntr *slots[])
{
	for (unsigned int i = 0; i < VRB_CNTR_OPS; i++) {
		if (slots[i])
			fetch_sub_release(&slots[i]->users, 1);
		slots[i] = NULL;
	}
}

/*
 * Release: a program that reads the count (acquire, verbs/comp_cntr.c) may read the data counted.
 */
static void add(struct vrb_cntr *c, uint32_t bytes, bool ok)
{
	if (!c)
		return;
	if (!ok)
		fetch_add_release(&c->failed, 1);
	else
		fetch_add_release(&c->done, c->bytes ? bytes : 1);
}

void vrb_cntr_sent(struct vrb_cntr *const slots[], const struct send_wqe *w, bool ok)
{
	switch (w->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		add(slots[VRB_CNTR_SEND], w->length, ok);
		break;
	case IBV_WR_RDMA_READ:
		add(slots[VRB_CNTR_READ], w->length, ok);
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		add(slots[VRB_CNTR_WRITE], w->length, ok);
		break;
	default:
		break;
	}
}

void vrb_cntr_received(struct vrb_cntr *const slots[], uint32_t bytes, bool ok)
{
	add(slots[VRB_CNTR_RECV], bytes, ok);
}
