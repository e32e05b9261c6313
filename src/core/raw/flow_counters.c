/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of flows; flow_counters.h documents the interface. */
#include "core/raw/flow_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/in_use.h"
#include "util/atomic.h"

enum {
	MAX_COUNTERS = 1 << 16,
	MAX_INDEX = 8191, /* as on hardware */
	MAX_POINTS = 2 * (MAX_INDEX + 1),
	READ_FLAGS = IBV_READ_COUNTERS_ATTR_PREFER_CACHED,
};

int vrb_flow_count_create(struct vrb_context *ctx, const struct ibv_counters_init_attr *attr,
			  struct vrb_flow_count **out)
{
	struct vrb_flow_count *c;
	int err;

	if (attr->comp_mask)
		return EOPNOTSUPP;
	err = vrb_context_take(ctx, CTX_FLOW_COUNT, MAX_COUNTERS);
	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c) {
		vrb_context_give(ctx, CTX_FLOW_COUNT);
		return ENOMEM;
	}
	c->ctx = ctx;
	c->ibv.context = &ctx->vctx.context;
	*out = c;
	return 0;
}

int vrb_flow_count_destroy(struct vrb_flow_count *c)
{
	struct vrb_context *ctx = c->ctx;
	uint32_t flows;

	pthread_mutex_lock(&ctx->lock);
	flows = c->flows;
	pthread_mutex_unlock(&ctx->lock);
	if (flows)
		return vrb_in_use("ibv_destroy_counters", flows, "flows");
	vrb_context_give(ctx, CTX_FLOW_COUNT);
	free(c->points);
	free(c);
	return 0;
}

/* Must hold ctx->lock. */
static int add_point(struct vrb_flow_count *c, const struct ibv_counter_attach_attr *attr)
{
	struct flow_point *points;

	if (c->flows)
		return vrb_in_use("ibv_attach_counters_point_flow", c->flows, "flows");
	if (c->num_points == MAX_POINTS)
		return ENOMEM;
	points = realloc(c->points, (c->num_points + 1) * sizeof(*points));
	if (!points)
		return ENOMEM;
	c->points = points;
	points[c->num_points++] = (struct flow_point){ attr->counter_desc, attr->index };
	return 0;
}

int vrb_flow_count_attach(struct vrb_flow_count *c, const struct ibv_counter_attach_attr *attr,
			  const struct ibv_flow *flow)
{
	int err;

	if (flow)
		return ENOTSUP;
	if (attr->comp_mask)
		return EOPNOTSUPP;
	if (attr->counter_desc != IBV_COUNTER_PACKETS && attr->counter_desc != IBV_COUNTER_BYTES)
		return ENOTSUP;
	if (attr->index > MAX_INDEX)
		return EINVAL;
	pthread_mutex_lock(&c->ctx->lock);
	err = add_point(c, attr);
	pthread_mutex_unlock(&c->ctx->lock);
	return err;
}

/* Must hold ctx->lock. */
static int read_points(const struct vrb_flow_count *c, uint64_t *values, uint32_t n)
{
	uint64_t packets = load_relaxed(&c->packets), bytes = load_relaxed(&c->bytes);

	for (uint32_t i = 0; i < c->num_points; i++) {
		if (c->points[i].index >= n)
			return EINVAL;
	}
	memset(values, 0, n * sizeof(*values));
	for (uint32_t i = 0; i < c->num_points; i++)
		values[c->points[i].index] +=
			c->points[i].what == IBV_COUNTER_PACKETS ? packets : bytes;
	return 0;
}

int vrb_flow_count_read(struct vrb_flow_count *c, uint64_t *values, uint32_t n, uint32_t flags)
{
	int err;

	if (flags & ~(uint32_t)READ_FLAGS)
		return EINVAL;
	pthread_mutex_lock(&c->ctx->lock);
	err = read_points(c, values, n);
	pthread_mutex_unlock(&c->ctx->lock);
	return err;
}

void vrb_flow_count_get(struct vrb_flow_count *c)
{
	pthread_mutex_lock(&c->ctx->lock);
	c->flows++;
	pthread_mutex_unlock(&c->ctx->lock);
}

void vrb_flow_count_put(struct vrb_flow_count *c)
{
	pthread_mutex_lock(&c->ctx->lock);
	c->flows--;
	pthread_mutex_unlock(&c->ctx->lock);
}

void vrb_flow_count_add(struct vrb_flow_count *c, uint32_t bytes)
{
	fetch_add_relaxed(&c->packets, 1);
	fetch_add_relaxed(&c->bytes, bytes);
}
