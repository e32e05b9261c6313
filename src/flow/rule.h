/* SPDX-License-Identifier: BSD-2-Clause */
/* One flow rule: what it matches and what becomes of what it matches. */
#ifndef VRB_FLOW_RULE_H
#define VRB_FLOW_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "flow/dissect.h"
#include "util/list.h"

/* Programs see tags of this many bits at most, as on hardware. */
#define FLOW_TAG_BITS 24

enum {
	FLOW_MAX_SPECS = 10,	/* as the kernel's limit, which programs meet with every device */
	FLOW_SPEC_MAX = 256,	/* bytes of a specification, those of later libraries included */
};

struct flow_rule {
	struct flow_key val, mask;
	uint32_t words; /* bit i: word i of the mask is not zero */

	enum ibv_flow_attr_type type;
	uint16_t priority; /* 0 first */
	bool dont_trap;    /* later rules see the frame too */
	bool egress;       /* for frames that are sent */
	bool drop;
	bool tagged;
	uint32_t tag;
	/* as the program gave them: not to be followed before they are known to be objects of it */
	const struct ibv_counters *counters;
	const struct ibv_flow_action *action;

	const char *refused; /* what is wrong with a rule that flow_rule_parse() does not take */

	void *owner; /* the caller's: the receiver of the frame */
	/* table.c's */
	struct list node;
	bool twin; /* matches the same as the rule before it, and gets a copy of what that one takes
		    */
};

/*
 * Reads a program's rule: attr->num_of_specs specifications behind it, FLOW_MAX_SPECS at most, each
 * as long as it says and FLOW_SPEC_MAX at most.  attr->size is not looked at: rdma-core never does,
 * and programs put there what they like.  Sets everything but `owner` and the table's members.
 * Returns 0, EINVAL, EOPNOTSUPP.
 */
int flow_rule_parse(struct flow_rule *rule, const struct ibv_flow_attr *attr);

/* (key & mask) == (val & mask) */
bool flow_rule_matches(const struct flow_rule *rule, const struct flow_key *key);

#endif
