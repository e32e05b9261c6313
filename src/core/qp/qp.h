/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: the verbs object around a wq_qp and its engine.
 *
 * ibv_open_qp() creates handles: QPs without queues whose `target` is the shared XRC receive QP.
 * Any other QP is its own target. The verbs layer passes targets to core.
 */
#ifndef VRB_CORE_QP_QP_H
#define VRB_CORE_QP_QP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/limits.h"
#include "core/base/live_objects.h"
#include "core/base/names.h"
#include "core/base/object_timer.h"
#include "core/base/path_flows.h"
#include "core/cq/async_event.h"
#include "core/cq/comp_cntr.h"
#include "core/mem/pd_senders.h"
#include "core/qp/qp_hooks.h"
#include "core/qp/tag_match.h"
#include "core/qp/tag_rndv.h"
#include "core/qp/transport_state.h"
#include "core/qp/wr_check.h"
#include "roce/coalesce.h"
#include "roce/delayed_ack.h"
#include "roce/engine.h"
#include "util/compiler.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"

struct vrb_context;
struct vrb_cq;
struct vrb_pd;
struct vrb_delegation;
struct vrb_srq;
struct vrb_rss;
struct vrb_wq;
struct vrb_xrcd;
struct xrc_domain;

/*
 * Requests between ibv_wr_start() and ibv_wr_complete(). They are built in slots from sq.head on,
 * which only the batch uses.
 */
struct wr_batch {
	/* held from start to complete or abort; outermost; protects the batch */
	struct lock lock;
	struct wr_limits limits;	/* the QP's limits at start */
	uint32_t base;			/* sq.head at start */
	uint32_t pending;		/* requests in the batch */
	/* first error; ibv_wr_complete() then returns it and posts nothing; EINVAL: no batch */
	int error;
	/* `wqe` and `desc` describe a request that is not validated yet */
	bool open;
	bool started;			/* atomic: ibv_wr_start() has taken the lock */
	bool srqn_set;			/* the SRQ number that XRC sends need has been set */
	struct send_wqe *wqe;
	struct wr_desc desc;
};

/* Another process becomes the home of an XRC receive QP (open_table.h). */
enum vrb_migrating {
	VRB_HOME_STAYS,
	VRB_HOME_LEAVES,	/* accepts no new message, but completes the current one */
	VRB_HOME_LEFT,	/* accepts no packets; those that come by the wire wait */
	VRB_HOME_MOVED,	/* another process has the QP, and gets them */
};

/* The handle of an XRC receive QP's creator, which is the QP itself. */
enum vrb_creator {
	VRB_CREATOR_NONE,	/* closed, or in another process */
	VRB_CREATOR_OPEN,
	VRB_CREATOR_CLOSES,	/* waits for acknowledgements of its events */
};

/* Immutable after creation unless a member says otherwise; needs no lock. */
struct vrb_qp_config {
	/*
	 * The QP itself, or the shared QP of a handle of ibv_open_qp(). Atomic: a remote handle's
	 * target changes once, when its QP moves to this process (xrc/remote_handle.c)
	 */
	struct vrb_qp *target;
	struct vrb_context *ctx;
	struct vrb_pd *pd;		/* NULL: XRC receive */
	struct vrb_cq *send_cq, *recv_cq;	/* NULL if the QP type has none */
	struct vrb_srq *srq;
	/*
	 * XRC receive. This, ctx and imported change when the creator closes its handle and others
	 * are open, under the locks of all rx queues and qp->lock
	 */
	struct vrb_xrcd *xrcd;
	/*
	 * XRC receive: the domain of xrcd. A remote responder's changes under vrb.poll_lock and
	 * qp->lock; NULL if this process has not opened the domain
	 */
	struct xrc_domain *domain;
	const struct vrb_qp_hooks *hooks;	/* NULL: ordinary QP */
	bool imported;			/* not created by its context, nor counted there */
	bool wr_calls;			/* has ibv_wr_* */
	/* handle of a QP that belonged to another process at open (remote_handle.h) */
	bool remote;
	/*
	 * number among the QPs that the process has created, from 1; known before the program runs
	 */
	uint32_t place;
	uint8_t shard;			/* shard of the QP number (host/host.h) */
	uint8_t rings_kind;		/* enum pd_memory if the PD's allocator made the rings */
	struct ibv_qp_init_attr_ex init;	/* caps as granted */
	void *recv_copies;		/* memory of recv.srq_wqe and recv.arrival.wqe */
	struct vrb_rss *rss;		/* RSS QP: spreads frames over work queues; wq.h */
	struct vrb_wq *work_queue;	/* the work queue that this QP implements */
};

