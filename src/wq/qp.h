/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of a queue pair that both transports share: its configuration, its queues, and the calls
 * by which a transport reaches memory, receive buffers, completions and events. core owns it; roce
 * and local operate on it.
 *
 * Every function here and every wq_ops call is made under the QP's lock.
 */
#ifndef VRB_WQ_QP_H
#define VRB_WQ_QP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/net.h"
#include "wq/key.h"
#include "wq/note.h"
#include "wq/reason.h"
#include "wq/wqe.h"

enum atomic_op {
	ATOMIC_OP_CMP_SWAP,
	ATOMIC_OP_FETCH_ADD,
};

/* What a port counts: struct ibv_port_attr.bad_pkey_cntr and .qkey_viol_cntr. */
enum key_violation {
	VIOLATION_PKEY,
	VIOLATION_QKEY,
	VIOLATIONS,
};

/*
 * A completion on its way to a CQ; the CQ's owner adds qp_num and time. Begins like struct ibv_wc,
 * as which it is copied (core/cq/cq.c).
 */
struct wq_cqe {
	uint64_t wr_id;
	uint32_t status;	/* enum ibv_wc_status */
	uint32_t opcode;	/* enum ibv_wc_opcode */
	uint32_t reason;	/* enum reason, becomes vendor_err */
	uint32_t byte_len;
	uint32_t imm;		/* big endian immediate, or host-order invalidated rkey */
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;

	/* queue index after the completed WQE: slots before it are free once this is polled */
	uint32_t release;
	uint32_t tm_priv;	/* from the tag matching header; 0 if no tag matched */
	uint64_t tm_tag;
	bool recv;		/* goes to the receive CQ and releases the receive queue */
	bool acked;		/* recv: its ACK has left (core/cq/round.h) */
	/* wakes a CQ armed for solicited events; errors do so in any case */
	bool solicited;
	bool timed;		/* the time that comes with it is that of its packet */
	uint32_t flow_tag;
	uint16_t cvlan;		/* VLAN tag that was stripped */
};

struct wq_qp;
struct roce_rd_atomic;

/* A payload that stays in the sender's memory. */
struct wq_pull {
	int32_t pid;
	uint32_t num_seg;
	uint64_t identity;	/* address of the sender's struct seg_identity */
	uint64_t incarnation;
	const struct wq_seg {
		uint64_t addr;
		uint64_t len;
	} *seg;
};

/* The start of a message that needs a receive: its first packet, and whether there are more. */
struct wq_head {
	const uint8_t *data;
	uint32_t len;
	bool whole;
	const struct wq_pull *pull;	/* location of the data instead */
};

struct wq_ops {
	/* Checks a whole range without accessing it. */
	enum reason (*mem_check)(struct wq_qp *qp, uint32_t key, uint64_t va, uint64_t len,
				 enum mem_access access);
	/* Check and copy in one; after a failure nothing or a prefix was copied. */
	enum reason (*mem_read)(struct wq_qp *qp, uint32_t key, uint64_t va, void *dst,
				uint32_t len, enum mem_access access);
	enum reason (*mem_write)(struct wq_qp *qp, uint32_t key, uint64_t va, const void *src,
				 uint32_t len, enum mem_access access);
	/*
	 * 64-bit atomic in host byte order, mutually exclusive with every other atomic of the
	 * device; va is 8-aligned (checked by the caller).
	 */
	enum reason (*mem_atomic)(struct wq_qp *qp, uint32_t rkey, uint64_t va, enum atomic_op op,
				  uint64_t compare_add, uint64_t swap, uint64_t *original);
	/* ATOMIC WRITE of Annex A19: eight bytes in memory order, never torn. */
	enum reason (*mem_atomic_write)(struct wq_qp *qp, uint32_t rkey, uint64_t va,
					uint64_t value);
	/* *later: the flush is in progress, and roce_flushed() will report its result. */
	enum reason (*mem_flush)(struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
				 uint8_t placement, uint8_t selectivity, bool *later);
	/* Invalidates a window (or region) by rkey, for SEND_WITH_INV (remote) or LOCAL_INV. */
	enum reason (*invalidate)(struct wq_qp *qp, uint32_t rkey, bool remote);
	enum reason (*bind_mw)(struct wq_qp *qp, const struct send_wqe *wqe);

