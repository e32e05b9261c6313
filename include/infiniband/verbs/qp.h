/* SPDX-License-Identifier: BSD-2-Clause */
/* Chapter of verbs.h: creation, states and attributes of queue pairs. */
#ifndef INFINIBAND_VERBS_QP_H
#define INFINIBAND_VERBS_QP_H

#include <infiniband/verbs/address.h>
#include <infiniband/verbs/context.h>
#include <infiniband/verbs/device.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum ibv_qp_type {
	IBV_QPT_RC = 2, /* reliable connection */
	IBV_QPT_UC,	/* unreliable connection */
	IBV_QPT_UD,	/* unreliable datagram */
#ifdef VERBENA_LEGACY_XRC
	IBV_QPT_XRC = 5, /* old name of the sending side */
#endif
	IBV_QPT_RAW_PACKET = 8,
	IBV_QPT_RAW_ETH = IBV_QPT_RAW_PACKET, /* its name before 2012 */
	IBV_QPT_XRC_SEND = 9,
	IBV_QPT_XRC_RECV,
	IBV_QPT_DRIVER = 0xff,
};

/* Does `caps`, a mask of QP types from the device capabilities, contain `qpt`? */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	return (int)(caps >> ((unsigned int)qpt & 31) & 1);
}

enum ibv_qp_state {
	IBV_QPS_RESET,
	IBV_QPS_INIT, /* receives may be posted */
	IBV_QPS_RTR,  /* ready to receive */
	IBV_QPS_RTS,  /* ready to send as well */
	IBV_QPS_SQD,  /* send queue draining or drained: no new sends begin */
	IBV_QPS_SQE,  /* a send failed (UD, UC): receives only */
	IBV_QPS_ERR,  /* all work requests are flushed */
	IBV_QPS_UNKNOWN,
};

/* Automatic path migration (IBTA volume 1, 17.2.8). */
enum ibv_mig_state {
	IBV_MIG_MIGRATED,
	IBV_MIG_REARM,
	IBV_MIG_ARMED,
};

struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;	 /* 24 bits */
	enum ibv_qp_state state; /* as last set or queried by the program */
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/* ---- Creation ---- */

/* In: what the program needs; out: the actual sizes, which may be larger. */
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr; /* ignored with an SRQ */
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data; /* bytes */
};

struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq; /* or NULL */
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* every send raises a completion, IBV_SEND_SIGNALED or not */
#ifdef VERBENA_LEGACY_XRC
	struct ibv_xrc_domain *xrc_domain; /* read only if qp_type is IBV_QPT_XRC */
#endif
};

/*
 * Creates a QP in state RESET and sets qp_init_attr->cap to its sizes.  EINVAL: also a size above
 * the device's limit.  ibv_create_qp(3)
 */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/*
 * Destroys a QP: removes its completions from its CQs, and waits until the program has acknowledged
 * its events.  Requests in progress first get time to complete, until the peer has been silent for
 * 0.2 s, 2 s in all; then they are lost.  EBUSY: it is attached to a multicast group, or has a flow
 * rule.  ibv_create_qp(3)
 */
int ibv_destroy_qp(struct ibv_qp *qp);

enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
};

enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1, /* does not receive its own multicast */
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10, /* sends with the number source_qpn */
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
};

/* The ibv_wr_* calls that a program will use on the QP. */
enum ibv_qp_create_send_ops_flags {
	IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
	IBV_QP_EX_WITH_SEND = 1 << 2,
	IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
	IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
	IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
	IBV_QP_EX_WITH_BIND_MW = 1 << 8,
	IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
	IBV_QP_EX_WITH_TSO = 1 << 10,
	IBV_QP_EX_WITH_FLUSH = 1 << 11,
	IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
};

struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;  /* bytes */
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

/* Its first members are those of ibv_qp_init_attr. */
struct ibv_qp_init_attr_ex {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask; /* enum ibv_qp_init_attr_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;	 /* IBV_QPT_XRC_RECV */
	uint32_t create_flags;	 /* enum ibv_qp_create_flags */
	uint16_t max_tso_header; /* bytes */
	struct ibv_rwq_ind_table *rwq_ind_tbl;
	struct ibv_rx_hash_conf rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags */
};

