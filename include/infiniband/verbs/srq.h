/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chapter of verbs.h: receive queues that are separate objects: shared receive queues, XRC domains,
 * work queues, and the indirection tables that distribute packets among them.
 */
#ifndef INFINIBAND_VERBS_SRQ_H
#define INFINIBAND_VERBS_SRQ_H

#include <infiniband/verbs/context.h>
#include <infiniband/verbs/cq.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Shared receive queues ---- */

struct ibv_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
#ifdef VERBENA_LEGACY_XRC
	uint32_t xrc_legacy_reserved32;
	void *xrc_legacy_reserved[3];
	/* valid in the result of ibv_create_xrc_srq() */
	uint32_t xrc_srq_num;
	struct ibv_xrc_domain *xrc_domain;
	struct ibv_cq *xrc_cq;
#endif
};

enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0,
	IBV_SRQ_LIMIT = 1 << 1,
};

struct ibv_srq_attr {
	uint32_t max_wr;    /* receives it can hold: 1 to max_srq_wr of the device */
	uint32_t max_sge;   /* scatter elements of each: 0 to max_srq_sge */
	uint32_t srq_limit; /* IBV_EVENT_SRQ_LIMIT_REACHED when fewer are left, once; 0: none */
};

struct ibv_srq_init_attr {
	void *srq_context;
	struct ibv_srq_attr attr; /* max_wr and max_sge: in: needed, out: actual */
};

/* Creates an SRQ and sets max_wr and max_sge to its sizes.  ibv_create_srq(3) */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/* Resizes (IBV_SRQ_MAX_WR), arms the limit (IBV_SRQ_LIMIT), or both.  ibv_modify_srq(3) */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/* Returns the SRQ's sizes and its limit.  ibv_query_srq(3) */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/*
 * Destroys an SRQ, after waiting until the program has acknowledged its events.  EBUSY: a QP uses
 * it.  ibv_create_srq(3)
 */
int ibv_destroy_srq(struct ibv_srq *srq);

/* Posts receives as ibv_post_recv() does.  ibv_post_srq_recv(3) */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/* ---- Shared receive queues of other types ---- */

enum ibv_srq_type {
	IBV_SRQT_BASIC,
	IBV_SRQT_XRC, /* peers address it by its number */
	IBV_SRQT_TM,  /* matches tags */
};

enum ibv_srq_init_attr_mask {
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
	IBV_SRQ_INIT_ATTR_PD = 1 << 1,
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
	IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
	IBV_SRQ_INIT_ATTR_TM = 1 << 4,
	IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
};

struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

/* Its first members are those of ibv_srq_init_attr. */
struct ibv_srq_init_attr_ex {
	void *srq_context;
	struct ibv_srq_attr attr;
	uint32_t comp_mask; /* enum ibv_srq_init_attr_mask */
	enum ibv_srq_type srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;	  /* IBV_SRQT_XRC */
	struct ibv_cq *cq;	  /* IBV_SRQT_XRC, IBV_SRQT_TM */
	struct ibv_tm_cap tm_cap; /* IBV_SRQT_TM */
};

/* Creates an SRQ of any type.  ibv_create_srq_ex(3) */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
						struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	const uint32_t mask = srq_init_attr_ex->comp_mask;
	const uint32_t plain = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	struct verbs_context *vctx;

	/* Every device has the plain call, so use it if it suffices. */
	if ((mask | IBV_SRQ_INIT_ATTR_TYPE) == plain &&
	    (!(mask & IBV_SRQ_INIT_ATTR_TYPE) || srq_init_attr_ex->srq_type == IBV_SRQT_BASIC))
		return ibv_create_srq(srq_init_attr_ex->pd,
				      (struct ibv_srq_init_attr *)(void *)srq_init_attr_ex);

	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_srq_ex(context, srq_init_attr_ex);
}

/* Returns the number by which XRC peers address the SRQ. ibv_get_srq_num(3) */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, get_srq_num);

	return vctx ? vctx->get_srq_num(srq, srq_num) : EOPNOTSUPP;
}

enum ibv_ops_wr_opcode {
	IBV_WR_TAG_ADD,	 /* add a buffer to the matching list */
	IBV_WR_TAG_DEL,	 /* remove it */
	IBV_WR_TAG_SYNC, /* only report unexpected_cnt */
};

enum ibv_ops_flags {
	IBV_OPS_SIGNALED = 1 << 0,
	IBV_OPS_TM_SYNC = 1 << 1, /* unexpected_cnt is valid */
};

struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	enum ibv_ops_wr_opcode opcode;
	int flags; /* enum ibv_ops_flags */
	struct {
		uint32_t unexpected_cnt; /* unexpected messages the program has taken so far */
		uint32_t handle;	 /* of the entry; out for ADD, in for DEL */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask; /* significant bits of tag */
		} add;
	} tm;
};

