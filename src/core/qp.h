/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: the verbs object around a wq_qp and its engine. */
#ifndef VRB_CORE_QP_H
#define VRB_CORE_QP_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "roce/engine.h"
#include "util/list.h"
#include "util/lock.h"
#include "wq/qp.h"

struct vrb_cq;
struct vrb_pd;
struct vrb_srq;
struct vrb_context;

struct vrb_qp {
	union {
		struct ibv_qp ibv;	/* prefix of ex */
		struct ibv_qp_ex ex;
	};
	struct lock lock;		/* everything below */
	struct wq_qp wq;
	struct roce_qp roce;
	struct vrb_context *ctx;
	struct vrb_pd *pd;
	uint32_t pdn;
	struct vrb_cq *send_cq, *recv_cq;
	struct vrb_srq *srq;
	struct ibv_qp_attr attr;	/* as set by ibv_modify_qp, for ibv_query_qp */
	struct ibv_qp_init_attr_ex init;
	uint64_t send_ops;		/* IBV_QP_EX_WITH_*; 0 = no ibv_wr_* */
	struct recv_wqe *taken;		/* receive held by the transport; copied when it comes from an SRQ */
	struct list timer_node;
	uint32_t async_events;
};

static inline struct vrb_qp *to_vrb_qp(struct ibv_qp *qp)
{
	return (struct vrb_qp *)qp;
}

static inline struct vrb_qp *wq_to_vrb_qp(struct wq_qp *wq)
{
	return container_of(wq, struct vrb_qp, wq);
}

#endif
