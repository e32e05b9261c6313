/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting and polling as places of core/base/tap.h: their tapped forms enter the tables of
 * contexts, and of extended QPs and CQs, when something is attached, so that without it they cost
 * nothing. Programs read the tables in inline functions while an entry changes: a pointer, which is
 * there or not yet. A post that is refused is refused from its first request on.
 */
#include "verbs/tap.h"

#include "core/fastpath/poll.h"
#include "core/fastpath/post.h"
#include "verbs/ops.h"

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return op_post_send(qp, wr, bad);
}

static int tapped_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *first = wr;
	int err = TAP_ERRNO(post_send, qp, wr, &first);

	if (err && bad)
		*bad = first;
	return err;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return op_post_recv(qp, wr, bad);
}

static int tapped_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *first = wr;
	int err = TAP_ERRNO(post_recv, qp, wr, &first);

	if (err && bad)
		*bad = first;
	return err;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return op_post_srq_recv(srq, wr, bad);
}

static int tapped_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
				struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *first = wr;
	int err = TAP_ERRNO(post_srq_recv, srq, wr, &first);

	if (err && bad)
		*bad = first;
	return err;
}

static int post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	return op_post_srq_ops(srq, wr, bad);
}

static int tapped_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct ibv_ops_wr *first = wr;
	int err = TAP_ERRNO(post_srq_ops, srq, wr, &first);

	if (err && bad)
		*bad = first;
	return err;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return op_poll_cq(cq, n, wc);
}

static int tapped_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return TAP_MINUS(poll_cq, cq, n, wc);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return vrb_cq_start_poll(cq, attr);
}

static int tapped_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return TAP_ERRNO(start_poll, cq, attr);
}

static int next_poll(struct ibv_cq_ex *cq)
{
	return vrb_cq_next_poll(cq);
}

static int tapped_next_poll(struct ibv_cq_ex *cq)
{
	return TAP_ERRNO(next_poll, cq);
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	return vrb_wr_complete(qp);
}

/* One that is not made still ends what ibv_wr_start began. */
static int refuse_batch(struct ibv_qp_ex *qp, int err)
{
	vrb_wr_abort(qp);
	return err;
}

static int tapped_wr_complete(struct ibv_qp_ex *qp)
{
	return TAP_CALL(wr_complete, refuse_batch(qp, call_.err), result_, 0, qp);
}

void vrb_tap_cq(struct ibv_cq_ex *cq)
{
	cq->start_poll = tapped_start_poll;
	cq->next_poll = tapped_next_poll;
}

void vrb_tap_qp(struct ibv_qp_ex *qp)
{
	qp->wr_complete = tapped_wr_complete;
}

void vrb_tap_ops(struct verbs_context *vctx)
{
	store_relaxed(&vctx->context.ops.post_send, tapped_post_send);
	store_relaxed(&vctx->context.ops.post_recv, tapped_post_recv);
	store_relaxed(&vctx->context.ops.post_srq_recv, tapped_post_srq_recv);
	store_relaxed(&vctx->context.ops.poll_cq, tapped_poll_cq);
	store_relaxed(&vctx->post_srq_ops, tapped_post_srq_ops);
}
