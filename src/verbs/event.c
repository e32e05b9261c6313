/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events. */
#include "core/cq/async_event.h"

#include "core/base/context.h"
#include "core/cq/cq.h"
#include "core/qp/qp.h"
#include "core/qp/srq.h"
#include "core/raw/rss.h"
#include "verbs/answer.h"
#include "verbs/tap.h"

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int err = event ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_event_get(to_vrb_context(context), event);
	return answer_minus(err);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	return TAP_MINUS(get_async_event, context, event);
}

static int ack_async_event(struct ibv_async_event *event)
{
	switch (event ? vrb_event_object(event->event_type) : VRB_EVENT_OF_PORT) {
	case VRB_EVENT_OF_CQ:
		vrb_event_acked(&to_vrb_cq(event->element.cq)->async_acks, 1);
		break;
	case VRB_EVENT_OF_QP:
		vrb_event_acked(&to_vrb_qp(event->element.qp)->acks, 1);
		break;
	case VRB_EVENT_OF_SRQ:
		vrb_event_acked(&to_vrb_srq(event->element.srq)->acks, 1);
		break;
	case VRB_EVENT_OF_WQ:
		vrb_event_acked(&to_vrb_wq(event->element.wq)->qp->acks, 1);
		break;
	case VRB_EVENT_OF_PORT:
		break;
	}
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	TAP_NOTHING(ack_async_event, event);
}
