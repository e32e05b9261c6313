/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC QPs for tests of the rooms below control, with a send queue and no receives. They need a
 * context from core_env.h, and vrb.host.
 */
#ifndef VRB_TESTS_CORE_QP_H
#define VRB_TESTS_CORE_QP_H

#include "core_env.h"

#include "core/base/ring.h"
#include "core/mem/pd.h"
#include "core/qp/qp.h"
#include "host/host.h"

enum { CORE_QP_DEPTH = 4 };

static inline struct vrb_qp *core_qp_new(struct vrb_context *ctx, struct vrb_pd *pd,
					 const struct wq_ops *ops)
{
	struct vrb_qp *qp = calloc(1, sizeof(*qp));
	struct wq_ring *ring;

	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_RC, ops);
	qp->config.ctx = ctx;
	qp->config.pd = pd;
	qp->post.senders = vrb_pd_senders(pd);
	qp->wq.pdn = qp->wq.send_pdn = qp->wq.recv_pdn = pd->pdn;
	ring = &qp->wq.sq.ring;
	ring_shape(ring, CORE_QP_DEPTH, 1, sizeof(struct send_wqe) + sizeof(struct ibv_sge));
	assert_true(ring_has_memory(ring));
	assert_int_equal(host_qpn_alloc(vrb.host, 0, &qp->wq.qpn), 0);
	return qp;
}

static inline void core_qp_free(struct vrb_qp *qp)
{
	host_qpn_free(vrb.host, qp->wq.qpn);
	vrb_qp_fini(qp);
	free(qp->wq.sq.ring.slots);
	free(qp);
}

/* Puts a request into the send queue; sge may be NULL. Nothing is sent before vrb_doorbell(). */
static inline struct send_wqe *core_qp_fill(struct vrb_qp *qp, enum ibv_wr_opcode opcode,
					    const struct ibv_sge *sge)
{
	struct send_wqe *w = sq_wqe(&qp->wq.sq, qp->wq.sq.head++);

	*w = (struct send_wqe){ .opcode = opcode, .flags = WQE_SIGNALED };
	if (sge) {
		w->num_sge = 1;
		w->sge[0] = *sge;
		w->length = sge->length;
	}
	return w;
}

#endif