/* Send side: posted requests and their transmission. Under qp->lock. */
struct vrb_qp_post {
	struct wr_limits limits;
	bool coalesces;			/* requests are delayed to be sent together */
	bool same_process;		/* the peer is in this process; a hint, read unlocked */
	uint8_t peer_shard;		/* if so: that of its number */
	bool loops;			/* a post that polls afterwards: poll_loop.h */
	bool uses_wire;			/* counted in vrb_wire_qps */
	bool is_sender;			/* in `senders`; always while requests are outstanding */
	bool holds_ack;			/* the ACK leaves with a later post */
	struct roce_delayed_ack delayed_ack;
	/* UC, UD: the RX queue in whose batch the QP may have packets (tx_pending.h) */
	struct vrb_rx_queue *pending;
	struct path_ref share;		/* the flows on the QP's path */
	struct roce_coalescing coalescing;
	struct roce_stream stream;	/* UC, UD */
	struct vrb_raw_begun raw_begun;	/* raw packet: sent part of a request */
	struct pd_senders *senders;	/* the PD's senders; NULL: the QP has no PD */
	struct list sender;		/* in `senders`; under their lock */
	struct wr_batch batch;		/* for wr_ex.c; under its own lock, outside qp->lock */
};

/* Receive side: receive WQEs and messages in progress. Under qp->lock. */
struct vrb_qp_recv {
	struct recv_wqe *wqe;		/* held by the transport: in the RQ, or `srq_wqe` */
	struct vrb_srq *wqe_srq;	/* XRC receive: SRQ of the WQE; counted in its users */
	uint32_t wqe_index;		/* of `wqe` in the RQ or SRQ */
	uint32_t rd_atomic_slots;
	struct recv_wqe *srq_wqe;	/* copy of the SRQ entry in use */
	bool srq_wqe_held;		/* srq_wqe was given back and is taken next */
	bool strips_vlan;		/* raw packet: moves VLAN tags to the completion */
	struct reorder_queue *reorder;		/* requests that arrived before a missing one */
	struct roce_rd_atomic *rd_atomic;
	struct vrb_tm_message arrival;	/* tag-matching SRQ: the message in progress */
	struct vrb_rndv rndv;
};

/* Completion side: counters and reports. Under qp->lock. */
struct vrb_qp_comp {
	struct vrb_cntr *cntr[VRB_CNTR_OPS];	/* completion counters; NULL: not counted */
	bool error_logged;		/* the first failure was reported; see error_report.h */
	bool failing;	/* a completion was failed by fault injection: flush all that follow */
	bool drop_logged;		/* the first dropped message was reported */
	uint32_t rnr_psn;		/* of the request that waits for a receive of the peer */
	uint64_t rnr_since;		/* 0: none yet */
};

/*
 * Transmit scheduling after received packets (tx_sched.h). Under the lock of the RX queue that
 * lists the QP, unless a member says otherwise.
 */
struct vrb_qp_sched {
	struct list node;		/* in the RX queue's list `scheduled` or `delayed` */
	struct vrb_rx_queue *rx_queue;	/* the queue that lists the QP; NULL: none. Atomic */
	enum tx_urgency urgency;	/* of the output since the last packet */
	bool expects_reply;		/* the program will probably post a reply soon */
	bool takes_turns;		/* to a whole message, with nothing else under way */
	/* takes_turns was true for the pending ACK, which may wait until then; under qp->lock */
	uint64_t turn_ends;
	bool ack_sent;			/* atomic: nothing is left to send; set under qp->lock */
	bool ack_delayed;		/* atomic: has a delayed ACK, counted in vrb_delayed_acks */
	uint64_t ack_delayed_at;	/* the round that delayed it; under the lock of rx_queue */
};

