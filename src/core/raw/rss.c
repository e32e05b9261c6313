/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/raw/rss.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "util/atomic.h"

enum { MAX_LOG_TABLE = 9 };

_Static_assert(1 << MAX_LOG_TABLE == VRB_MAX_RWQ_TABLE_SIZE, "what the device tells");

static int check_table(struct vrb_context *ctx, const struct ibv_rwq_ind_table_init_attr *a)
{
	if (a->comp_mask || a->log_ind_tbl_size > MAX_LOG_TABLE || !a->ind_tbl)
		return EINVAL;
	for (uint32_t i = 0; i < 1u << a->log_ind_tbl_size; i++) {
		if (!a->ind_tbl[i] || a->ind_tbl[i]->context != &ctx->vctx.context)
			return EINVAL;
	}
	return 0;
}

int vrb_rwq_table_create(struct vrb_context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
			 struct vrb_rwq_table **out)
{
	static uint32_t next_number;
	uint32_t n = 1u << (attr->log_ind_tbl_size & 31);
	struct vrb_rwq_table *t;
	int err = check_table(ctx, attr);

	if (!err)
		err = vrb_context_take(ctx, CTX_RWQ_TABLE, VRB_MAX_RWQ_TABLES);
	if (err)
		return err;
	t = calloc(1, sizeof(*t) + n * sizeof(t->wq[0]));
	if (!t) {
		vrb_context_give(ctx, CTX_RWQ_TABLE);
		return ENOMEM;
	}
	t->ctx = ctx;
	t->mask = n - 1;
	for (uint32_t i = 0; i < n; i++) {
		t->wq[i] = to_vrb_wq(attr->ind_tbl[i]);
		fetch_add_relaxed(&t->wq[i]->users, 1);
	}
	t->ibv.context = &ctx->vctx.context;
	t->ibv.ind_tbl_num = t->ibv.ind_tbl_handle = (int)fetch_add_relaxed(&next_number, 1);
	*out = t;
	return 0;
}

int vrb_rwq_table_destroy(struct vrb_rwq_table *t)
{
	uint32_t users = load_acquire(&t->users); /* pairs with vrb_rss_destroy() */

	if (users)
		return vrb_in_use("ibv_destroy_rwq_ind_table", users, "QPs");
	for (uint32_t i = 0; i <= t->mask; i++)
		fetch_sub_release(&t->wq[i]->users, 1);
	vrb_context_give(t->ctx, CTX_RWQ_TABLE);
	free(t);
	return 0;
}

/* An RSS QP has neither a send queue nor a receive queue. */
static int check_rss(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_qp_cap *cap = &a->cap;

	if (a->comp_mask & (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER))
		return EINVAL;
	if (!a->rwq_ind_tbl || a->rwq_ind_tbl->context != &ctx->vctx.context || a->srq)
		return EINVAL;
	return cap->max_send_wr || cap->max_recv_wr || cap->max_recv_sge ? EINVAL : 0;
}

int vrb_rss_create(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *attr,
		   struct vrb_rss **out)
{
	struct vrb_rss *rss;
	int err = check_rss(ctx, attr);

	if (err)
		return err;
	rss = calloc(1, sizeof(*rss));
	if (!rss)
		return ENOMEM;
	err = flow_hash_init(&rss->hash, &attr->rx_hash_conf);
	if (err) {
		free(rss);
		return err;
	}
	rss->table = to_vrb_rwq_table(attr->rwq_ind_tbl);
	fetch_add_relaxed(&rss->table->users, 1);
	*out = rss;
	return 0;
}

void vrb_rss_destroy(struct vrb_rss *rss)
{
	if (!rss)
		return;
	fetch_sub_release(&rss->table->users, 1);
	free(rss);
}
