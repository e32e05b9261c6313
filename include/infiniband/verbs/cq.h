/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chapter of verbs.h: completion queues, plain and extended; completion channels; completion
 * counters.
 */
#ifndef INFINIBAND_VERBS_CQ_H
#define INFINIBAND_VERBS_CQ_H

#include <infiniband/verbs/context.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- Work completions ---- */

/*
 * The result of a work request. Unless it is success, only wr_id, status, qp_num and vendor_err are
 * valid.
 */
enum ibv_wc_status {
	IBV_WC_SUCCESS,
	IBV_WC_LOC_LEN_ERR,	   /* local: message longer than the buffer or the limit */
	IBV_WC_LOC_QP_OP_ERR,	   /* local: the request contradicts itself or the QP */
	IBV_WC_LOC_EEC_OP_ERR,	   /* reliable datagram only */
	IBV_WC_LOC_PROT_ERR,	   /* local: an SGE has no access to its memory */
	IBV_WC_WR_FLUSH_ERR,	   /* not completed: the QP went to the error state */
	IBV_WC_MW_BIND_ERR,	   /* window not bound */
	IBV_WC_BAD_RESP_ERR,	   /* a response that matches no request */
	/* local: no right to the receive buffer of a WRITE with immediate */
	IBV_WC_LOC_ACCESS_ERR,
	IBV_WC_REM_INV_REQ_ERR,	   /* peer: invalid request */
	IBV_WC_REM_ACCESS_ERR,	   /* peer: no access to its memory */
	IBV_WC_REM_OP_ERR,	   /* peer: could not complete the operation */
	IBV_WC_RETRY_EXC_ERR,	   /* peer: did not answer any of the retries */
	IBV_WC_RNR_RETRY_EXC_ERR,  /* peer: had no receive posted for any of the retries */
	IBV_WC_LOC_RDD_VIOL_ERR,   /* reliable datagram only */
	IBV_WC_REM_INV_RD_REQ_ERR, /* reliable datagram only */
	IBV_WC_REM_ABORT_ERR,	   /* peer: aborted the operation */
	IBV_WC_INV_EECN_ERR,	   /* reliable datagram only */
	IBV_WC_INV_EEC_STATE_ERR,  /* reliable datagram only */
	IBV_WC_FATAL_ERR,
	IBV_WC_RESP_TIMEOUT_ERR,
	IBV_WC_GENERAL_ERR,
	IBV_WC_TM_ERR,		   /* tag matching failed */
	IBV_WC_TM_RNDV_INCOMPLETE, /* rendezvous left to the program */
};

/* Returns a static description, never NULL. ibv_poll_cq(3) */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/* The kind of operation that completed. All receive operations have bit IBV_WC_RECV. */
enum ibv_wc_opcode {
	IBV_WC_SEND,
	IBV_WC_RDMA_WRITE,
	IBV_WC_RDMA_READ,
	IBV_WC_COMP_SWAP,
	IBV_WC_FETCH_ADD,
	IBV_WC_BIND_MW,
	IBV_WC_LOCAL_INV,
	IBV_WC_TSO,
	IBV_WC_FLUSH = 8,
	IBV_WC_ATOMIC_WRITE = 9,
	IBV_WC_RECV = 1 << 7,
	IBV_WC_RECV_RDMA_WITH_IMM,
	IBV_WC_TM_ADD,
	IBV_WC_TM_DEL,
	IBV_WC_TM_SYNC,
	IBV_WC_TM_RECV,
	IBV_WC_TM_NO_TAG,
	IBV_WC_DRIVER1,
	IBV_WC_DRIVER2,
	IBV_WC_DRIVER3,
};

enum {
	IBV_WC_IP_CSUM_OK_SHIFT = 2,
};

enum ibv_wc_flags {
	IBV_WC_GRH = 1 << 0,	  /* a global route header precedes the data (UD) */
	IBV_WC_WITH_IMM = 1 << 1, /* imm_data is valid */
	IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT,
	IBV_WC_WITH_INV = 1 << 3, /* invalidated_rkey is valid */
	IBV_WC_TM_SYNC_REQ = 1 << 4,
	IBV_WC_TM_MATCH = 1 << 5,
	IBV_WC_TM_DATA_VALID = 1 << 6,
};

