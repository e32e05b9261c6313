/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, the plain and the extended form in one object.
 *
 * A ring under cq->lock.  QPs add under their own lock (qp -> cq), SRQs with a CQ of their own under
 * theirs; pollers take.  Polling an entry gives its queue slots back to where it came from, so the
 * entries of a QP or SRQ are purged before it goes away.
 */
#ifndef VRB_CORE_CQ_H
#define VRB_CORE_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/deadline.h"
#include "core/live.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"

struct vrb_channel;
struct vrb_context;
struct vrb_pd;
struct vrb_qp;
struct vrb_round;
struct vrb_srq;

struct vrb_cqe {
	struct wq_cqe wc;
	const void *owner;	/* QP or SRQ: the entry goes when that goes */
	uint32_t *released;	/* of a queue: gets wc.release when this is polled; NULL: none does */
	uint32_t qp_num;
	uint64_t time_ns;	/* monotonic; 0 if nobody asked for timestamps */
};

enum {
	VRB_CQ_ARM_SOLICITED = 1,
	VRB_CQ_ARM_NEXT = 2,
};

struct vrb_cq {
	union {
		struct ibv_cq ibv;	/* prefix of ex */
		struct ibv_cq_ex ex;
	};
	struct vrb_context *ctx;
	struct list node;	/* in the context's list, under its lock */
	struct vrb_channel *channel;	/* NULL: no completion events */
	struct vrb_pd *parent;		/* parent domain it was created under, or NULL */
	uint64_t wc_flags;		/* IBV_WC_EX_* asked for */
	uint32_t create_flags;
	uint32_t comp_vector;
	bool is_ex;
	/* atomic: QPs, SRQs and WQs attached; destroy refuses while not 0 */
	uint32_t users;
	uint32_t shards;	/* atomic: bits, those that its QPs had numbers of */

	/*
	 * The extended form: serialises pollers from ibv_start_poll to ibv_end_poll, outermost of
	 * all locks, because programs post in between; unused when the CQ was created single-
	 * threaded.
	 */
	struct lock poll_lock;
	struct vrb_cqe current;	/* what the readers read; poll_lock */

	struct lock lock;	/* everything below but the channel's part */
	struct vrb_cqe *ring;
	uint32_t mask;		/* entries - 1 */
	/* Free running; head - tail entries wait, of which pollers see those before `shown`. They peek without the lock */
	uint32_t head, shown, tail;
	uint32_t holds;		/* by rounds, whose completions are not shown yet (round.h) */
	const struct vrb_round *held_by;	/* the last one */
	uint8_t armed;		/* 0, VRB_CQ_ARM_SOLICITED or VRB_CQ_ARM_NEXT */
	/* IBV_EVENT_CQ_ERR was raised, the CQ accepts nothing more; read without the lock, too */
	bool overrun;
	bool overrun_told;	/* the drive knows */

	struct list srqs;	/* struct vrb_srq.cq_node: SRQs that complete into it */

	/*
	 * Event moderation: an armed CQ raises its event after `count` completions or `usec` after
	 * the first.
	 */
	uint16_t moderation_count, moderation_usec;
	uint16_t moderated;	/* completions held back since the CQ was armed */
	uint64_t moderation_due;	/* VRB_NEVER: none held back */
	uint64_t newest;	/* time stamp that was given out last */

	/* The channel's part, under channel->queue.lock. */
	struct list event_node;		/* in the queue while event_pending is not 0 */
	uint32_t event_pending;		/* completion events not delivered yet */

	struct deadline timer;	/* overrun and events held back */
	struct vrb_live live;
};

static inline struct vrb_cq *to_vrb_cq(struct ibv_cq *cq)
{
	return (struct vrb_cq *)cq;
}

/* Plain and extended creation; attr->cqe >= 1. Returns 0, EINVAL, ENOMEM or EOPNOTSUPP. */
int vrb_cq_create(struct vrb_context *ctx, const struct ibv_cq_init_attr_ex *attr, bool is_ex,
		  struct vrb_cq **cq);

/* EBUSY while something uses it. Waits until the program acknowledged every event that it took. */
int vrb_cq_destroy(struct vrb_cq *cq);

/* EINVAL outside the limits or below the number of waiting entries. */
int vrb_cq_resize(struct vrb_cq *cq, uint32_t entries);

/* Takes up to n completions; drives the network once if there is none. -1: the CQ is in error. */
int vrb_cq_poll(struct vrb_cq *cq, int n, struct ibv_wc *wc);

/*
 * Asks for an event at the next (solicited) completion; one that is already waiting does not
 * count.
 */
void vrb_cq_arm(struct vrb_cq *cq, bool solicited_only);

/* Takes the oldest completion; false if there is none. For the extended form. */
bool vrb_cq_take(struct vrb_cq *cq, struct vrb_cqe *cqe);

/*
 * Holds events back until `count` completions or `usec` after the first of them; 0 lifts that
 * limit.
 */
void vrb_cq_moderate(struct vrb_cq *cq, uint16_t count, uint16_t usec);

/*
 * Adds a completion of qp and raises the completion event if it is due; that of a receive at the end of the thread's round (round.h), if it is in
 * one.  On overrun raises CQ_ERR and has the CQ's QPs failed from the drive.  Takes cq->lock; the caller may hold the QP's.
 */
void vrb_cq_add(struct vrb_cq *cq, struct vrb_qp *qp, const struct wq_cqe *wc, uint64_t now);

/*
 * The same for the CQ that an SRQ has itself; the completion outlives the QP it is about (qp_num; 0:
 * none).  The caller may hold the locks of both.
 */
void vrb_cq_add_srq(struct vrb_srq *srq, uint32_t qp_num, uint32_t *released,
		    const struct wq_cqe *wc, uint64_t now);

/* A round ends that holds the CQ. Takes cq->lock. */
void vrb_cq_show(struct vrb_cq *cq, const struct vrb_round *round);

/* An SRQ that completes into the CQ itself comes and goes. Both take cq->lock. */
void vrb_cq_link_srq(struct vrb_cq *cq, struct vrb_srq *srq);
void vrb_cq_unlink_srq(struct vrb_cq *cq, struct vrb_srq *srq);

/* After an overrun: SRQ_ERR for each of them. Takes cq->lock. */
void vrb_cq_fail_srqs(struct vrb_cq *cq);

/* Drops the entries of a QP or SRQ that is being destroyed or reset. Takes cq->lock. */
void vrb_cq_purge(struct vrb_cq *cq, const void *owner);

/*
 * Called by the drive when the CQ's timer fired: raises a moderated event that is due, and arms
 * the timer again if one is held back. True, once, if the CQ has overrun and its QPs must fail.
 */
bool vrb_cq_timeout(struct vrb_cq *cq, uint64_t now);

/* Fills the function table of the extended form (cq_ex.c). */
void vrb_cq_ex_init(struct vrb_cq *cq);

#endif
