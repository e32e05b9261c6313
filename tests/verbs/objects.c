/* SPDX-License-Identifier: BSD-2-Clause */
/* See objects.h. */
#include "objects.h"

static void make_queues(struct objects *o)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_srq_init_attr srq_attr = { .attr = { 8, 2, 0 } };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 2, 2, 16 } };

	o->channel = ibv_create_comp_channel(o->ctx);
	o->cq = ibv_create_cq(o->ctx, 8, NULL, o->channel, 0);
	o->cq_ex = ibv_create_cq_ex(o->ctx, &cq_attr);
	o->srq = ibv_create_srq(o->pd, &srq_attr);
	if (!o->cq)
		return;
	attr.send_cq = attr.recv_cq = o->cq;
	attr.srq = o->srq;
	o->qp = ibv_create_qp(o->pd, &attr);
	attr.qp_type = IBV_QPT_UD;
	attr.srq = NULL;
	o->ud = ibv_create_qp(o->pd, &attr);
	attr.qp_type = IBV_QPT_RAW_PACKET;
	o->raw = ibv_create_qp(o->pd, &attr);
}

static void make_memory(struct objects *o)
{
	static uint8_t memory[4096];
	struct ibv_alloc_dm_attr dm_attr = { .length = 4096 };
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr parent_attr = { .pd = o->pd };
	struct ibv_ah_attr ah_attr = { .is_global = 1, .port_num = 1 };

	o->td = ibv_alloc_td(o->ctx, &td_attr);
	parent_attr.td = o->td;
	o->parent = ibv_alloc_parent_domain(o->ctx, &parent_attr);
	o->mr = ibv_reg_mr(o->pd, memory, sizeof(memory), WORLD_ACCESS);
	o->null = ibv_alloc_null_mr(o->pd);
	o->mw = ibv_alloc_mw(o->pd, IBV_MW_TYPE_2);
	o->dm = ibv_alloc_dm(o->ctx, &dm_attr);
	if (o->dm)
		o->dm_mr = ibv_reg_dm_mr(o->pd, o->dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	if (!ibv_query_gid(o->ctx, 1, 0, &ah_attr.grh.dgid))
		o->ah = ibv_create_ah(o->pd, &ah_attr);
}

static void make_flows(struct objects *o)
{
	struct ibv_counters_init_attr counters_attr = { 0 };
	struct ibv_counter_attach_attr point = { .counter_desc = IBV_COUNTER_BYTES };
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_counter_action count;
	} __attribute__((packed, aligned(8))) rule = {
		{ .size = sizeof(rule), .num_of_specs = 1, .port = 1 },
		{ .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(rule.count) },
	};
	struct ibv_flow_attr all = { .type = IBV_FLOW_ATTR_SNIFFER,
				     .size = sizeof(all),
				     .port = 1 };

	o->counters = ibv_create_counters(o->ctx, &counters_attr);
	if (!o->raw || !o->counters)
		return;
	(void)ibv_attach_counters_point_flow(o->counters, &point, NULL);
	rule.count.counters = o->counters;
	o->flow = ibv_create_flow(o->raw, &rule.attr);
	o->sniffer = ibv_create_flow(o->raw, &all);
}

static void make_rss(struct objects *o)
{
	static uint8_t key[40];
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 1, .pd = o->pd, .cq = o->cq
	};
	struct ibv_rwq_ind_table_init_attr table_attr = { .ind_tbl = &o->wq };
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = o->pd,
		.rx_hash_conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(key), key, 0 },
	};

	o->wq = o->cq ? ibv_create_wq(o->ctx, &wq_attr) : NULL;
	o->table = o->wq ? ibv_create_rwq_ind_table(o->ctx, &table_attr) : NULL;
	attr.rwq_ind_tbl = o->table;
	o->rss = o->table ? ibv_create_qp_ex(o->ctx, &attr) : NULL;
}

void objects_make(struct objects *o)
{
	int n;

	o->list = ibv_get_device_list(&n);
	if (!o->list)
		return;
	o->ctx = ibv_open_device(o->list[n - 1]);
	if (!o->ctx)
		return;
	o->pd = ibv_alloc_pd(o->ctx);
	if (!o->pd)
		return;
	make_memory(o);
	make_queues(o);
	make_flows(o);
	make_rss(o);
}

#define DESTROY(fn, object)                                                                        \
	do {                                                                                       \
		if (object)                                                                        \
			CHECK_EQ(fn(object), 0);                                                   \
	} while (0)

static int destroy_cq_ex(struct ibv_cq_ex *cq)
{
	return ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

void objects_destroy(struct objects *o)
{
	DESTROY(ibv_destroy_flow, o->sniffer);
	DESTROY(ibv_destroy_flow, o->flow);
	DESTROY(ibv_destroy_counters, o->counters);
	DESTROY(ibv_destroy_qp, o->rss);
	DESTROY(ibv_destroy_rwq_ind_table, o->table);
	DESTROY(ibv_destroy_wq, o->wq);
	DESTROY(ibv_destroy_qp, o->raw);
	DESTROY(ibv_destroy_qp, o->ud);
	DESTROY(ibv_destroy_qp, o->qp);
	DESTROY(ibv_destroy_srq, o->srq);
	DESTROY(destroy_cq_ex, o->cq_ex);
	DESTROY(ibv_destroy_cq, o->cq);
	DESTROY(ibv_destroy_comp_channel, o->channel);
	DESTROY(ibv_destroy_ah, o->ah);
	DESTROY(ibv_dereg_mr, o->dm_mr);
	DESTROY(ibv_free_dm, o->dm);
	DESTROY(ibv_dealloc_mw, o->mw);
	DESTROY(ibv_dereg_mr, o->null);
	DESTROY(ibv_dereg_mr, o->mr);
	DESTROY(ibv_dealloc_pd, o->parent);
	DESTROY(ibv_dealloc_td, o->td);
	/* A failed creation must not have left a reference. */
	DESTROY(ibv_dealloc_pd, o->pd);
	DESTROY(ibv_close_device, o->ctx);
	ibv_free_device_list(o->list);
}
