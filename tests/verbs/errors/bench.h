/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects for the rows of errors_test.c, and valid examples of each argument, which a row
 * changes.
 */
#ifndef TESTS_VERBS_ERRORS_BENCH_H
#define TESTS_VERBS_ERRORS_BENCH_H

#define VERBENA_LEGACY_XRC

#include <endian.h>
#include <errno.h>
#include <fcntl.h>

#include "../world.h"

/* Rows change single members of a valid example. */
#pragma GCC diagnostic ignored "-Woverride-init"

void bench_open(void);

/* Fails if a row left anything behind. */
void bench_close(void);

/* One object of each kind in a context. */
struct set {
	struct ibv_context *ctx;
	struct ibv_pd *pd, *parent;
	struct ibv_td *td;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;		/* on the channel, used by qp */
	struct ibv_srq *srq;
	struct ibv_qp *qp;		/* RC, in RESET */
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_dm *dm;
	struct ibv_xrcd *xrcd;		/* without a file */
};

/*
 * `near` is the context of most rows; `far` is another open one; `gone` was closed with all its
 * objects, which are never freed, by contract.
 */
extern struct set near, far, gone;

extern struct world w;
extern struct ibv_device_attr dev;
extern uint8_t memory[8192];
extern const uint8_t read_only[64];

/* Further objects in near.ctx. */
extern struct ibv_qp *q_init, *q_rtr, *q_rts, *q_ud, *q_srq, *q_xrc, *q_group, *q_no_reads;
extern struct ibv_qp_ex *x_init, *x_rts, *x_ud, *x_xrc;
extern struct ibv_pd *other_pd, *dead_pd;
extern struct ibv_mr *windowed, *other_mr, *dm_mr;
extern struct ibv_mw *bound, *mw_2;
extern struct ibv_ah *other_ah, *destroyed_ah;
extern struct ibv_cq *xrc_cq;
extern struct ibv_srq *xrc_srq;
extern struct ibv_qp *xrc_qp;
extern struct ibv_xrcd *file_domain;
extern int plain_fd, domain_fd;
extern uint32_t rcv_qpn;
extern union ibv_gid group;

#define XRC_DOMAIN   ((struct ibv_xrc_domain *)(void *)near.xrcd)
#define OTHER_DOMAIN ((struct ibv_xrc_domain *)(void *)file_domain)

/* Output arguments that are not read, and arguments without effect. */
extern struct ibv_port_attr port;
extern struct ibv_gid_entry gid_entry;
extern union ibv_gid gid;
extern __be16 pkey;
extern struct ibv_async_event event;
extern struct ibv_buf *buf;
extern struct ibv_wc wc, wc_grh;
extern struct ibv_cq *which;
extern void *context;
extern uint32_t number;
extern struct ibv_srq_attr srq_attr;
extern struct ibv_qp_attr attr;
extern struct ibv_qp_init_attr init_attr;
extern struct ibv_ah_attr ah_attr;
extern uint8_t mac[6];
extern struct ibv_send_wr *bad_send;
extern struct ibv_recv_wr *bad_recv;
extern struct ibv_sge sge, long_sge, huge_sge[9];
/* A NULL that the compiler cannot see through inline functions. */
extern void *volatile nothing;
extern const struct ibv_data_buf huge_data[2];
extern struct ibv_flow_attr flow_attr;	/* matches every frame */

/* ---- Valid examples, which a row changes ---- */

#define QP_ATTR(...)                                                                               \
	(&(struct ibv_qp_init_attr){ .send_cq = near.cq, .recv_cq = near.cq,                       \
				     .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 }, __VA_ARGS__ })
#define QP(...) ibv_create_qp(near.pd, QP_ATTR(__VA_ARGS__))
#define QP_EX(...)                                                                                 \
	ibv_create_qp_ex(near.ctx, &(struct ibv_qp_init_attr_ex){                                  \
		.send_cq = near.cq, .recv_cq = near.cq, .qp_type = IBV_QPT_RC,                     \
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = near.pd, __VA_ARGS__ })
#define SEND_OPS (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
#define CQ_EX(...)                                                                                 \
	ibv_create_cq_ex(near.ctx, &(struct ibv_cq_init_attr_ex){ __VA_ARGS__ })
