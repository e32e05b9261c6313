/* SPDX-License-Identifier: BSD-2-Clause */
/* One flow rule: its match and its actions. */
#ifndef VRB_FLOW_RULE_H
#define VRB_FLOW_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "flow/dissect.h"
#include "util/list.h"

/* Maximum bits of a tag in completions, as on hardware. */
#define FLOW_TAG_BITS 24

enum {
	FLOW_MAX_SPECS = 10,	/* the kernel's limit, which applies to every device */
	FLOW_SPEC_MAX = 256,	/* bytes of a specification, those of later libraries included */
};

struct flow_rule {
	struct flow_key val, mask;
	uint32_t words; /* bit i: word i of the mask is not zero */

	enum ibv_flow_attr_type type;
	uint16_t priority; /* 0 first */
	bool dont_trap;    /* later rules get the frame, too */
	bool egress;       /* for frames that are sent */
	bool drop;
	bool tagged;
	uint32_t tag;
	/* as passed by the program: check that they are live objects before use */
	const struct ibv_counters *counters;
	const struct ibv_flow_action *action;

	bool ignored;        /* has specifications that mean nothing to its type */
	const char *refused; /* the error if flow_rule_parse() refuses the rule */

	void *owner; /* the caller's: the receiver of the frame */
	/* table.c's */
	struct list node;
	bool twin; /* has the match of the rule before it, and gets a copy of its frames
		    */
};

/*
 * Parses a program's rule: attr followed by attr->num_of_specs specifications, at most
 * FLOW_MAX_SPECS, each with its own size of at most FLOW_SPEC_MAX. Ignores attr->size, as rdma-core
 * does, because programs set it to any value. Sets all members except `owner` and those of the
 * table. Returns 0, EINVAL, EOPNOTSUPP.
 */
int flow_rule_parse(struct flow_rule *rule, const struct ibv_flow_attr *attr);

/* (key & mask) == (val & mask) */
bool flow_rule_matches(const struct flow_rule *rule, const struct flow_key *key);

#endif