/* ibv_create_qp() with the attributes of comp_mask.  ibv_create_qp_ex(3) */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
					      struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	struct verbs_context *vctx;

	/* Every device has the plain call, so use it if it suffices. */
	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd,
				     (struct ibv_qp_init_attr *)(void *)qp_init_attr_ex);

	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_qp_ex(context, qp_init_attr_ex);
}

enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4,
};

struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask; NUM, XRCD and TYPE are required */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type; /* IBV_QPT_XRC_RECV */
};

/*
 * Opens another handle of an XRC receive QP, which exists until its last handle is destroyed.
 * ibv_open_qp(3)
 */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context,
					 struct ibv_qp_open_attr *qp_open_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_qp);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->open_qp(context, qp_open_attr);
}

/* ---- States and attributes ---- */

enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,
	IBV_QP_CUR_STATE = 1 << 1,
	IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	IBV_QP_ACCESS_FLAGS = 1 << 3,
	IBV_QP_PKEY_INDEX = 1 << 4,
	IBV_QP_PORT = 1 << 5,
	IBV_QP_QKEY = 1 << 6,
	IBV_QP_AV = 1 << 7,
	IBV_QP_PATH_MTU = 1 << 8,
	IBV_QP_TIMEOUT = 1 << 9,
	IBV_QP_RETRY_CNT = 1 << 10,
	IBV_QP_RNR_RETRY = 1 << 11,
	IBV_QP_RQ_PSN = 1 << 12,
	IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	IBV_QP_ALT_PATH = 1 << 14,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,
	IBV_QP_SQ_PSN = 1 << 16,
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	IBV_QP_PATH_MIG_STATE = 1 << 18,
	IBV_QP_CAP = 1 << 19,
	IBV_QP_DEST_QPN = 1 << 20,
	IBV_QP_RATE_LIMIT = 1 << 25,
};

struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;	      /* UD */
	uint32_t rq_psn;      /* 24 bits: of the first packet received */
	uint32_t sq_psn;      /* 24 bits: of the first packet sent */
	uint32_t dest_qp_num; /* 24 bits */
	/* access permitted to the peer: REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, FLUSH_* */
	unsigned int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify; /* raise IBV_EVENT_SQ_DRAINED */
	uint8_t sq_draining;	     /* query: in SQD, sends are still in flight */
	uint8_t max_rd_atomic;	    /* own READs and atomics in flight, at most */
	uint8_t max_dest_rd_atomic; /* the peer's READs and atomics in flight, at most */
	/*
	 * 0..31: how long a peer that finds no receive waits before it retries; 0: 655.36 ms,
	 * 1: 0.01 ms .. 31: 491.52 ms
	 */
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;   /* 0..31: 4.096 us * 2^timeout until a request is repeated; 0: never */
	uint8_t retry_cnt; /* 0..7: retries after a timeout or a sequence error */
	uint8_t rnr_retry; /* 0..6: retries after an RNR NAK; 7: without limit */
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kbit/s; 0: none */
};

/*
 * Changes the attributes of `attr_mask`.  The manual page lists the transitions, and the attributes
 * that each requires and allows for each QP type.  A call that fails leaves the QP unchanged.
 * ETIMEDOUT, EHOSTUNREACH: the destination cannot be reached.  ibv_modify_qp(3)
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/*
 * Returns at least the attributes of `attr_mask`, and the attributes of creation. ibv_query_qp(3)
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);

struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit;	 /* kbit/s; 0: none */
	uint32_t max_burst_sz;	 /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
	uint32_t comp_mask;	 /* 0 */
};

/*
 * Limits the rate of the QP's requests.  EINVAL: also in RESET or INIT.
 * ibv_modify_qp_rate_limit(3)
 */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(qp->context, modify_qp_rate_limit);

	return vctx ? vctx->modify_qp_rate_limit(qp, attr) : EOPNOTSUPP;
}

/* Connection options that two devices of one vendor negotiate. */
struct ibv_ece {
	uint32_t vendor_id; /* IEEE OUI */
	uint32_t options;
	uint32_t comp_mask; /* 0 */
};

/*
 * ibv_set_ece() requests options, such as those that the peer offered, before the QP moves to INIT
 * or RTR; options that the device lacks are cleared in *ece.  ibv_query_ece() returns those that
 * the QP has.  ibv_set_ece(3), ibv_query_ece(3)
 */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
