/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching: operations on an SRQ's matching list, and delivery of the messages that arrive.
 * docs/TAGS.md has the rules.
 */
#ifndef VRB_CORE_QP_TAG_MATCH_H
#define VRB_CORE_QP_TAG_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "core/base/limits.h"
#include "wq/qp.h"
#include "wq/tag_list.h"

struct vrb_qp;
struct vrb_srq;

/* Additional state of an SRQ of type IBV_SRQT_TM; under srq->lock. */
struct vrb_tm {
	struct tags tags;
	uint32_t max_ops;
	uint32_t ops;		/* posted operations, free running */
	uint32_t released;	/* atomic: stored by pollers, as in wq/wqe.h */
};

enum vrb_arrival_kind {
	TM_MESSAGE_NONE,		/* no message, or one without tag matching */
	TM_MESSAGE_NO_TAG,
	TM_MESSAGE_UNEXPECTED,	/* counted as unexpected */
	TM_MESSAGE_EAGER,		/* this and the following have matched a tag */
	TM_MESSAGE_RENDEZVOUS,	/* the device fetches the data */
	TM_MESSAGE_LEFT,		/* a rendezvous that is left to the program */
};

/* The message that a QP is receiving; under qp->lock. */
struct vrb_tm_message {
	uint8_t kind;		/* enum vrb_arrival_kind */
	bool raised;		/* the completion of the match has been raised */
	uint16_t why;		/* TM_MESSAGE_LEFT: enum reason */
	struct tag *tag;
	uint64_t message;	/* the tag in its header */
	uint32_t priv;
	struct recv_wqe *wqe;	/* describes a tag's buffer to the engine */
};

/* Returns 0, EINVAL, ENOMEM. */
int vrb_tm_create(const struct ibv_tm_cap *cap, struct vrb_tm **tm);
void vrb_tm_free(struct vrb_tm *tm);	/* accepts NULL */

/* ibv_post_srq_ops(). Returns 0, EINVAL, ENOMEM. Takes srq->lock. */
int vrb_tm_post(struct vrb_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);

/*
 * wq_ops.recv_take and the completion of a receive, for a QP whose SRQ matches tags. Must hold
 * qp->lock.
 */
struct recv_wqe *vrb_tm_take(struct vrb_qp *qp, const struct wq_head *head, enum reason *why);
void vrb_tm_complete(struct vrb_qp *qp, struct wq_cqe *cqe);

/* Undoes the match, unless a completion was already raised. */
void vrb_tm_undo(struct vrb_qp *qp);

/* Releases a tag and raises its last completion. Must hold qp->lock. */
void vrb_tm_finish(struct vrb_qp *qp, struct tag *tag, struct wq_cqe *cqe);

#endif
