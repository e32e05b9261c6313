/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations that the inline functions of verbs.h call through a context's tables; ops.c has
 * the tables, <noun>.c the functions.
 */
#ifndef VRB_VERBS_OPS_H
#define VRB_VERBS_OPS_H

#include <infiniband/verbs.h>

void vrb_fill_ops(struct verbs_context *vctx);

/* device.c */
int op_query_device(struct ibv_context *c, struct ibv_device_attr *attr);
int op_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size);
int op_query_rt_values(struct ibv_context *c, struct ibv_values_ex *values);

/* port.c */
int op_query_port_old(struct ibv_context *c, uint8_t port_num, struct _compat_ibv_port_attr *attr);
int op_query_port(struct ibv_context *c, uint8_t port_num, struct ibv_port_attr *attr, size_t len);

/* pd.c */
struct ibv_pd *op_alloc_parent_domain(struct ibv_context *c,
				      struct ibv_parent_domain_init_attr *attr);
struct ibv_td *op_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int op_dealloc_td(struct ibv_td *td);

/* mr.c */
int op_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sge, uint32_t num_sge);
struct ibv_mr *op_alloc_null_mr(struct ibv_pd *pd);

/* dm.c */
struct ibv_dm *op_alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *attr);
int op_free_dm(struct ibv_dm *dm);
struct ibv_mr *op_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned int access);

/* mw.c */
struct ibv_mw *op_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int op_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int op_dealloc_mw(struct ibv_mw *mw);

/* flow.c */
struct ibv_flow *op_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int op_destroy_flow(struct ibv_flow *flow);
struct ibv_counters *op_create_counters(struct ibv_context *c, struct ibv_counters_init_attr *attr);
int op_destroy_counters(struct ibv_counters *counters);
int op_attach_counters_point_flow(struct ibv_counters *counters,
				  struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
int op_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t n, uint32_t flags);

/* rwq.c */
struct ibv_wq *op_create_wq(struct ibv_context *c, struct ibv_wq_init_attr *attr);
int op_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int op_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *op_create_rwq_ind_table(struct ibv_context *c,
						  struct ibv_rwq_ind_table_init_attr *attr);
int op_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* cq.c, qp.c, srq.c, xrcd.c: data path and extended creation */
int op_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int op_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *op_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
int op_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int op_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int op_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *op_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
int op_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
struct ibv_qp *op_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr);
int op_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_srq *op_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int op_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
int op_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
struct ibv_xrcd *op_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
int op_close_xrcd(struct ibv_xrcd *xrcd);

#endif
