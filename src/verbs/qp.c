/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: creation and destruction, attributes, posting. */
#include "core/qp/qp.h"

#include <string.h>

#include "core/base/context.h"
#include "core/control/qp_create.h"
#include "core/control/qp_modify.h"
#include "core/device/device.h"
#include "core/fastpath/post.h"
#include "core/mem/pd.h"
#include "core/progress/drain.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_steering.h"
#include "core/xrc/open_qp.h"
#include "core/xrc/remote_handle.h"
#include "util/compiler.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

/*
 * IBV_QPT_XRC of verbs.h with VERBENA_LEGACY_XRC: the sending half, under its name from the time
 * before there were two.
 */
enum { OLD_QPT_XRC = 5 };

static int create(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr, struct vrb_qp **qp)
{
	bool shared = attr->qp_type == IBV_QPT_XRC_RECV;
	int err = vrb_qp_create(to_vrb_context(c), attr, shared ? &vrb_xrc_qp_hooks : NULL, qp);

	if (!err && tapped() && (*qp)->config.wr_calls)
		vrb_tap_qp(&(*qp)->ex);
	return err;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { 0 };
	struct vrb_qp *qp;
	int err = attr ? vrb_pd_check(pd) : EINVAL;

	if (err)
		return answer_null(err);
	memcpy(&ex, attr, sizeof(*attr));	/* the plain form is a prefix of the extended one */
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd;
	if ((int)ex.qp_type == OLD_QPT_XRC)
		ex.qp_type = IBV_QPT_XRC_SEND;
	err = create(pd->context, &ex, &qp);
	if (err)
		return answer_null(err);
	attr->cap = ex.cap;
	return &qp->ibv;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return TAP_POINTER(create_qp, pd, attr);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct vrb_qp *qp;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = create(context, attr, &qp);
	return err ? answer_null(err) : &qp->ibv;
}

struct ibv_qp *op_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return TAP_POINTER(create_qp_ex, context, attr);
}

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	struct vrb_qp *qp;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_qp_open(to_vrb_context(context), attr, &qp);
	return err ? answer_null(err) : &qp->ibv;
}

struct ibv_qp *op_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	return TAP_POINTER(open_qp, context, attr);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp && to_vrb_qp(qp)->config.wr_calls ? &to_vrb_qp(qp)->ex : NULL;
}

static int check(struct ibv_qp *qp)
{
	return vrb_object_check(qp);
}

static int destroy_qp(struct ibv_qp *qp)
{
	int err = check(qp);

	if (err)
		return answer(err);
	if (to_vrb_qp(qp)->config.init.qp_type == IBV_QPT_XRC_RECV)
		return answer(vrb_qp_close(to_vrb_qp(qp)));
	return answer(vrb_qp_destroy(to_vrb_qp(qp)));
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return TAP_ERRNO(destroy_qp, qp);
}

/*
 * qp->state is the state last set here or asked for by ibv_query_qp(): programs read it without a
 * lock, so nothing else writes it. The current state is in wq.state.
 */
static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	int err = attr ? check(qp) : EINVAL;
	struct vrb_qp *target;

	if (err)
		return answer(err);
	if (to_vrb_qp(qp)->config.remote)
		return answer(vrb_remote_modify(to_vrb_qp(qp), attr, attr_mask));
	target = to_vrb_qp(qp)->config.target;
	if (attr_mask & IBV_QP_STATE && vrb_qp_arrived_first(target, attr->qp_state))
		vrb_poll_arrived();
	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		vrb_drain_answers(target);
	if (attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR)
		vrb_steer_settle();
	err = vrb_qp_modify(target, attr, attr_mask);
	if (!err && attr_mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return answer(err);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	return TAP_ERRNO(modify_qp, qp, attr, attr_mask);
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		    struct ibv_qp_init_attr *init_attr)
{
	int err = attr && init_attr ? check(qp) : EINVAL;

	if (err)
		return answer(err);
	if (to_vrb_qp(qp)->config.remote) {
		memcpy(init_attr, &to_vrb_qp(qp)->config.init, sizeof(*init_attr));
		err = vrb_remote_query(to_vrb_qp(qp), attr);
		if (err)
			return answer(err);
	} else {
		vrb_qp_query(to_vrb_qp(qp)->config.target, attr, init_attr);
	}
	init_attr->qp_context = qp->qp_context;
	if (attr_mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr)
{
	return TAP_ERRNO(query_qp, qp, attr, attr_mask, init_attr);
}

/* The typical packet size helps devices that pace by packets; this one counts bytes. */
int op_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	int err = attr && !attr->comp_mask ? check(qp) : EINVAL;

	if (!err)
		err = vrb_qp_set_rate(to_vrb_qp(qp)->config.target, attr->rate_limit,
				      attr->max_burst_sz);
	return answer(err);
}

/* The order in which a message's bytes are written is undefined. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

/*
 * Enhanced connection establishment: the two ends agree on options of their vendor. This device has
 * no options, so it accepts none, whatever the peer's vendor; connections are established without
 * them. Without a vendor rdma-core refuses the call, for all devices.
 */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int err = ece ? check(qp) : EINVAL;

	if (!err)
		*ece = (struct ibv_ece){ .vendor_id = vrb_device_limits.orig_attr.vendor_id };
	return answer(err);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	int err = ece && !ece->comp_mask ? check(qp) : EINVAL;

	if (!err && !ece->vendor_id)
		err = EOPNOTSUPP;
	if (!err)
		ece->options = 0;
	return answer(err);
}

int op_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *unwanted;
	int err = vrb_context_check(qp->context);

	if (!bad)
		bad = &unwanted;
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	return vrb_post_send(to_vrb_qp(qp), wr, bad);
}

int op_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct ibv_recv_wr *unwanted;
	int err = vrb_context_check(qp->context);

	if (!bad)
		bad = &unwanted;
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	return vrb_post_recv(to_vrb_qp(qp), wr, bad);
}
