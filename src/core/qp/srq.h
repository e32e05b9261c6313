/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: basic, XRC and tag matching (tag_match.h).
 *
 * A FIFO ring under srq->lock. A QP copies the entry it takes, so the slot is free at once.
 *
 * If the SRQ's own CQ overruns, the SRQ enters the error state for good, because it can no longer
 * report receives: it raises SRQ_ERR, rejects post, modify and query, and a QP that needs an entry
 * fails.
 */
#ifndef VRB_CORE_QP_SRQ_H
#define VRB_CORE_QP_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/live_objects.h"
#include "core/cq/async_event.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"
#include "wq/wqe.h"

struct vrb_context;
struct vrb_cq;
struct vrb_pd;
struct vrb_tm;
struct vrb_xrcd;

struct vrb_srq {
	struct ibv_srq ibv;
	/* tail of MLNX_OFED 4's struct ibv_srq; verbs/legacy_xrc.c writes it */
	uint64_t legacy_xrc[6];
	struct vrb_context *ctx;
	struct vrb_pd *pd;
	struct vrb_xrcd *xrcd;	/* XRC: its domain */
	struct vrb_cq *cq;	/* XRC, TM: CQ for completions; NULL: the QP's */
	struct vrb_tm *tm;	/* TM: the matching list; contents under lock */
	enum ibv_srq_type type;
	uint32_t srqn;		/* 24 bits, unique on the host if XRC, else in the process */
	uint32_t users;		/* atomic: QPs attached; destroy returns EBUSY unless 0 */
	struct list node;	/* XRC: in its domain's list */
	struct list cq_node;	/* in cq->srqs */
	bool failed;		/* atomic: failed by fault injection */

	struct lock lock;	/* everything below */
	struct wq_ring ring;
	bool custom;		/* the ring is of the PD's allocator */
	uint32_t head, tail;	/* free running */
	/* armed limit, 0: none; raises an event when fewer entries are left */
	uint32_t limit;
	struct vrb_event_acks acks;	/* not under lock */
	struct vrb_live live;
};

static inline struct vrb_srq *to_vrb_srq(struct ibv_srq *srq)
{
	return (struct vrb_srq *)srq;
}

/* Is the SRQ in error? Takes no lock; a concurrent overrun may be noticed late. */
bool vrb_srq_failed(const struct vrb_srq *srq);

/*
 * Moves the SRQ to the error state and raises SRQ_ERR; false: it was in error already. The caller
 * must fail its QPs.
 */
bool vrb_srq_fail(struct vrb_srq *srq);

/* Stores the granted sizes in attr->attr. Returns 0, EINVAL, ENOMEM, EOPNOTSUPP. */
int vrb_srq_create(struct vrb_context *ctx, struct ibv_srq_init_attr_ex *attr,
		   struct vrb_srq **srq);
int vrb_srq_destroy(struct vrb_srq *srq);	/* EBUSY while a QP uses it */
int vrb_srq_modify(struct vrb_srq *srq, const struct ibv_srq_attr *attr, int mask);
int vrb_srq_query(struct vrb_srq *srq, struct ibv_srq_attr *attr);

/*
 * Moves the oldest entry into *copy, which has room for the SRQ's max_sge, and its index into
 * *index; false if there is none. Raises SRQ_LIMIT_REACHED.
 */
bool vrb_srq_take(struct vrb_srq *srq, struct recv_wqe *copy, uint32_t *index);

/* The number of posted entries. */
uint32_t vrb_srq_waiting(struct vrb_srq *srq);

/*
 * As vrb_srq_take(), for a caller that holds srq->lock. If *limit, the caller must raise
 * SRQ_LIMIT_REACHED after it has released the lock.
 */
bool vrb_srq_take_locked(struct vrb_srq *srq, struct recv_wqe *copy, uint32_t *index, bool *limit);

/*
 * Adds a completion to the SRQ's own CQ. The completion outlives its QP (qp_num; 0: none). index:
 * of its receive in the SRQ, or TAP_NO_INDEX. The caller may hold the QP's and the SRQ's lock.
 */
void vrb_cq_add_srq(struct vrb_srq *srq, uint32_t qp_num, uint32_t *released,
		    const struct wq_cqe *wc, uint32_t index, uint64_t now);

/* Raises SRQ_ERR for each SRQ of an overrun CQ. Takes cq->lock. */
void vrb_cq_fail_srqs(struct vrb_cq *cq);

#endif
