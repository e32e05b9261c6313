/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, the plain and the extended form in one object. */
#ifndef VRB_CORE_CQ_H
#define VRB_CORE_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"

struct vrb_qp;

struct vrb_cqe {
	struct wq_cqe wc;
	struct vrb_qp *qp;	/* for qp_num and to release queue slots; entries of a destroyed QP are purged */
	uint32_t qp_num;
	uint64_t time_ns;	/* monotonic; 0 if nobody asked for timestamps */
};

struct vrb_cq {
	union {
		struct ibv_cq ibv;	/* prefix of ex */
		struct ibv_cq_ex ex;
	};
	struct lock lock;	/* ring, arming, overrun */
	struct vrb_cqe *ring;
	uint32_t mask;
	uint32_t head, tail;	/* free running; head - tail entries wait */
	uint8_t armed;		/* 0, VRB_CQ_ARM_SOLICITED or VRB_CQ_ARM_NEXT */
	bool overrun;		/* IBV_EVENT_CQ_ERR was raised; the CQ accepts nothing more */
	bool is_ex;
	uint32_t users;		/* atomic: QPs, SRQs and WQs attached; destroy refuses */
	/* moderation, extended polling state, channel queue node: cq.c's */
	struct vrb_cqe current;	/* ibv_start_poll .. ibv_end_poll */
	uint64_t wc_flags;	/* IBV_WC_EX_* asked for */
	uint32_t create_flags;
	uint16_t moderation_count, moderation_usec;
	uint16_t pending_count;
	struct list event_node;
	uint32_t comp_events;	/* completion events handed out, to be acknowledged */
	uint32_t async_events;
};

enum {
	VRB_CQ_ARM_SOLICITED = 1,
	VRB_CQ_ARM_NEXT = 2,
};

static inline struct vrb_cq *to_vrb_cq(struct ibv_cq *cq)
{
	return (struct vrb_cq *)cq;
}

/* Adds a completion of qp; raises the completion event if armed; on overrun raises CQ_ERR and fails the CQ's QPs later. Takes cq->lock. */
void vrb_cq_add(struct vrb_cq *cq, struct vrb_qp *qp, const struct wq_cqe *wc, uint64_t now);

/* Drops the entries of a QP that is being destroyed or reset. Takes cq->lock. */
void vrb_cq_purge(struct vrb_cq *cq, const struct vrb_qp *qp);

#endif
