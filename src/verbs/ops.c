/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operation tables of a context. They are initialised by position, with each member named in a
 * comment, so that a new slot in the header breaks the build here. For a NULL slot the inline
 * function returns EOPNOTSUPP; slots that it calls without a check have a function that refuses.
 */
#include "verbs/ops.h"

#include <errno.h>

#include "verbs/tap.h"

#pragma GCC diagnostic error "-Wmissing-field-initializers"

/* For old slots of ibv_context_ops that binaries no longer call. */
static void *refuse(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static const struct ibv_context_ops context_ops = {
	op_query_device,	/* _compat_query_device */
	op_query_port_old,	/* _compat_query_port */
	refuse,			/* _compat_alloc_pd */
	refuse,			/* _compat_dealloc_pd */
	refuse,			/* _compat_reg_mr */
	refuse,			/* _compat_rereg_mr */
	refuse,			/* _compat_dereg_mr */
	op_alloc_mw,		/* alloc_mw */
	op_bind_mw,		/* bind_mw */
	op_dealloc_mw,		/* dealloc_mw */
	refuse,			/* _compat_create_cq */
	op_poll_cq,		/* poll_cq */
	op_req_notify_cq,	/* req_notify_cq */
	refuse,			/* _compat_cq_event */
	refuse,			/* _compat_resize_cq */
	refuse,			/* _compat_destroy_cq */
	refuse,			/* _compat_create_srq */
	refuse,			/* _compat_modify_srq */
	refuse,			/* _compat_query_srq */
	refuse,			/* _compat_destroy_srq */
	op_post_srq_recv,	/* post_srq_recv */
	refuse,			/* _compat_create_qp */
	refuse,			/* _compat_query_qp */
	refuse,			/* _compat_modify_qp */
	refuse,			/* _compat_destroy_qp */
	op_post_send,		/* post_send */
	op_post_recv,		/* post_recv */
	refuse,			/* _compat_create_ah */
	refuse,			/* _compat_destroy_ah */
	refuse,			/* _compat_attach_mcast */
	refuse,			/* _compat_detach_mcast */
	refuse,			/* _compat_async_event */
};

static const struct verbs_context extended_ops = {
	/* The calls of later releases are exported functions and need no slots. */
	NULL,			/* free_buf */
	NULL,			/* alloc_buf */
	NULL,			/* dm_export_dmabuf_fd */
	NULL,			/* reg_mr_ex */
	NULL,			/* dealloc_dmah */
	NULL,			/* alloc_dmah */
	op_query_port,		/* query_port */
	op_advise_mr,		/* advise_mr */
	op_alloc_null_mr,	/* alloc_null_mr */
	op_read_counters,	/* read_counters */
	op_attach_counters_point_flow,	/* attach_counters_point_flow */
	op_create_counters,	/* create_counters */
	op_destroy_counters,	/* destroy_counters */
	op_reg_dm_mr,		/* reg_dm_mr */
	op_alloc_dm,		/* alloc_dm */
	op_free_dm,		/* free_dm */
	NULL,			/* modify_flow_action_esp */
	NULL,			/* destroy_flow_action */
	NULL,			/* create_flow_action_esp */
	op_modify_qp_rate_limit,	/* modify_qp_rate_limit */
	op_alloc_parent_domain,	/* alloc_parent_domain */
	op_dealloc_td,		/* dealloc_td */
	op_alloc_td,		/* alloc_td */
	op_modify_cq,		/* modify_cq */
	op_post_srq_ops,	/* post_srq_ops */
	op_destroy_rwq_ind_table,	/* destroy_rwq_ind_table */
	op_create_rwq_ind_table,	/* create_rwq_ind_table */
	op_destroy_wq,		/* destroy_wq */
	op_modify_wq,		/* modify_wq */
	op_create_wq,		/* create_wq */
	op_query_rt_values,	/* query_rt_values */
	op_create_cq_ex,	/* create_cq_ex */
	NULL,			/* priv: unused */
	op_query_device_ex,	/* query_device_ex */
	op_destroy_flow,	/* ibv_destroy_flow */
	NULL,			/* ABI_placeholder2 */
	op_create_flow,		/* ibv_create_flow */
	NULL,			/* ABI_placeholder1 */
	op_open_qp,		/* open_qp */
	op_create_qp_ex,	/* create_qp_ex */
	op_get_srq_num,		/* get_srq_num */
	op_create_srq_ex,	/* create_srq_ex */
	op_open_xrcd,		/* open_xrcd */
	op_close_xrcd,		/* close_xrcd */
	0,			/* _ABI_placeholder3 */
	sizeof(struct verbs_context),
	{ 0 },			/* context */
};

void vrb_fill_ops(struct verbs_context *vctx)
{
	struct ibv_context context = vctx->context;

	*vctx = extended_ops;
	vctx->context = context;
	vctx->context.ops = context_ops;
	store_release(&vrb_tap_table, vrb_tap_ops);	/* pairs with tap_contexts() */
	if (tapped())
		vrb_tap_ops(vctx);
}
