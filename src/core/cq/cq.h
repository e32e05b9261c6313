/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, plain and extended, in one object.
 *
 * A ring under cq->lock. QPs add under their own lock (qp -> cq), SRQs with a CQ under theirs;
 * pollers take. Polling an entry returns queue slots to its QP or SRQ, so the entries of a QP or
 * SRQ are purged before it is freed.
 */
#ifndef VRB_CORE_CQ_CQ_H
#define VRB_CORE_CQ_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/live_objects.h"
#include "core/base/object_timer.h"
#include "core/cq/async_event.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"

struct vrb_channel;
struct vrb_context;
struct vrb_pd;
struct vrb_round;
struct vrb_srq;

struct vrb_cqe {
	struct wq_cqe wc;
	const void *owner;	/* the QP or SRQ; its entries are purged when it goes */
	/* set to wc.release when this entry is polled; NULL: nothing to release */
	uint32_t *released;
	uint64_t time_ns;	/* monotonic; 0 without timestamps */
};

enum {
	VRB_CQ_ARM_SOLICITED = 1,
	VRB_CQ_ARM_NEXT = 2,
};

enum {
	VRB_CQ_TIMESTAMPS = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
};

struct vrb_cq {
	union {
		struct ibv_cq ibv;	/* prefix of ex */
		struct ibv_cq_ex ex;
	};
	struct vrb_context *ctx;
	struct list node;	/* in the context's list, under its lock */
	struct vrb_channel *channel;	/* NULL: no completion events */
	struct vrb_pd *parent;		/* the parent domain it was created with, or NULL */
	uint64_t wc_flags;		/* the requested IBV_WC_EX_* flags */
	uint32_t create_flags;
	uint32_t comp_vector;
	bool is_ex;
	bool custom;		/* the ring is of the parent domain's allocator; under lock */
	/* atomic: QPs, SRQs and WQs attached; while not 0, destruction returns EBUSY */
	uint32_t users;
	uint32_t shards;	/* atomic: bit mask of the rx queues of its QPs */

	/*
	 * Extended form only: serialises pollers from ibv_start_poll to ibv_end_poll. Outermost of
	 * all locks, because programs post in between. Unused if the CQ was created
	 * single-threaded.
	 */
	struct lock poll_lock;
	struct vrb_cqe current;	/* the entry that the readers return; poll_lock */
	bool none;	/* the last look found nothing to make current */
	bool polled;	/* atomic: ibv_start_poll() has taken poll_lock */

	struct lock lock;	/* protects everything below except the channel's fields */
	struct vrb_cqe *ring;
	uint32_t mask;		/* entries - 1 */
	/*
	 * Free running. head - tail entries are queued; pollers see those before `shown`, and peek
	 * without the lock.
	 */
	uint32_t head, shown, tail;
	uint32_t holds;		/* rounds that delay entries of this CQ (round.h) */
	const struct vrb_round *held_by;	/* the latest of these */
	uint8_t armed;		/* 0, VRB_CQ_ARM_SOLICITED or VRB_CQ_ARM_NEXT */
	/* CQ_ERR was raised and the CQ accepts nothing; also read without the lock */
	bool overrun;
	bool overrun_reported;	/* the poll loop knows */

	struct list srqs;	/* of struct vrb_srq.cq_node: SRQs that complete into it */

	/*
	 * Moderation: an armed CQ raises its event after `count` completions, or `usec` after the
	 * first.
	 */
	uint16_t moderation_count, moderation_usec;
	uint16_t moderated;	/* completions without an event since the CQ was armed */
	uint64_t moderation_due;	/* VRB_NEVER: no event is delayed */
	bool noted_left;	/* vrb_cq_raise_left() is to come; under cq->lock */
	uint64_t left_due;	/* VRB_NEVER: it was not armed beside completions */
	uint64_t left_since;	/* when it was, while left_due is set */
	uint32_t notified, notified_tail;	/* `shown` and `tail` at the last event */
	uint64_t newest;	/* the last timestamp given out */

	/* For the channel, under channel->queue.lock. */
	struct list event_node;		/* in the queue while event_pending is not 0 */
	uint32_t event_pending;		/* completion events not delivered yet */
	struct list left_node;		/* in channel->left, if noted_left or about to be raised */