/* Packet dispatch. Under vrb.poll_lock. */
struct vrb_qp_dispatch {
	unsigned int groups;		/* number of attached multicast groups */
	unsigned int flows;		/* number of flow rules with this QP as target */
	struct list raw_node;		/* raw packet: in the device's list of receivers */
	bool raw_receiving;		/* raw packet: got a frame, not out of receives since */
};

/* XRC receive: sharing with other processes. Under qp->lock unless a member says otherwise. */
struct vrb_qp_xrc {
	struct vrb_delegation *delegation;	/* NULL: never delegated */
	struct list open_table;		/* processes that have the QP open (open_table.h) */
	uint8_t migrating;		/* enum vrb_migrating */
	bool waits;			/* delegated or parked requests are not answered yet */
	uint64_t retry_at;		/* when parked requests are tried again; VRB_NEVER: none */
	/* in the XRC domain's list; handle: in its QP's or remote_handle.c's; domain->lock */
	struct list node;
	struct list handles;		/* in this process, without the creator's; domain->lock */
	uint8_t creator;		/* enum vrb_creator; domain->lock */
};

/* Members are grouped by the lock that protects them. */
struct vrb_qp {
	union {
		/* prefix of ex; ibv.state belongs to the program, see verbs/qp.c */
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
	};
	struct vrb_qp_config config;

	/* Protects both queues, the engine and the groups that say so. */
	struct lock lock;
	struct wq_qp wq;
	struct roce_qp roce;
	struct vrb_peer peer;
	uint64_t now;			/* time of the last engine call */
	struct object_timer timer;
	struct vrb_qp_sched sched;
	struct vrb_qp_post post;
	struct vrb_qp_recv recv;
	struct vrb_qp_comp comp;
	struct ibv_qp_attr attr;	/* as set by ibv_modify_qp, for ibv_query_qp */
	bool used;			/* was reset after it had been in RTR or later */
	struct vrb_qp_dispatch dispatch;
	struct vrb_qp_xrc xrc;
	struct vrb_event_acks acks;
	struct vrb_live live;
};

/* The members that every message uses fit into one cache line of each group. */
static_assert(sizeof(struct vrb_qp_sched) <= 64, "one cache line");
static_assert(offsetof(struct vrb_qp_post, share) <= 64, "what a post reads is one cache line");

static inline struct vrb_qp *to_vrb_qp(struct ibv_qp *qp)
{
	return (struct vrb_qp *)qp;
}

static inline struct vrb_qp *wq_to_vrb_qp(struct wq_qp *wq)
{
	return container_of(wq, struct vrb_qp, wq);
}

/*
 * Initialises a zeroed QP: locks, empty lists, state RESET, and an engine without READ and atomic
 * resources. vrb_qp_fini() destroys the locks and frees these resources if they were set since.
 */
void vrb_qp_init(struct vrb_qp *qp, enum ibv_qp_type type, const struct wq_ops *ops);
void vrb_qp_fini(struct vrb_qp *qp);

/*
 * Drops the receive WQE that the transport holds or gave back, without a completion. Must hold
 * qp->lock.
 */
void vrb_qp_drop_wqe(struct vrb_qp *qp);

/* Called after a request was posted. Must hold qp->lock. */
static inline void vrb_qp_note_posted(struct vrb_qp *qp)
{
	if (likely(qp->post.is_sender))
		return;
	qp->post.is_sender = true;
	pd_senders_add(qp->post.senders, &qp->post.sender);
}

/* Raises an event of the QP, or through its hook. Must hold qp->lock. */
void vrb_qp_raise(struct vrb_qp *qp, enum ibv_event_type type);

#endif
