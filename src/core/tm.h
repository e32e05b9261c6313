/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: operations on the list of an SRQ, and what becomes of the messages that arrive for
 * it. docs/TAGS.md has the rules.
 */
#ifndef VRB_CORE_TM_H
#define VRB_CORE_TM_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/tags.h"
#include "wq/qp.h"

struct vrb_qp;
struct vrb_srq;

enum {
	TM_MAX_OPS = 1 << 16,
	/* A rendezvous request is one packet at any path MTU. */
	TM_MAX_REQUEST = 256,
};

/* What an SRQ of type IBV_SRQT_TM has besides; under srq->lock. */
struct vrb_tm {
	struct tags tags;
	uint32_t max_ops;
	uint32_t ops;		/* posted, free running */
	uint32_t released;	/* atomic: stored by pollers, as in wq/wqe.h */
};

enum vrb_arrival_kind {
	ARRIVAL_NONE,		/* or nothing that concerns tag matching */
	ARRIVAL_NO_TAG,
	ARRIVAL_UNEXPECTED,	/* counted */
	ARRIVAL_EAGER,		/* the rest have a tag */
	ARRIVAL_RENDEZVOUS,	/* the device's */
	ARRIVAL_LEFT,		/* a rendezvous that is left to the program */
};

/* What the message that a QP is receiving turned out to be; under qp->lock. */
struct vrb_arrival {
	uint8_t kind;		/* enum vrb_arrival_kind */
	bool told;		/* the match has its completion */
	uint16_t why;		/* ARRIVAL_LEFT: enum reason */
	struct tag *tag;
	uint64_t message;	/* the tag in its header */
	uint32_t priv;
	struct recv_wqe *wqe;	/* room for what a tag's buffer looks like to the engine */
};

/* Returns 0, EINVAL, ENOMEM. */
int vrb_tm_create(const struct ibv_tm_cap *cap, struct vrb_tm **tm);
void vrb_tm_free(struct vrb_tm *tm);	/* NULL too */

/* ibv_post_srq_ops(). Returns 0, EINVAL, ENOMEM. Takes srq->lock. */
int vrb_tm_post(struct vrb_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);

/* wq_ops.recv_take and the ends of what it took, for a QP whose SRQ matches tags. Must hold qp->lock. */
struct recv_wqe *vrb_tm_take(struct vrb_qp *qp, const struct wq_head *head, enum reason *why);
void vrb_tm_complete(struct vrb_qp *qp, struct wq_cqe *cqe);

/* The message is not received after all: as if it had not come, as far as nobody was told of it. */
void vrb_tm_undo(struct vrb_qp *qp);

/* The last completion of a tag, which is free then. Must hold qp->lock. */
void vrb_tm_finish(struct vrb_qp *qp, struct tag *tag, struct wq_cqe *cqe);

#endif