	struct object_timer timer;	/* for overrun and delayed events */
	struct vrb_event_acks comp_acks, async_acks;
	struct vrb_live live;
};

static inline struct vrb_cq *to_vrb_cq(struct ibv_cq *cq)
{
	return (struct vrb_cq *)cq;
}

/*
 * Creates a plain or an extended CQ; attr->cqe >= 1. `expire` is the timer's function
 * (vrb_timeout_cq()). Returns 0, EINVAL, ENOMEM or EOPNOTSUPP.
 */
int vrb_cq_create(struct vrb_context *ctx, const struct ibv_cq_init_attr_ex *attr, bool is_ex,
		  void (*expire)(struct object_timer *d, struct expiry *e), struct vrb_cq **cq);

/* Returns EBUSY while in use. Waits until the program has acknowledged every event it took. */
int vrb_cq_destroy(struct vrb_cq *cq);

/* Returns EINVAL outside the limits or below the number of queued entries. */
int vrb_cq_resize(struct vrb_cq *cq, uint32_t entries);

/*
 * Must vrb_cq_add() be given the time at which it is called? Else any earlier time will do. A
 * timestamp is read there.
 */
static inline bool vrb_cq_uses_time(const struct vrb_cq *cq)
{
	return load_relaxed(&cq->moderation_usec);
}

/* A peek without the lock: most polls find nothing. */
static inline bool vrb_cq_looks_empty(const struct vrb_cq *cq)
{
	return load_relaxed(&cq->tail) == load_relaxed(&cq->shown) && !load_relaxed(&cq->overrun);
}

/* Takes up to n visible completions. Returns -1 if there is none and the CQ is in error. */
int vrb_cq_pop_some(struct vrb_cq *cq, int n, struct ibv_wc *wc);

static inline int vrb_cq_take_some(struct vrb_cq *cq, int n, struct ibv_wc *wc)
{
	return vrb_cq_looks_empty(cq) ? 0 : vrb_cq_pop_some(cq, n, wc);
}

/* vrb_cq_arm() (fastpath/event_wait.h) without its progress part. */
void vrb_cq_arm_only(struct vrb_cq *cq, bool solicited_only);

/* Raises the event of an armed CQ that has entries.  The caller may hold the context's lock. */
void vrb_cq_raise_left(struct vrb_cq *cq);

/* For the extended form: takes the oldest completion; false if there is none. */
bool vrb_cq_take(struct vrb_cq *cq, struct vrb_cqe *cqe);

/*
 * Delays events until `count` completions, or `usec` after the first of them; 0 means no such
 * limit.
 */
void vrb_cq_moderate(struct vrb_cq *cq, uint16_t count, uint16_t usec);

/*
 * Adds a completion (fields as in vrb_cqe) and raises the completion event if it is due; for a
 * receive both happen at the end of the thread's round (round.h), if there is one. On overrun it
 * raises CQ_ERR and the poll loop fails the CQ's QPs. `now` is the timestamp if wc->timed. Takes
 * cq->lock; the caller may hold the QP's.
 */
void vrb_cq_add(struct vrb_cq *cq, const void *owner, uint32_t *released, uint32_t qp_num,
		const struct wq_cqe *wc, uint64_t now);

/* Ends a round's hold on the CQ. Takes cq->lock. */
void vrb_cq_show(struct vrb_cq *cq, const struct vrb_round *round);

/* Will an entry release slots of this queue, when it is polled? Takes cq->lock. */
bool vrb_cq_releases(struct vrb_cq *cq, const uint32_t *released);

/* Drops the entries of a QP or SRQ that is being destroyed or reset. Takes cq->lock. */
void vrb_cq_purge(struct vrb_cq *cq, const void *owner);

/* Fails the CQ as if it had overrun: raises CQ_ERR, and its QPs fail soon. */
void vrb_cq_fail(struct vrb_cq *cq, uint64_t now);

/*
 * Called by the poll loop when the timer fires: raises a moderated event that is due, else sets the
 * timer again. Returns true once if the CQ has overrun and its QPs must fail.
 */
bool vrb_cq_timeout(struct vrb_cq *cq, uint64_t now);

#endif