struct ibv_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err; /* reason of a failure: "verbena explain N" */
	uint32_t byte_len;   /* received, GRH included on UD; or read */
	__extension__ union {
		__be32 imm_data;
		uint32_t invalidated_rkey;
	};
	uint32_t qp_num;
	uint32_t src_qp;	/* UD */
	unsigned int wc_flags;	/* enum ibv_wc_flags */
	uint16_t pkey_index;
	uint16_t slid;		/* UD; as sl and dlid_path_bits */
	uint8_t sl;
	uint8_t dlid_path_bits;
};

/* ---- Completion channels: a descriptor to sleep on ---- */

struct ibv_comp_channel {
	struct ibv_context *context;
	int fd; /* readable while completion events wait; may be set to O_NONBLOCK */
	int refcnt;
};

/* Creates a channel.  ibv_create_comp_channel(3) */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
/* Destroys a channel.  EBUSY: a CQ uses it.  ibv_create_comp_channel(3) */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/*
 * Takes the oldest event and returns its CQ and that CQ's cq_context; waits for one unless
 * channel->fd is O_NONBLOCK. Returns 0, or -1 and errno (EAGAIN: none). ibv_get_cq_event(3)
 */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/*
 * Acknowledges `nevents` events of the CQ; its destruction waits until all are acknowledged.
 * ibv_get_cq_event(3)
 */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* ---- Completion queues ---- */

struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe; /* entries */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/*
 * Creates a CQ of at least `cqe` entries, 1 to max_cqe.  Its events go to `channel` (NULL: none)
 * with `cq_context`; 0 <= comp_vector < context->num_comp_vectors.  ibv_create_cq(3)
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);

/*
 * Resizes the CQ to at least `cqe` entries; cq->cqe receives the actual number. EINVAL: it holds
 * more completions. ibv_resize_cq(3)
 */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/*
 * Destroys a CQ, after waiting until the program has acknowledged all events that it took.
 * EBUSY: a QP uses it.  ibv_create_cq(3)
 */
int ibv_destroy_cq(struct ibv_cq *cq);

/*
 * Takes up to num_entries completions, oldest first.  Returns their number (fewer than num_entries:
 * the CQ is empty), or a negative value if the CQ has failed.  ibv_poll_cq(3)
 */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/*
 * Requests one event, for the next completion added to the CQ (solicited_only: the next solicited
 * or failed one). To miss none, poll once more after this call. ibv_req_notify_cq(3)
 */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1,
};

struct ibv_moderate_cq {
	uint16_t cq_count;  /* an event after this many completions */
	uint16_t cq_period; /* us; or after this time */
};

struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/* Sets the moderation of the CQ's events.  ibv_modify_cq(3) */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(cq->context, modify_cq);

	return vctx ? vctx->modify_cq(cq, attr) : EOPNOTSUPP;
}

/* ---- Extended completion queues: completions are read in place, field by field ---- */

/* The fields that a program will read; it must not read any others. */
enum ibv_create_cq_wc_flags {
	IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
	IBV_WC_EX_WITH_IMM = 1 << 1,
	IBV_WC_EX_WITH_QP_NUM = 1 << 2,
	IBV_WC_EX_WITH_SRC_QP = 1 << 3,
	IBV_WC_EX_WITH_SLID = 1 << 4,
	IBV_WC_EX_WITH_SL = 1 << 5,
	IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
	IBV_WC_EX_WITH_CVLAN = 1 << 8,
	IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
	IBV_WC_EX_WITH_TM_INFO = 1 << 10,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
};

enum {
	/* BYTE_LEN .. DLID_PATH_BITS: the members of ibv_wc */
	IBV_WC_STANDARD_FLAGS = (1 << 7) - 1,
};

enum {
	IBV_CREATE_CQ_SUP_WC_FLAGS = (1 << 12) - 1, /* all of them */
};

enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
};

enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* one thread at a time, no locks */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,
};

struct ibv_cq_init_attr_ex {
	uint32_t cqe;
	void *cq_context;
	struct ibv_comp_channel *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;  /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask; /* enum ibv_cq_init_attr_mask */
	uint32_t flags;	    /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain;
};

struct ibv_poll_cq_attr {
	uint32_t comp_mask; /* 0 */
};

/* The tag and the program's data of a tag matching header. */
struct ibv_wc_tm_info {
	uint64_t tag;
	uint32_t priv;
};

/*
 * Its first members are those of ibv_cq, so that one can be used as the other. status and wr_id
 * belong to the current completion.
 */
struct ibv_cq_ex {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;