/*
 * Posts operations on the list of tagged buffers, in order.  On failure *bad_op is the first one
 * not posted.  ENOMEM: too many are outstanding.  ibv_post_srq_ops(3)
 */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
				   struct ibv_ops_wr **bad_op)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

	if (!vctx) {
		*bad_op = op;
		return EOPNOTSUPP;
	}
	return vctx->post_srq_ops(srq, op, bad_op);
}

/* ---- XRC domains: shared by processes, so that one connection reaches the SRQs of all ---- */

enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2,
};

struct ibv_xrcd_init_attr {
	uint32_t comp_mask; /* both bits are required */
	int fd;	    /* of the file whose inode names the domain; -1: a private domain */
	int oflags; /* O_CREAT, O_EXCL as for open(2) */
};

struct ibv_xrcd {
	struct ibv_context *context;
};

/* Opens a domain. ENOENT, EEXIST: according to oflags. ibv_open_xrcd(3) */
static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
					     struct ibv_xrcd_init_attr *xrcd_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_xrcd);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->open_xrcd(context, xrcd_init_attr);
}

/* Closes a domain, which exists until its last opener closes it.  ibv_open_xrcd(3) */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct verbs_context *vctx = verbs_get_ctx(xrcd->context);

	return vctx->close_xrcd(xrcd);
}

/* ---- Work queues: receive queues of raw packet QPs, selected by a hash ---- */

enum ibv_wq_type {
	IBV_WQT_RQ,
};

enum ibv_wq_init_attr_mask {
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
};

enum ibv_wq_flags {
	IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
	IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
	IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
	IBV_WQ_FLAGS_RESERVED = 1 << 4,
};

struct ibv_wq_init_attr {
	void *wq_context;
	enum ibv_wq_type wq_type;
	uint32_t max_wr;  /* in: needed, out: actual; as max_sge */
	uint32_t max_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t comp_mask;    /* enum ibv_wq_init_attr_mask */
	uint32_t create_flags; /* enum ibv_wq_flags */
};

enum ibv_wq_state {
	IBV_WQS_RESET,
	IBV_WQS_RDY,
	IBV_WQS_ERR,
	IBV_WQS_UNKNOWN,
};

enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3,
};

struct ibv_wq_attr {
	uint32_t attr_mask;	    /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state; /* the new state */
	enum ibv_wq_state curr_wq_state; /* the state that the program assumes */
	uint32_t flags;		    /* enum ibv_wq_flags */
	uint32_t flags_mask;	    /* the flags to change */
};

struct ibv_wq {
	struct ibv_context *context;
	void *wq_context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num;
	uint32_t handle;
	enum ibv_wq_state state;
	enum ibv_wq_type wq_type;
	int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
			 struct ibv_recv_wr **bad_recv_wr);
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};

/* Creates a work queue in state RESET.  ibv_create_wq(3) */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context,
					   struct ibv_wq_init_attr *wq_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
	struct ibv_wq *wq;

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	wq = vctx->create_wq(context, wq_init_attr);
	if (!wq)
		return NULL;
	wq->wq_context = wq_init_attr->wq_context;
	wq->events_completed = 0;
	pthread_mutex_init(&wq->mutex, NULL);
	pthread_cond_init(&wq->cond, NULL);
	return wq;
}

/* Changes the state or the flags of a work queue.  ibv_modify_wq(3) */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, modify_wq);

	return vctx ? vctx->modify_wq(wq, wq_attr) : EOPNOTSUPP;
}

/* Destroys a work queue.  EBUSY: an indirection table contains it.  ibv_create_wq(3) */
static inline int ibv_destroy_wq(struct ibv_wq *wq)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, destroy_wq);

	return vctx ? vctx->destroy_wq(wq) : EOPNOTSUPP;
}

/* Posts receives as ibv_post_recv() does.  ibv_post_wq_recv(3) */
static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
				   struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/* Maps the low bits of the hash of a packet to a work queue. */
struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

enum ibv_ind_table_init_attr_mask {
	IBV_CREATE_IND_TABLE_RESERVED = 1 << 0,
};

struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size; /* n: 2^n entries */
	struct ibv_wq **ind_tbl;   /* a queue may occur several times */
	uint32_t comp_mask;	   /* 0 */
};

/* Creates a table.  EINVAL: also if a queue is missing.  ibv_create_rwq_ind_table(3) */
static inline struct ibv_rwq_ind_table *
ibv_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_rwq_ind_table);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_rwq_ind_table(context, init_attr);
}

/* Destroys a table.  EBUSY: a QP uses it.  ibv_create_rwq_ind_table(3) */
static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
	struct verbs_context *vctx =
		verbs_get_ctx_op(rwq_ind_table->context, destroy_rwq_ind_table);

	return vctx ? vctx->destroy_rwq_ind_table(rwq_ind_table) : EOPNOTSUPP;
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
