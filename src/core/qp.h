/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: the verbs object around a wq_qp and its engine.
 *
 * ibv_open_qp() makes handles: small objects whose `target` is the shared XRC receive QP.
 * Everybody else's target is itself; the verbs layer passes targets down.
 */
#ifndef VRB_CORE_QP_H
#define VRB_CORE_QP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/cntr.h"
#include "core/deadline.h"
#include "core/habit.h"
#include "core/live.h"
#include "core/near.h"
#include "core/output.h"
#include "core/raw_send.h"
#include "core/rndv.h"
#include "core/share.h"
#include "core/tm.h"
#include "core/wr_check.h"
#include "roce/engine.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"

struct vrb_context;
struct vrb_cq;
struct vrb_pd;
struct vrb_loan;
struct vrb_srq;
struct vrb_rss;
struct vrb_wq;
struct vrb_xrcd;
struct xrc_domain;

/*
 * Requests between ibv_wr_start and ibv_wr_complete, in slots behind sq.head that nobody else
 * looks at.
 */
struct wr_batch {
	/* held from start to complete or abort; outermost, and all of the batch is under it */
	struct lock lock;
	struct wr_limits limits;	/* the QP's when it was started */
	uint32_t base;			/* sq.head when it was started */
	uint32_t pending;		/* requests begun */
	/* the first one; ibv_wr_complete returns it and posts nothing */
	int error;
	/* `wqe` and `desc` describe a request that is not checked yet */
	bool open;
	bool srqn_set;			/* it has the number that XRC sends need */
	struct send_wqe *wqe;
	struct wr_desc desc;
};

/* What a raw packet QP has of its own. */
struct vrb_raw_qp {
	struct list node;	/* among the device's receivers; vrb.drive */
	bool receiving;		/* it got a frame, and has not run dry since; vrb.drive */
	struct vrb_raw_begun begun;	/* qp->lock */
};

/* Another process becomes the home of an XRC receive QP (opener.h). */
enum vrb_moving {
	VRB_STAYS,
	VRB_LEAVES,	/* takes no new message; one that has begun ends */
	VRB_LEFT,	/* takes nothing */
};

struct vrb_qp {
	union {
		struct ibv_qp ibv;	/* prefix of ex; ibv.state is the program's, see verbs/qp.c */
		struct ibv_qp_ex ex;
	};
	/* Immutable after creation. */
	/* itself, or the shared QP behind a handle of ibv_open_qp */
	struct vrb_qp *target;
	struct vrb_context *ctx;
	struct vrb_pd *pd;		/* NULL: XRC receive */
	struct vrb_cq *send_cq, *recv_cq;	/* NULL where the type has none */
	struct vrb_srq *srq;
	struct vrb_xrcd *xrcd;		/* XRC receive */
	struct xrc_domain *domain;	/* XRC receive: the handle's, or a deputy's (deputy.h); NULL: none in this process */
	bool deputy;
	bool adopted;			/* moved in from another process; not counted in its context */
	bool afar;			/* a handle of a QP that was another process's when it was opened (afar.h) */
	struct ibv_qp_init_attr_ex init;	/* caps as granted */
	uint8_t shard;			/* of its number (host/host.h) */
	uint64_t send_ops;		/* IBV_QP_EX_WITH_*; 0 = no ibv_wr_* */
	void *rings;			/* the memory of both queues */
	struct vrb_rss *rss;		/* it spreads frames over work queues; rwq.h */
	struct vrb_wq *work_queue;	/* it is behind this one */

	struct lock lock;		/* everything below */
	struct wq_qp wq;
	struct roce_qp roce;
	struct vrb_near near;
	struct vrb_raw_qp raw;		/* raw packet */
	bool strips;			/* raw packet: VLAN tags go to the completion instead */
	bool far;			/* counted among the QPs that need the wire */
	struct share_ref share;		/* who else sends to its peer's address */
	struct held *held;		/* requests that came before a missing one */
	struct roce_rd_atomic *rd_atomic;
	uint32_t rd_atomic_slots;
	struct wr_limits limits;
	struct ibv_qp_attr attr;	/* as set by ibv_modify_qp, for ibv_query_qp */
	struct recv_wqe *taken;		/* held by the transport: in the RQ, or `copy` */
	uint32_t taken_index;		/* in the RQ */
	struct vrb_srq *taken_srq;	/* XRC receive: where it is from; counted in its users */
	struct recv_wqe *copy;		/* SRQ entries are copied here */
	struct vrb_arrival arrival;	/* its SRQ matches tags: the message in progress */
	struct vrb_rndv rndv;
	/* its first failure has been logged; see fault.h */
	bool told;
	bool told_drop;			/* and its first dropped message */
	/* it holds an entry that was given back, to be taken next */
	bool copy_held;
	struct vrb_cntr *cntr[VRB_CNTR_OPS];	/* completion counters; NULL: not counted */
	uint64_t now;			/* the time the engine was last called with */

