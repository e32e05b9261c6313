/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/control/qp_init.h"

#include <errno.h>

#include "core/base/context.h"
#include "core/base/ring.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/mem/pd.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/qp/wr_check.h"
#include "run/log.h"
#include "util/compiler.h"

enum {
	INIT_MASK = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
		    IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | QP_INIT_RSS,
	/* The minimum granted; programs exist that assume two. */
	MIN_SEND_SGE = 2,
	/*
	 * Depths are rounded up, as devices do, and to at least this. Programs that ask for a depth
	 * of one rely on the slack when completions of two queues arrive in an unexpected order;
	 * some ask for none and post, as mlx4 lets them (rdma-pipe).
	 */
	MIN_WR = 16,
	INLINE_UNIT = 64,	/* granularity of inline space, as on mlx5 */
};

static const struct qp_shape shapes[] = {
	{ IBV_QPT_RC, true, true, false },
	{ IBV_QPT_UC, true, true, false },
	{ IBV_QPT_UD, true, true, false },
	{ IBV_QPT_XRC_SEND, true, false, false },
	{ IBV_QPT_XRC_RECV, false, false, true },
	{ IBV_QPT_RAW_PACKET, true, true, false },
};

const struct qp_shape qp_shape_wq = { IBV_QPT_RAW_PACKET, false, true, false };

/* Spreads frames over work queues and has no queue of its own. */
static const struct qp_shape rss_shape = { IBV_QPT_RAW_PACKET, false, false, false };

const struct qp_shape *qp_shape_of(const struct ibv_qp_init_attr_ex *a)
{
	if (a->qp_type == IBV_QPT_RAW_PACKET && qp_init_has(a, QP_INIT_RSS))
		return &rss_shape;
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (shapes[i].type == a->qp_type)
			return &shapes[i];
	return NULL;
}

uint32_t qp_init_tso_header(const struct ibv_qp_init_attr_ex *a)
{
	return qp_init_has(a, IBV_QP_INIT_ATTR_MAX_TSO_HEADER) ? a->max_tso_header : 0;
}

static bool tso_ok(const struct ibv_qp_init_attr_ex *a)
{
	return !qp_init_tso_header(a) ||
	       ((a->qp_type == IBV_QPT_UD || a->qp_type == IBV_QPT_RAW_PACKET) &&
		a->max_tso_header <= VRB_MAX_TSO_HEADER);
}

/* Each requested ibv_wr_* operation must be legal for the QP type. */
static bool send_ops_ok(const struct ibv_qp_init_attr_ex *a)
{
	static const uint8_t opcode[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO, IBV_WR_FLUSH,
		IBV_WR_ATOMIC_WRITE,
	};
	uint64_t flags = a->send_ops_flags;

	if (flags >> ARRAY_SIZE(opcode))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(opcode); i++)
		if ((flags >> i & 1) && !wr_opcode_legal(a->qp_type, opcode[i]))
			return false;
	return true;
}

/*
 * Blocking the QP's own multicast loopback means something on UD only, but mlx4 and mlx5 accept it
 * on every type; a raw packet QP may strip VLAN tags on receive.
 */
static bool create_flags_ok(const struct ibv_qp_init_attr_ex *a)
{
	uint32_t legal = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;

	if (a->qp_type == IBV_QPT_RAW_PACKET)
		legal |= IBV_QP_CREATE_CVLAN_STRIPPING;
	return !(a->create_flags & ~legal);
}

/* RSS needs both a hash and an indirection table. */
static bool rss_ok(const struct ibv_qp_init_attr_ex *a)
{
	return !qp_init_has(a, QP_INIT_RSS) ||
	       (a->qp_type == IBV_QPT_RAW_PACKET && (a->comp_mask & QP_INIT_RSS) == QP_INIT_RSS);
}

static int check_extras(const struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask & ~INIT_MASK)
		return EOPNOTSUPP;
	if (qp_init_has(a, IBV_QP_INIT_ATTR_CREATE_FLAGS) && !create_flags_ok(a))
		return EOPNOTSUPP;
	if (!tso_ok(a))
		return EOPNOTSUPP;
	if (!rss_ok(a))
		return EINVAL;
	if (qp_init_has(a, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) && !send_ops_ok(a))
		return EOPNOTSUPP;
	return 0;
}

static bool belongs(const struct vrb_context *ctx, const struct ibv_context *c)
{
	return c == &ctx->vctx.context;
}

/* Tags are matched on RC only (IBV_TM_CAP_RC). XRC names its SRQ by number. */
static bool srq_serves(const struct vrb_srq *srq, enum ibv_qp_type type)
{
	return srq->type == IBV_SRQT_BASIC || (srq->type == IBV_SRQT_TM && type == IBV_QPT_RC);
}

