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

int vrb_context_take(struct vrb_context *ctx, enum context_object kind, int limit)
{
	int err = 0;

	pthread_mutex_lock(&ctx->lock);
	if (ctx->n[kind] >= (unsigned int)limit)
		err = ENOMEM;
	else
		ctx->n[kind]++;
	pthread_mutex_unlock(&ctx->lock);
	return err;
}

void vrb_context_give(struct vrb_context *ctx, enum context_object kind)
{
	pthread_mutex_lock(&ctx->lock);
	ctx->n[kind]--;
	pthread_mutex_unlock(&ctx->lock);
}

unsigned int vrb_context_objects(struct vrb_context *ctx)
{
	unsigned int n = 0;
	struct list *pos;

	for (unsigned int i = 0; i < CTX_OBJECTS; i++)
		n += ctx->n[i];
	list_for_each (pos, &ctx->dms)
		n++;
	return n;
}
