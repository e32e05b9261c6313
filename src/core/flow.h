/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: rules (src/flow/) that programs attach to raw packet QPs.
 *
 * A device's rules are one table, in struct vrb_device, which is walked and changed under
 * vrb.drive.  A flow holds its QP and its counters: neither can be destroyed before it.
 */
#ifndef VRB_CORE_FLOW_H
#define VRB_CORE_FLOW_H

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
	bool taps;                    /* a sniffer that hears neighbours; tap.h */
	struct flow_rule rule;        /* its owner is this flow */
};

static inline struct vrb_flow *to_vrb_flow(struct ibv_flow *f)
{
	return (struct vrb_flow *)f;
}

/* A frame came in: each QP that the device's rules name gets it. Must hold vrb.drive. */
void vrb_flow_input(struct vrb_device *dev, const struct raw_frame *f);

/*
 * A raw packet QP is about to send a frame (sent false) or has sent it, or not because it must not:
 * then rules count it.  False if a rule drops it.  Takes a leaf.
 */
bool vrb_flow_leaves(struct vrb_device *dev, const struct raw_out *o, bool sent);

/*
 * Returns 0, EINVAL, EOPNOTSUPP (docs/FLOW.md says which), EEXIST, ENOMEM.  attr->size bytes must
 * be readable.  Must hold no lock.
 */
int vrb_flow_create(struct vrb_qp *qp, const struct ibv_flow_attr *attr, struct vrb_flow **out);
void vrb_flow_destroy(struct vrb_flow *flow);

/* The context ends with flows in it: frames do not find them any more. */
void vrb_flow_remove_context(struct vrb_context *ctx);

#endif