	/*
	 * Local transport. direct: executes the requests at sq.next one-sidedly in the memory of
	 * the peer, as many in a row as it can, and returns their number; 0 if the first one must
	 * be sent as packets, or if *why gives the reason for its failure: then it must not be
	 * executed again. can_pull: may the payload of a request stay in memory for the receiver to
	 * pull? Not that of a null region, which has no address. pull: fetches `total` bytes, from
	 * `offset` on, of a payload in the sender's memory into dst[]. Called only while
	 * wq_qp.direct or .pull_min is set, or for a packet with a wq_pull.
	 */
	unsigned int (*direct)(struct wq_qp *qp, enum reason *why);
	bool (*can_pull)(struct wq_qp *qp, const struct send_wqe *w);
	enum reason (*pull)(struct wq_qp *qp, const struct wq_pull *from, uint64_t offset,
			    uint64_t total, const struct ibv_sge *dst, uint32_t num_dst,
			    enum mem_access access);

	/*
	 * Raw packet QPs: sends the frames of up to `most` requests from sq.done on. Returns how
	 * many are complete. Fewer: there is no room now, and *begun tells whether some frames of
	 * the next request have left; or *why gives the reason why the next one cannot be sent.
	 */
	unsigned int (*send_frames)(struct wq_qp *qp, uint32_t most, bool *begun, enum reason *why);

	/*
	 * Takes the receive WQE for an incoming message: the next one of the RQ, of the SRQ, or for
	 * XRC of the SRQ numbered srqn; or one that matches a message with this head, which is NULL
	 * for a WRITE. Returns NULL with *why = REASON_NONE if none is posted (RNR), or with *why
	 * set to the error. The WQE stays valid until its completion is raised; a QP holds at most
	 * one, and rq.next is past it.
	 */
	struct recv_wqe *(*recv_take)(struct wq_qp *qp, uint32_t srqn, const struct wq_head *head,
				      enum reason *why);

	/*
	 * The first READ or atomic of a peer is here: returns memory for the QP's resources, zeroed
	 * (roce_qp_init()), or NULL if there is none now.
	 */
	struct roce_rd_atomic *(*rd_make)(struct wq_qp *qp);

	/*
	 * Returns the held receive WQE unused: the message it was taken for was dropped, and the
	 * WQE must serve the next one (UC loss rules, UD drops).
	 */
	void (*recv_untake)(struct wq_qp *qp);

	/*
	 * Raises a completion; may change *cqe. For recv, the WQE taken last is consumed. Never
	 * fails: an overrun becomes IBV_EVENT_CQ_ERR, and fails the QP. Core does that later, from
	 * the CQ's timer (core/progress/timeouts.c); roce allows it at once.
	 */
	void (*complete)(struct wq_qp *qp, struct wq_cqe *cqe);

	/* A send request ended, signaled or not. Called only while wq_qp.counted is set. */
	void (*count)(struct wq_qp *qp, const struct send_wqe *wqe, bool ok);

	/* A message was dropped without a completion, as unreliable services do. */
	void (*dropped)(struct wq_qp *qp, enum reason why);

	/* A packet was dropped for its key. */
	void (*violated)(struct wq_qp *qp, enum key_violation which);

	/* Raises an affiliated asynchronous event (IBV_EVENT_COMM_EST, _SQ_DRAINED, _QP_FATAL,
	 * _QP_REQ_ERR, _QP_ACCESS_ERR, _PATH_MIG ...). */
	void (*event)(struct wq_qp *qp, enum ibv_event_type type);

	/* Reports an action of the engine and its reason; NULL: reports are not wanted. */
	void (*note)(struct wq_qp *qp, const struct wq_note *note);
};

/* Configuration; set by core under the QP's lock between calls into the transport. */
struct wq_qp {
	const struct wq_ops *ops;

