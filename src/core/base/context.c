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

void vrb_context_add_objects(struct vrb_context *ctx, struct text *t)
{
	static const char *const names[CTX_OBJECTS] = {
		[CTX_PD] = "PDs", [CTX_TD] = "thread domains", [CTX_MR] = "regions",
		[CTX_MW] = "windows", [CTX_AH] = "address handles", [CTX_CQ] = "CQs",
		[CTX_QP] = "QPs", [CTX_SRQ] = "SRQs", [CTX_XRCD] = "XRC domains",
		[CTX_CHANNEL] = "channels", [CTX_CNTR] = "completion counters",
		[CTX_FLOW] = "flows", [CTX_FLOW_COUNT] = "flow counters",
		[CTX_RWQ_TABLE] = "indirection tables",
	};
	unsigned int seen = 0;

	pthread_mutex_lock(&ctx->lock);
	for (unsigned int i = 0; i < CTX_OBJECTS; i++)
		if (ctx->n[i])
			text_add(t, "%s %s %u", seen++ ? "," : "", names[i], ctx->n[i]);
	pthread_mutex_unlock(&ctx->lock);
}