static int check_cq(const struct vrb_context *ctx, struct ibv_cq *cq)
{
	int err = vrb_object_check(cq);

	return err || belongs(ctx, cq->context) ? err : EINVAL;
}

static int check_srq(const struct vrb_context *ctx, struct ibv_srq *srq, enum ibv_qp_type type)
{
	int err = vrb_object_check(srq);

	if (!err && !(belongs(ctx, srq->context) && srq_serves(to_vrb_srq(srq), type)))
		err = EINVAL;
	return err;
}

static int check_receiver(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a,
			  const struct qp_shape *s)
{
	int err = a->srq ? check_srq(ctx, a->srq, s->type) : 0;

	/* If completions go to the SRQ's CQ, the QP needs no receive CQ. */
	if (err || (!a->recv_cq && a->srq && to_vrb_srq(a->srq)->cq))
		return err;
	return check_cq(ctx, a->recv_cq);
}

static int check_objects(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a,
			 const struct qp_shape *s)
{
	int err;

	if (s->shared)
		return qp_init_has(a, IBV_QP_INIT_ATTR_XRCD) && a->xrcd &&
			       belongs(ctx, a->xrcd->context) ? 0 : EINVAL;
	if (!qp_init_has(a, IBV_QP_INIT_ATTR_PD))
		return EINVAL;
	err = vrb_pd_check(a->pd);
	if (!err && !belongs(ctx, a->pd->context))
		err = EINVAL;
	if (!err && s->sends)
		err = check_cq(ctx, a->send_cq);
	if (err)
		return err;
	/* The SRQ of a send-only QP is ignored, as in the kernel. */
	return s->receives ? check_receiver(ctx, a, s) : 0;
}

static int check_caps(const struct ibv_qp_cap *cap, const struct qp_shape *s, bool srq)
{
	const struct ibv_device_attr *dev = &vrb_device_limits.orig_attr;
	const struct {
		const char *name;
		uint32_t wanted, limit;
		bool counts;
	} rows[] = {
		{ "max_send_wr", cap->max_send_wr, (uint32_t)dev->max_qp_wr, s->sends },
		{ "max_send_sge", cap->max_send_sge, (uint32_t)dev->max_sge, s->sends },
		{ "max_inline_data", cap->max_inline_data, VRB_MAX_INLINE, s->sends },
		{ "max_recv_wr", cap->max_recv_wr, (uint32_t)dev->max_qp_wr, s->receives && !srq },
		{ "max_recv_sge", cap->max_recv_sge, (uint32_t)dev->max_sge, s->receives && !srq },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].counts && rows[i].wanted > rows[i].limit) {
			log_info(LOG_CORE, "ibv_create_qp: %s is %u, but the device's limit is %u",
				 rows[i].name, rows[i].wanted, rows[i].limit);
			return EINVAL;
		}
	return 0;
}

static int refused(int err, const char *why)
{
	log_info(LOG_CORE, "ibv_create_qp: %s", why);
	return err;
}

int qp_init_check(struct vrb_context *ctx, const struct ibv_qp_init_attr_ex *a,
		      const struct qp_shape *s)
{
	int ret;

	if (!s)
		return refused(a->qp_type == IBV_QPT_DRIVER ? EOPNOTSUPP : EINVAL,
			       "the device has no QPs of this type");
	ret = check_extras(a);
	if (ret)
		return refused(ret, "a flag or an operation that this type of QP does not have");
	ret = check_objects(ctx, a, s);
	if (ret)
		return refused(ret, "domain, CQ or SRQ is missing, destroyed, of another context "
				    "or of the wrong kind");
	return check_caps(&a->cap, s, a->srq);
}

static uint32_t grant_depth(uint32_t wanted)
{
	return max(ring_round_up(wanted), (uint32_t)MIN_WR);
}

void qp_init_grant(struct ibv_qp_cap *cap, const struct qp_shape *s, bool srq)
{
	if (s->sends) {
		cap->max_send_wr = grant_depth(cap->max_send_wr);
		cap->max_send_sge = max(ring_round_up(cap->max_send_sge), (uint32_t)MIN_SEND_SGE);
		cap->max_inline_data =
			max((cap->max_inline_data + INLINE_UNIT - 1) / INLINE_UNIT * INLINE_UNIT,
			    cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge));
	} else {
		cap->max_send_wr = cap->max_send_sge = cap->max_inline_data = 0;
	}
	if (!s->receives || srq) {
		cap->max_recv_wr = cap->max_recv_sge = 0;
	} else {
		cap->max_recv_wr = grant_depth(cap->max_recv_wr);
		cap->max_recv_sge = ring_round_up(cap->max_recv_sge);
	}
}
