/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: rules (src/flow/) that programs attach to raw packet QPs.
 *
 * The rules of a device are one table in struct vrb_device, read and changed under vrb.poll_lock. A
 * flow keeps its QP and its counters from being destroyed.
 */
#ifndef VRB_CORE_RAW_FLOW_H
#define VRB_CORE_RAW_FLOW_H

#include <infiniband/verbs.h>

#include "flow/flow.h"

struct raw_frame;
struct raw_out;
struct vrb_context;
struct vrb_device;
struct vrb_flow_count;
struct vrb_qp;

struct vrb_flow {
	struct ibv_flow ibv;
	/* immutable */
	struct vrb_qp *qp;
	struct vrb_flow_count *count; /* or NULL */
	bool taps;                    /* a sniffer that sees local traffic; mirror.h */
	struct flow_rule rule;        /* its owner is this flow */
};

static inline struct vrb_flow *to_vrb_flow(struct ibv_flow *f)
{
	return (struct vrb_flow *)f;
}

/* Delivers a received frame to each QP that the rules name. Must hold vrb.poll_lock. */
void vrb_flow_input(struct vrb_device *dev, const struct raw_frame *f);

/*
 * Applies the egress rules to a frame of a raw packet QP: call it with sent = false before sending,
 * and with sent = true once the frame was sent or dropped by a rule, to count it. Returns false if
 * a rule drops the frame. Takes a leaf lock.
 */
bool vrb_flow_leaves(struct vrb_device *dev, const struct raw_out *o, bool sent);

/*
 * Returns 0, EINVAL, EOPNOTSUPP (see docs/FLOW.md), EEXIST or ENOMEM. attr->size bytes must be
 * readable. Must hold no lock.
 */
int vrb_flow_create(struct vrb_qp *qp, const struct ibv_flow_attr *attr, struct vrb_flow **out);
void vrb_flow_destroy(struct vrb_flow *flow);

/* Removes the rules of a context that is closed with flows in it. */
void vrb_flow_remove_context(struct vrb_context *ctx);

#endif
