/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: basic, XRC, and those that match tags (tm.h).
 *
 * A FIFO ring under srq->lock.  A QP copies the entry that it takes, so a slot is free as soon as
 * it is taken.
 *
 * An SRQ whose own CQ has overrun is in error for good, because it can report no receive any more:
 * SRQ_ERR, nothing can be posted, modified or queried, and a QP that wants an entry fails.
 */
#ifndef VRB_CORE_SRQ_H
#define VRB_CORE_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/live.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/wqe.h"

struct vrb_context;
struct vrb_cq;
struct vrb_pd;
struct vrb_tm;
struct vrb_xrcd;

struct vrb_srq {
	struct ibv_srq ibv;
	/* where the ibv_srq of MLNX_OFED 4 goes on; verbs/legacy_xrc.c writes it */
	uint64_t legacy_xrc[6];
	struct vrb_context *ctx;
	struct vrb_pd *pd;
	struct vrb_xrcd *xrcd;	/* XRC: its domain */
	struct vrb_cq *cq;	/* XRC, TM: where completions go; NULL: to the QP's */
	struct vrb_tm *tm;	/* TM: its matching list; contents under lock */
	enum ibv_srq_type type;
	uint32_t srqn;		/* 24 bits, unique on the host if XRC, else in the process */
	uint32_t users;		/* atomic: QPs attached; destroy refuses while not 0 */
	struct list node;	/* XRC: in its domain's list */
	struct list cq_node;	/* in cq->srqs */

	struct lock lock;	/* everything below */
	struct wq_ring ring;
	uint32_t head, tail;	/* free running */
	/* armed limit, 0 = none: an event when fewer entries than this are left */
	uint32_t limit;
	struct vrb_live live;
};

static inline struct vrb_srq *to_vrb_srq(struct ibv_srq *srq)
{
	return (struct vrb_srq *)srq;
}

/* Is it in error? Without locks: whoever asks too early finds out with its next completion. */
bool vrb_srq_failed(const struct vrb_srq *srq);

/* Writes the granted sizes back to attr->attr. Returns 0, EINVAL, ENOMEM, EOPNOTSUPP. */
int vrb_srq_create(struct vrb_context *ctx, struct ibv_srq_init_attr_ex *attr,
		   struct vrb_srq **srq);
int vrb_srq_destroy(struct vrb_srq *srq);	/* EBUSY while a QP uses it */
int vrb_srq_modify(struct vrb_srq *srq, const struct ibv_srq_attr *attr, int mask);
int vrb_srq_query(struct vrb_srq *srq, struct ibv_srq_attr *attr);

/*
 * Moves the oldest entry into *copy, which has room for the SRQ's max_sge; false if there is none.
 * Raises SRQ_LIMIT_REACHED.
 */
bool vrb_srq_take(struct vrb_srq *srq, struct recv_wqe *copy);

/* How many entries are posted. */
uint32_t vrb_srq_waiting(struct vrb_srq *srq);

/* The same with the lock held; *limit: the caller raises SRQ_LIMIT_REACHED once it is not. */
bool vrb_srq_take_locked(struct vrb_srq *srq, struct recv_wqe *copy, bool *limit);

#endif