	uint32_t qpn;
	/*
	 * PD number of memory that peers access, of windows and address handles; XRC receive: as
	 * recv_pdn, or that of the READ being answered, which the transport sets
	 */
	uint32_t pdn;
	/*
	 * PD number for the memory of send requests: pdn, unless the requests are the device's own
	 */
	uint32_t send_pdn;
	/*
	 * PD number for the memory of receives: the SRQ's, if it has one; XRC receive: that of the
	 * SRQ named by the current request
	 */
	uint32_t recv_pdn;
	uint8_t type;		/* enum ibv_qp_type */
	/* enum ibv_qp_state; the only copy. Transports move it to ERR or SQE, core to all others */
	uint8_t state;
	uint8_t sq_draining;	/* SQD only: requests already begun are still in flight */
	uint8_t sqd_notify;	/* raise SQ_DRAINED when the drain ends */

	struct net_path path;	/* primary path; unused for UD */
	struct net_path alt_path;
	uint8_t mig_state;	/* enum ibv_mig_state */
	uint8_t alt_timeout;

	uint32_t mtu;		/* bytes: 256..4096; of packets sent */
	uint32_t path_mtu;	/* of packets received, if larger */
	uint32_t max_msg;	/* longest message in bytes */
	uint32_t dest_qpn;
	uint32_t sq_psn;	/* initial */
	uint32_t rq_psn;	/* initial */
	uint32_t qkey;
	uint32_t access;	/* IBV_ACCESS_REMOTE_* of qp_access_flags */
	uint16_t pkey;		/* 16-bit P_Key of the table entry in use */
	uint16_t pkey_index;
	uint8_t max_rd_atomic;		/* as requester */
	uint8_t max_dest_rd_atomic;	/* as responder */
	uint8_t min_rnr_timer;		/* encoded, 0..31 */
	uint8_t timeout;		/* encoded local ack timeout, 0 = none */
	uint8_t retry_cnt;
	uint8_t rnr_retry;		/* 7: unlimited */
	bool direct;		/* ops->direct can access the peer's memory */
	/*
	 * The peer may be unable to send READ responses at once (its lane is full), and would read
	 * the memory later: requests other than READs wait for them, as with IBV_SEND_FENCE.
	 */
	bool fence_reads;
	/*
	 * SENDs and WRITEs with immediate of at least this length, which is above the MTU, leave
	 * their payload for the receiver to pull; 0: never
	 */
	uint32_t pull_min;
	/*
	 * Those that are shorter may leave as one message, though longer than the MTU, up to this
	 * length; 0: none
	 */
	uint32_t whole_max;
	uint32_t rate_kbps;	/* rate limit of requests; 0: none */
	uint32_t rate_burst;	/* bytes per burst */
	/*
	 * number of QPs that currently send to the same address, including this one; 0 or 1: only
	 * this one
	 */
	uint32_t active_qps;
	bool counted;		/* ops->count is called for send requests */
	bool has_srq;
	bool use_grh_area;		/* UD: the first 40 bytes of a receive hold the GRH */
	uint8_t fault_kind;	/* enum roce_kind of the request that has `fault`; 0: unknown */
	/* enum reason: why requests are not answered, if that is known when the QP gives up */
	uint16_t unreached;
	/* enum reason: why the responder raises an event; set before the event */
	uint16_t fault;
	uint32_t xrcd;			/* XRC receive QP: its domain */

	struct send_queue sq;
	struct recv_queue rq;		/* unused with an SRQ */
};

/* Does a QP of a connected type receive requests in this state? */
static inline bool wq_receives(uint8_t state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

/*
 * Completes every outstanding send request with IBV_WC_WR_FLUSH_ERR, in order, signaled or not.
 * `first` (with reason and a status of its own) is for the request that caused the error, or
 * IBV_WC_WR_FLUSH_ERR.
 */
void wq_flush_send(struct wq_qp *qp, enum ibv_wc_status first, enum reason why);

/*
 * Completes every posted receive of the QP's own RQ with IBV_WC_WR_FLUSH_ERR. No effect on an SRQ.
 */
void wq_flush_recv(struct wq_qp *qp);

/*
 * Raises the success completion of the WQE at sq.done if it asks for one, and advances sq.done.
 */
void wq_complete_send(struct wq_qp *qp);

/* The completion's opcode of a send request's, enum ibv_wr_opcode. */
enum ibv_wc_opcode wq_wc_opcode(uint32_t wr_opcode);

#endif
