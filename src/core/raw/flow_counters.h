/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of flows: frames and bytes that matched the rules that use them.
 *
 * A program first attaches points, which say what value is read at what index, then creates flows
 * with the counters. The sums are atomic: the polling thread adds, programs read at any time.
 */
#ifndef VRB_CORE_RAW_FLOW_COUNTERS_H
#define VRB_CORE_RAW_FLOW_COUNTERS_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct vrb_context;

struct vrb_flow_count {
	struct ibv_counters ibv;
	struct vrb_context *ctx;
	/* ctx->lock protects these */
	uint32_t flows; /* that use the counters */
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
int vrb_flow_count_destroy(struct vrb_flow_count *c); /* EBUSY while a flow uses it */

/*
 * Errors: ENOTSUP (unknown value, or for an existing flow), EBUSY (a flow uses the counters),
 * EINVAL, ENOMEM.
 */
int vrb_flow_count_attach(struct vrb_flow_count *c, const struct ibv_counter_attach_attr *attr,
			  const struct ibv_flow *flow);

/*
 * Returns EINVAL if a point lies beyond n. Values without a point are 0; points at the same index
 * are added.
 */
int vrb_flow_count_read(struct vrb_flow_count *c, uint64_t *values, uint32_t n, uint32_t flags);

/* Called by flows. */
void vrb_flow_count_get(struct vrb_flow_count *c);
void vrb_flow_count_put(struct vrb_flow_count *c);
void vrb_flow_count_add(struct vrb_flow_count *c, uint32_t bytes);

#endif
