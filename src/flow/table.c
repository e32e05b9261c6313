/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of rules, each in the order in which frames are compared.
 *
 * Rules with equal priority and match are adjacent; all but the first are its twins.
 */
#include "flow/table.h"

#include <errno.h>
#include <string.h>

void flow_table_init(struct flow_table *t)
{
	list_init(&t->sniffers);
	list_init(&t->normal);
	list_init(&t->defaults);
	list_init(&t->egress);
}

bool flow_table_empty(const struct flow_table *t)
{
	return list_empty(&t->sniffers) && list_empty(&t->normal) && list_empty(&t->defaults) &&
	       list_empty(&t->egress);
}

static struct flow_rule *rule_of(const struct list *node)
{
	return list_entry(node, struct flow_rule, node);
}

static struct list *list_of(struct flow_table *t, const struct flow_rule *rule)
{
	if (rule->egress)
		return &t->egress;
	switch (rule->type) {
	case IBV_FLOW_ATTR_SNIFFER:
		return &t->sniffers;
	case IBV_FLOW_ATTR_NORMAL:
		return &t->normal;
	default:
		return &t->defaults;
	}
}

static unsigned int rank(const struct flow_rule *rule)
{
	return rule->priority * 2u + !rule->dont_trap;
}

static bool same_match(const struct flow_rule *a, const struct flow_rule *b)
{
	return !memcmp(&a->val, &b->val, sizeof(a->val)) &&
	       !memcmp(&a->mask, &b->mask, sizeof(a->mask));
}

static bool same_fate(const struct flow_rule *a, const struct flow_rule *b)
{
	return a->drop == b->drop && a->tagged == b->tagged && a->tag == b->tag &&
	       a->action == b->action;
}

int flow_table_add(struct flow_table *t, struct flow_rule *rule)
{
	struct list *head = list_of(t, rule), *at, *before = head;

	rule->twin = false;
	list_for_each (at, head) {
		struct flow_rule *other = rule_of(at);

		if (rank(other) > rank(rule) || (rule->twin && !other->twin)) {
			before = at;
			break;
		}
		if (rule->type != IBV_FLOW_ATTR_NORMAL || rank(other) < rank(rule) || rule->twin ||
		    !same_match(rule, other))
			continue;
		if (!same_fate(rule, other))
			return EEXIST;
		rule->twin = true;
	}
	list_add_tail(before, &rule->node);
	return 0;
}

void flow_table_del(struct flow_table *t, struct flow_rule *rule)
{
	const struct list *next = rule->node.next;

	if (!rule->twin && next != list_of(t, rule) && rule_of(next)->twin)
		rule_of(next)->twin = false;
	list_del(&rule->node);
}

enum end {
	UNDECIDED, /* nothing ended the search */
	TAKEN,
	DROPPED,
};

static enum end choose(const struct list *head, const struct flow_key *key, flow_hit_fn *hit,
		       void *arg)
{
	enum end end = UNDECIDED;
	bool matches = false;
	const struct list *at;

	list_for_each (at, head) {
		struct flow_rule *rule = rule_of(at);

		if (!rule->twin) {
			if (end != UNDECIDED)
				break;
			matches = flow_rule_matches(rule, key);
		}
		if (!matches)
			continue;
		hit(arg, rule);
		if (rule->drop)
			end = DROPPED;
		else if (!rule->dont_trap)
			end = TAKEN;
	}
	return end;
}

void flow_table_sniffed(const struct flow_table *t, flow_hit_fn *hit, void *arg)
{
	const struct list *at;

	list_for_each (at, &t->sniffers)
		hit(arg, rule_of(at));
}

/* Broadcast is multicast, as everywhere in Ethernet. */
static bool multicast(const struct flow_key *key)
{
	return key->outer.dst_mac[0] & 1;
}

static void left_over(const struct flow_table *t, const struct flow_key *key, flow_hit_fn *hit,
		      void *arg)
{
	const struct flow_rule *first = NULL;
	const struct list *at;

	list_for_each (at, &t->defaults) {
		struct flow_rule *rule = rule_of(at);

		if (rule->type == IBV_FLOW_ATTR_MC_DEFAULT && !multicast(key))
			continue;
		if (first && rule->priority != first->priority)
			break;
		first = rule;
		hit(arg, rule);
	}
}

void flow_table_received(const struct flow_table *t, const struct flow_key *key, flow_hit_fn *hit,
			 void *arg)
{
	flow_table_sniffed(t, hit, arg);
	if (choose(&t->normal, key, hit, arg) == UNDECIDED)
		left_over(t, key, hit, arg);
}

bool flow_table_sent(const struct flow_table *t, const struct flow_key *key, flow_hit_fn *hit,
		     void *arg)
{
	return choose(&t->egress, key, hit, arg) != DROPPED;
}
