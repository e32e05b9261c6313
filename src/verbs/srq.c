/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues and XRC domains. */
#include "core/qp/srq.h"

#include "core/base/context.h"
#include "core/fastpath/post.h"
#include "core/mem/pd.h"
#include "core/qp/tag_match.h"
#include "core/qp/xrcd.h"
#include "util/compiler.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

enum {
	XRCD_MASK = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
};

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd };
	struct vrb_srq *srq;
	int err = attr ? vrb_pd_check(pd) : EINVAL;

	if (err)
		return answer_null(err);
	ex.srq_context = attr->srq_context;
	ex.attr = attr->attr;
	err = vrb_srq_create(to_vrb_context(pd->context), &ex, &srq);
	if (err)
		return answer_null(err);
	attr->attr = ex.attr;
	return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return TAP_POINTER(create_srq, pd, attr);
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct vrb_srq *srq;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_srq_create(to_vrb_context(context), attr, &srq);
	return err ? answer_null(err) : &srq->ibv;
}

struct ibv_srq *op_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	return TAP_POINTER(create_srq_ex, context, attr);
}

static int check(struct ibv_srq *srq)
{
	return vrb_object_check(srq);
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	int err = attr ? check(srq) : EINVAL;

	return answer(err ? err : vrb_srq_modify(to_vrb_srq(srq), attr, mask));
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return TAP_ERRNO(modify_srq, srq, attr, mask);
}

static int query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	int err = attr ? check(srq) : EINVAL;

	if (!err)
		err = vrb_srq_query(to_vrb_srq(srq), attr);
	return answer(err);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return TAP_ERRNO(query_srq, srq, attr);
}

static int destroy_srq(struct ibv_srq *srq)
{
	int err = check(srq);

	return answer(err ? err : vrb_srq_destroy(to_vrb_srq(srq)));
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return TAP_ERRNO(destroy_srq, srq);
}

int op_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *unwanted;
	int err = vrb_context_check(srq->context);

	if (!bad)
		bad = &unwanted;
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	return vrb_post_srq_recv(to_vrb_srq(srq), wr, bad);
}

int op_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct ibv_ops_wr *unwanted;
	int err = vrb_context_check(srq->context);

	if (!bad)
		bad = &unwanted;
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	return vrb_tm_post(to_vrb_srq(srq), wr, bad);
}

int op_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	int err = srq_num ? vrb_context_check(srq->context) : EINVAL;

	if (!err)
		*srq_num = to_vrb_srq(srq)->srqn;
	return answer(err);
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct vrb_xrcd *xrcd;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	/* ibv_open_xrcd(3): both members are required. */
	if (!err && attr->comp_mask & ~(uint32_t)XRCD_MASK)
		err = EOPNOTSUPP;
	if (!err && attr->comp_mask != XRCD_MASK)
		err = EINVAL;
	if (!err)
		err = vrb_xrcd_open(to_vrb_context(context), attr->fd, attr->oflags, &xrcd);
	return err ? answer_null(err) : &xrcd->ibv;
}

struct ibv_xrcd *op_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	return TAP_POINTER(open_xrcd, context, attr);
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	int err = xrcd ? vrb_context_check(xrcd->context) : EINVAL;

	return answer(err ? err : vrb_xrcd_close(to_vrb_xrcd(xrcd)));
}

int op_close_xrcd(struct ibv_xrcd *xrcd)
{
	return TAP_ERRNO(close_xrcd, xrcd);
}