	struct wr_batch batch;		/* wr_ex.c's; has its own lock */

	struct deadline timer;
	/* vrb.drive */
	unsigned int groups;		/* multicast groups it is attached to */
	unsigned int flows;		/* that name it */
	/* QPs that got packets in this round, or wait for the next poll */
	struct list touched;
	struct vrb_receiver *touched_by;	/* whose list that is; NULL: none (receiver.h). Atomic */
	enum output_due due;		/* what it wanted to say after its last packet; under that receiver's lock, as is */
	bool answers;			/* that the program is believed to answer it soon */
	bool answered;			/* atomic: has said all it had to since packets came; qp->lock */
	struct habit habit;		/* qp->lock */
	bool gathers;			/* requests wait for company; qp->lock */
	bool owes;			/* atomic: an ACK was put off, and is counted (answer.c) */
	bool within;			/* its peer is a QP of this process; qp->lock */
	struct vrb_loan *loan;		/* XRC receive: its state and other processes; NULL: never lent. qp->lock */
	struct list openers;		/* XRC receive: processes that have it open (opener.h) */
	uint8_t moving;			/* XRC receive: enum vrb_moving; qp->lock */
	struct list xrc_node;		/* in the XRC domain's list; a handle: in its QP's, or afar.c's */
	struct list handle_list;	/* XRC receive: handles of this process but its creator's, under the domain's lock */
	bool created_here;		/* and the creator's is still open */
	struct vrb_live live;
};

static inline struct vrb_qp *to_vrb_qp(struct ibv_qp *qp)
{
	return (struct vrb_qp *)qp;
}

static inline struct vrb_qp *wq_to_vrb_qp(struct wq_qp *wq)
{
	return container_of(wq, struct vrb_qp, wq);
}

/*
 * Writes the granted capabilities back to attr->cap. Returns 0, EINVAL, ENOMEM, EOPNOTSUPP, EBUSY;
 * for raw packets EPERM and what else opening the interface for them may say.
 */
int vrb_qp_create(struct vrb_context *ctx, struct ibv_qp_init_attr_ex *attr, struct vrb_qp **qp);

/*
 * The QP behind a work queue: a raw packet QP that only receives.  It is posted to, modified (RTR:
 * ready) and destroyed as any QP, and its completions carry its number.  Writes the granted sizes
 * back.  Returns as above; EPERM.
 */
int vrb_qp_create_wq(struct vrb_context *ctx, struct ibv_wq_init_attr *attr, struct vrb_qp **qp);

/*
 * A handle of the shared XRC receive QP with this number.  Returns 0, EINVAL (no such QP in the
 * domain), ENOMEM.
 */
int vrb_qp_open(struct vrb_context *ctx, const struct ibv_qp_open_attr *attr, struct vrb_qp **qp);

/* Limits that no device attribute tells. */
#define VRB_MAX_INLINE 4096u
#define VRB_MAX_MSG    0x80000000u

/* Kilobits per second that a QP can be paced to. */
enum {
	VRB_RATE_MIN = 1,
	VRB_RATE_MAX = 400000000,
};

/*
 * Stops, purges and frees it; waits until the program acknowledged the events that it took. EBUSY
 * while attached to a group or named by a flow.
 */
int vrb_qp_destroy(struct vrb_qp *qp);

/*
 * Forgets the receive that the transport held or gave back, without a completion. Must hold
 * qp->lock.
 */
void vrb_qp_drop_taken(struct vrb_qp *qp);

/* Parts of vrb_adopt(): an XRC receive QP of a given number that nobody can find yet; its end; its entry into its domain's list. */
struct vrb_qp *vrb_qp_new_receiver(struct vrb_context *ctx, struct vrb_xrcd *xrcd, uint32_t qpn);
void vrb_qp_free_new(struct vrb_qp *qp);
void vrb_qp_enter_domain(struct vrb_qp *qp);

/* Memory for the copy of an entry of any SRQ of the device. */
struct recv_wqe *vrb_qp_any_copy(void);

/* The event; of the work queue, if the QP is behind one.  Must hold qp->lock. */
void vrb_qp_raise(struct vrb_qp *qp, enum ibv_event_type type);

/* What transports call; see wq/qp.h. */
extern const struct wq_ops vrb_qp_ops;

#endif