	uint32_t comp_mask;
	enum ibv_wc_status status;
	uint64_t wr_id;
	int (*start_poll)(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *current);
	void (*end_poll)(struct ibv_cq_ex *current);
	enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *current);
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *current);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *current);
	__be32 (*read_imm_data)(struct ibv_cq_ex *current);
	uint32_t (*read_qp_num)(struct ibv_cq_ex *current);
	uint32_t (*read_src_qp)(struct ibv_cq_ex *current);
	unsigned int (*read_wc_flags)(struct ibv_cq_ex *current);
	uint32_t (*read_slid)(struct ibv_cq_ex *current);
	uint8_t (*read_sl)(struct ibv_cq_ex *current);
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *current);
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *current);
	uint16_t (*read_cvlan)(struct ibv_cq_ex *current);
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *current);
	void (*read_tm_info)(struct ibv_cq_ex *current, struct ibv_wc_tm_info *tm_info);
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *current);
};

/*
 * Creates an extended CQ; ibv_destroy_cq() destroys it.  ibv_create_cq_ex(3), for this and all
 * calls on it
 */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
						 struct ibv_cq_init_attr_ex *cq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_cq_ex);

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return vctx->create_cq_ex(context, cq_attr);
}

/* Returns the same CQ for the calls that take a plain one, including its destruction. */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)(void *)cq;
}

/*
 * Starts reading and moves to the oldest completion. ENOENT: the CQ is empty; do not call
 * ibv_end_poll(). Otherwise this thread owns the CQ until it calls ibv_end_poll().
 */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/* Moves to the next completion.  ENOENT: there is none; ibv_end_poll() must still be called. */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/* Ends reading and removes the completions that were read. */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/* Fields of the current completion, valid until the next move. */
static inline enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
{
	return cq->read_opcode(cq);
}

static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err(cq);
}

static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
	return cq->read_byte_len(cq);
}

static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/* In host order, from the place of the immediate data. */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
#ifdef __CHECKER__
	return (__attribute__((force)) uint32_t)cq->read_imm_data(cq);
#else
	return cq->read_imm_data(cq);
#endif
}

static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
	return cq->read_qp_num(cq);
}

static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
	return cq->read_src_qp(cq);
}

static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq->read_wc_flags(cq);
}

static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
	return cq->read_slid(cq);
}

static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
	return cq->read_sl(cq);
}

static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq->read_dlid_path_bits(cq);
}

/* In ticks of the device clock (hca_core_clock). */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
	return cq->read_completion_ts(cq);
}

/* In nanoseconds since 1970. */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return cq->read_completion_wallclock_ns(cq);
}

/* Tag of the VLAN header that was removed: priority 3, CFI 1, VLAN ID 12 bits; host order. */
static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
	return cq->read_cvlan(cq);
}

/* ibv_flow_spec_action_tag.tag_id of the rule that matched; 0: none. */
static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
	return cq->read_flow_tag(cq);
}

/* Of a message with a tag matching header. */
static inline void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
{
	cq->read_tm_info(cq, tm_info);
}

/* ---- Completion counters.  From release 65.  ibv_create_comp_cntr(3), for all of them ---- */

/*
 * A counter has two values: successful and failed completions. When a value exceeds its maximum, it
 * restarts at 0.
 */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS, /* counts work requests */
	IBV_COMP_CNTR_TYPE_BYTES,
};

struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask; /* 0 */
	enum ibv_comp_cntr_type type;
	uint32_t flags; /* 0 */
};

/* Local operations, and those of the peer (REMOTE). */
enum ibv_qp_attach_comp_cntr_op {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
};

struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask; /* 0 */
	uint32_t op_mask;   /* enum ibv_qp_attach_comp_cntr_op */
};

struct ibv_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops; /* enum ibv_qp_attach_comp_cntr_op */
};

/* As ibv_query_comp_cntr_caps(); caps_size is the caller's sizeof(*caps). */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size);

/* Returns the limits of counters.  ibv_query_comp_cntr_caps(3) */
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context,
					   struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/* Creates a counter; both values are 0. */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);
/* EBUSY: it is attached to a QP. */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/* Set, increment and read the two values; setting may lose concurrent counts. */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/*
 * Counts the operations of op_mask of a QP (in RESET or INIT) until the QP is destroyed.
 * EBUSY: one of the operations is counted already.  ibv_qp_attach_comp_cntr(3)
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
