/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and their events. */
#include "core/cq/async_event.h"
#include "core/cq/cq.h"

#include "core/base/context.h"
#include "core/cq/comp_channel.h"
#include "core/fastpath/event_wait.h"
#include "core/fastpath/poll.h"
#include "core/progress/timeouts.h"
#include "util/compiler.h"
#include "verbs/answer.h"
#include "verbs/ops.h"
#include "verbs/tap.h"

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
				struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct vrb_cq *cq;
	int err = vrb_context_enter(&context);

	if (!err)
		err = vrb_cq_create(to_vrb_context(context), &attr, false, vrb_timeout_cq, &cq);
	return err ? answer_null(err) : &cq->ibv;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	return TAP_POINTER(create_cq, context, cqe, cq_context, channel, comp_vector);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct vrb_cq *cq;
	int err = attr ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_cq_create(to_vrb_context(context), attr, true, vrb_timeout_cq, &cq);
	if (err)
		return answer_null(err);
	vrb_cq_ex_init(cq);
	if (tapped())
		vrb_tap_cq(&cq->ex);
	return &cq->ex;
}

struct ibv_cq_ex *op_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	return TAP_POINTER(create_cq_ex, context, attr);
}

static int check(struct ibv_cq *cq)
{
	return vrb_object_check(cq);
}

static int resize_cq(struct ibv_cq *cq, int cqe)
{
	int err = check(cq);

	if (!err && cqe < 1)
		err = EINVAL;
	return answer(err ? err : vrb_cq_resize(to_vrb_cq(cq), cqe));
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	return TAP_ERRNO(resize_cq, cq, cqe);
}

static int destroy_cq(struct ibv_cq *cq)
{
	int err = check(cq);

	return answer(err ? err : vrb_cq_destroy(to_vrb_cq(cq)));
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return TAP_ERRNO(destroy_cq, cq);
}

int op_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	if (unlikely(vrb_context_check(cq->context)))
		return -1;
	return vrb_cq_poll(to_vrb_cq(cq), n, wc);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	int err = vrb_context_check(cq->context);

	if (!err)
		vrb_cq_arm(to_vrb_cq(cq), solicited_only);
	return answer(err);
}

int op_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return TAP_ERRNO(req_notify_cq, cq, solicited_only);
}

static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	int err = attr ? vrb_context_check(cq->context) : EINVAL;

	if (!err && attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		err = EINVAL; /* as from rdma-core */
	if (!err && attr->attr_mask & IBV_CQ_ATTR_MODERATE)
		vrb_cq_moderate(to_vrb_cq(cq), attr->moderate.cq_count, attr->moderate.cq_period);
	return answer(err);
}

int op_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	return TAP_ERRNO(modify_cq, cq, attr);
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct vrb_channel *channel;
	int err = vrb_context_enter(&context);

	if (!err)
		err = vrb_channel_create(to_vrb_context(context), &channel);
	return err ? answer_null(err) : &channel->ibv;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return TAP_POINTER(create_comp_channel, context);
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	int err = !channel                 ? EINVAL
		  : !vrb_live_has(channel) ? ENOENT
					   : vrb_context_check(channel->context);

	return answer(err ? err : vrb_channel_destroy(to_vrb_channel(channel)));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return TAP_ERRNO(destroy_comp_channel, channel);
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct vrb_cq *from;
	int err = channel && cq && cq_context ? vrb_context_check(channel->context) : EINVAL;

	if (!err)
		err = vrb_channel_take(to_vrb_channel(channel), &from);
	if (!err) {
		*cq = &from->ibv;
		*cq_context = from->ibv.cq_context;
	}
	return answer_minus(err);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	return TAP_MINUS(get_cq_event, channel, cq, cq_context);
}

static int ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (cq && !vrb_context_check(cq->context))
		vrb_event_acked(&to_vrb_cq(cq)->comp_acks, nevents);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	TAP_NOTHING(ack_cq_events, cq, nevents);
}
