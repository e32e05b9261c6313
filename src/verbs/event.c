/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events. */
#include "core/cq/async_event.h"

#include "core/base/context.h"
#include "verbs/answer.h"

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int err = event ? vrb_context_enter(&context) : EINVAL;

	if (!err)
		err = vrb_event_get(to_vrb_context(context), event);
	return answer_minus(err);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (event)
		vrb_event_ack(event);
}