#define SRQ_ATTR(...) (&(struct ibv_srq_init_attr){ .attr = { __VA_ARGS__ } })
#define SRQ_EX(...)                                                                                \
	ibv_create_srq_ex(near.ctx, &(struct ibv_srq_init_attr_ex){                                \
		.attr = { 1, 1, 0 }, .pd = near.pd,                                                \
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, __VA_ARGS__ })
#define XRC_SRQ                                                                                    \
	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |                  \
	 IBV_SRQ_INIT_ATTR_CQ)
#define MODIFY_SRQ(mask, ...)                                                                      \
	ibv_modify_srq(near.srq, &(struct ibv_srq_attr){ __VA_ARGS__ }, mask)
#define XRCD(...)                                                                                  \
	ibv_open_xrcd(near.ctx, &(struct ibv_xrcd_init_attr){                                      \
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, __VA_ARGS__ })
#define OPEN_MASK (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)
#define OPEN_QP(...)                                                                               \
	ibv_open_qp(near.ctx, &(struct ibv_qp_open_attr){                                          \
		.comp_mask = OPEN_MASK, .qp_num = xrc_qp->qp_num, .xrcd = near.xrcd,               \
		.qp_type = IBV_QPT_XRC_RECV, __VA_ARGS__ })
#define AH_ATTR(...)                                                                               \
	(&(struct ibv_ah_attr){                                                                    \
		.is_global = 1,                                                                    \
		.port_num = 1,                                                                     \
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 1 },               \
		__VA_ARGS__ })
#define AH(...) ibv_create_ah(near.pd, AH_ATTR(__VA_ARGS__))
#define DM(...) ibv_alloc_dm(near.ctx, &(struct ibv_alloc_dm_attr){ __VA_ARGS__ })
#define BIND(qp, mw, region, ...)                                                                  \
	ibv_bind_mw(qp, mw, &(struct ibv_mw_bind){                                                 \
		.bind_info = { .mr = region, .addr = (uintptr_t)memory, __VA_ARGS__ } })
#define RATE(qp, ...)                                                                              \
	ibv_modify_qp_rate_limit(qp, &(struct ibv_qp_rate_limit_attr){ __VA_ARGS__ })
#define REREG(mr, flags, pd) ibv_rereg_mr(mr, flags, pd, memory, sizeof(memory), 0)
#define SEND(qp, ...)                                                                              \
	try_send(qp, &(struct ibv_send_wr){ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,  \
					    __VA_ARGS__ })
#define RECV(qp, ...) try_recv(qp, &(struct ibv_recv_wr){ .sg_list = &sge, __VA_ARGS__ })
#define SRQ_RECV(srq, ...) try_srq(srq, &(struct ibv_recv_wr){ .sg_list = &sge, __VA_ARGS__ })
#define WQ(...)                                                                                    \
	ibv_create_wq(near.ctx, &(struct ibv_wq_init_attr){                                        \
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = near.pd, .cq = near.cq,    \
		__VA_ARGS__ })
#define BATCH(qp, ...)                                                                             \
	({                                                                                         \
		struct ibv_qp_ex *x = qp;                                                          \
		ibv_wr_start(x);                                                                   \
		x->wr_flags = 0;                                                                   \
		__VA_ARGS__;                                                                       \
		ibv_wr_complete(x);                                                                \
	})

/* ---- Calls that need more than one line ---- */

/* Creates an object in a domain, or destroys `old`. */
typedef void *pd_user_fn(struct ibv_pd *pd, void *old);
pd_user_fn make_mr, make_mw, make_ah, make_qp, make_srq, make_parent;

int list_without_count(void);
struct ibv_context *open_without_descriptors(void);
struct ibv_comp_channel *channel_without_descriptors(void);
int query_port_of_none(void);
int async_event_at_once(void);
int cq_event_at_once(void);
struct ibv_pd *parent_of(struct ibv_pd *pd, struct ibv_td *td, uint32_t comp_mask);
int dealloc_pd_with(pd_user_fn *user);
int dealloc_td_with_parent(void);
int move(struct ibv_qp *qp, enum ibv_qp_state next);
int modify_rcv_qp(enum ibv_qp_state next, int mask);
int try_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
int try_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr);
int try_srq(struct ibv_srq *srq, struct ibv_recv_wr *wr);
int overcrowded_group(void);
int tag_operation(struct ibv_srq *srq);

#endif
