/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events. */
#include "core/cq/async_event.h"

#include "core/base/context.h"
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
	if (event)
		vrb_event_ack(event);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	TAP_NOTHING(ack_async_event, event);
}
