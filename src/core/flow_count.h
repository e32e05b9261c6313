/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of flows: how many frames, of how many bytes, the rules that name them have hit.
 *
 * A program says first which value it wants to read at which index (points), then creates flows
 * with the counters.  The two sums are atomic: whoever drives adds, programs read at any time.
 */
#ifndef VRB_CORE_FLOW_COUNT_H
#define VRB_CORE_FLOW_COUNT_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;

struct vrb_flow_count {
	struct ibv_counters ibv;
	struct vrb_context *ctx;
	/* ctx->lock */
	uint32_t flows; /* that name it */
	uint32_t num_points;
	struct flow_point {
		enum ibv_counter_description what;
		uint32_t index;
	} * points;
	/* atomic */
	uint64_t packets, bytes;
};

static inline struct vrb_flow_count *to_vrb_flow_count(const struct ibv_counters *c)
{
	return (struct vrb_flow_count *)c;
}

/* Return 0, EOPNOTSUPP, ENOMEM. */
int vrb_flow_count_create(struct vrb_context *ctx, const struct ibv_counters_init_attr *attr,
			  struct vrb_flow_count **out);
int vrb_flow_count_destroy(struct vrb_flow_count *c); /* EBUSY while a flow names it */

/*
 * ENOTSUP: what is counted is unknown, or it shall be of a flow that exists; EBUSY: a flow names
 * the counters; EINVAL, ENOMEM.
 */
int vrb_flow_count_attach(struct vrb_flow_count *c, const struct ibv_counter_attach_attr *attr,
			  const struct ibv_flow *flow);

/*
 * EINVAL: a point lies behind n. Values without a point are 0, and what is at one index is added
 * up.
 */
int vrb_flow_count_read(struct vrb_flow_count *c, uint64_t *values, uint32_t n, uint32_t flags);

/* For flows. */
void vrb_flow_count_get(struct vrb_flow_count *c);
void vrb_flow_count_put(struct vrb_flow_count *c);
void vrb_flow_count_add(struct vrb_flow_count *c, uint32_t bytes);

#endif
