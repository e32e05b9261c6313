/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of a device, and how a frame is matched:
 *
 *	1. every SNIFFER rule gets a copy;
 *	2. NORMAL rules are asked by priority, 0 first; at one priority those with DONT_TRAP first,
 *	   then the older first.  One with DONT_TRAP takes a copy, any other ends the search: it
 *	   takes the frame, or drops it.  Rules with the same match as the one that took it, at the
 *	   same priority, get a copy each;
 *	3. a frame that no NORMAL rule ended goes to the ALL_DEFAULT rules and, if it is multicast,
 *	   MC_DEFAULT rules of the best priority among them: a copy each.
 *
 * EGRESS rules are asked for frames that are sent, in the order of 2.
 */
#ifndef VRB_FLOW_TABLE_H
#define VRB_FLOW_TABLE_H

#include <stdbool.h>

#include "flow/dissect.h"
#include "flow/rule.h"
#include "util/list.h"

struct flow_table {
	struct list sniffers, normal, defaults, egress;
};

void flow_table_init(struct flow_table *t);
bool flow_table_empty(const struct flow_table *t);

/*
 * The rule must stay where it is until it is removed.  Returns 0, or EEXIST if there is a rule with
 * the same match and priority that does something else with the frame: another tag, or only one of
 * them drops.
 */
int flow_table_add(struct flow_table *t, struct flow_rule *rule);
void flow_table_del(struct flow_table *t, struct flow_rule *rule);

/*
 * Called for each rule that a frame hit, in order; for a rule with `drop` there is nothing to
 * deliver, only to count.  Must not change the table.
 */
typedef void flow_hit_fn(void *arg, struct flow_rule *rule);

void flow_table_received(const struct flow_table *t, const struct flow_key *key, flow_hit_fn *hit,
			 void *arg);

/* For a frame that was sent by the host: the sniffers only. */
void flow_table_sniffed(const struct flow_table *t, flow_hit_fn *hit, void *arg);

/* For a frame about to be sent: the EGRESS rules. Returns false if one of them drops it. */
bool flow_table_sent(const struct flow_table *t, const struct flow_key *key, flow_hit_fn *hit,
		     void *arg);

#endif
