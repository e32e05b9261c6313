/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/context.h"

#include <errno.h>

#include "util/compiler.h"

int (*vrb_context_enter_successor)(struct ibv_context **c);

int vrb_context_enter(struct ibv_context **c)
{
	int err = vrb_context_check(*c);

	return likely(err != ENODEV) ? err : vrb_context_enter_successor(c);
}

int vrb_context_take(struct vrb_context *ctx, unsigned int *counter, int limit)
{
	int err = 0;

	pthread_mutex_lock(&ctx->lock);
	if (*counter >= (unsigned int)limit)
		err = ENOMEM;
	else
		++*counter;
	pthread_mutex_unlock(&ctx->lock);
	return err;
}

void vrb_context_give(struct vrb_context *ctx, unsigned int *counter)
{
	pthread_mutex_lock(&ctx->lock);
	--*counter;
	pthread_mutex_unlock(&ctx->lock);
}
