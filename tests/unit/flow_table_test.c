/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules against random frames and an oracle, and the order in which a table applies them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>

#include <cmocka.h>

#include "flow/table.h"
#include "unit/flow_world.h"
#include "unit/random.h"
#include "util/compiler.h"

enum { MAX_HITS = 64 };

struct hits {
	unsigned int n;
	struct flow_rule *rule[MAX_HITS];
};

static void note(void *arg, struct flow_rule *rule)
{
	struct hits *h = arg;

	assert_true(h->n < MAX_HITS);
	h->rule[h->n++] = rule;
}

static void matcher_agrees_with_the_oracle(void **state)
{
	unsigned int matches = 0, rules = 0;

	random_start();
	world_start(random_u64());
	for (unsigned int i = 0; i < 60000; i++) {
		struct world_frame like, w;
		struct spec_list list;
		struct flow_rule rule;
		struct flow_key key;

		world_frame(&like);
		world_rule(&list, &like);
		if (flow_rule_parse(&rule, &list.attr))
			continue;
		rules++;
		for (unsigned int k = 0; k < 2; k++) {
			bool expected;

			w = like;
			if (k)
				world_frame(&w);
			expected = world_matches(&list, &w);
			flow_dissect(&key, w.f.data, w.len);
			if (flow_rule_matches(&rule, &key) != expected)
				fail_msg("input %u.%u: the oracle says %d", i, k, expected);
			matches += expected;
		}
	}
	/* Enough rules have been tested. */
	assert_true(rules > 30000);
	assert_true(matches > 5000);
}

struct plan {
	enum ibv_flow_attr_type type;
	uint16_t priority;
	uint32_t flags;
	uint16_t ether_type; /* 0: any */
	bool drop;
	uint32_t tag;
};

static int add(struct flow_table *t, struct flow_rule *rule, const struct plan *p)
{
	struct spec_list list;

	rule_begin(&list, p->type);
	list.attr.priority = p->priority;
	list.attr.flags = p->flags;
	if (p->ether_type)
		RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH, .val.ether_type = htobe16(p->ether_type),
			 .mask.ether_type = 0xffff);
	if (p->drop)
		RULE_ADD(&list, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
	if (p->tag)
		RULE_ADD(&list, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = p->tag);
	assert_int_equal(flow_rule_parse(rule, &list.attr), 0);
	return flow_table_add(t, rule);
}

#define ANY   IBV_FLOW_ATTR_NORMAL
#define ALL   IBV_FLOW_ATTR_ALL_DEFAULT
#define MC    IBV_FLOW_ATTR_MC_DEFAULT
#define SNIFF IBV_FLOW_ATTR_SNIFFER
#define GO_ON IBV_FLOW_ATTR_FLAGS_DONT_TRAP
#define OUT   IBV_FLOW_ATTR_FLAGS_EGRESS

/* clang-format off */
/* The frames of these rows have EtherType 0x0001 or 0x0002. */
static const struct order_row {
	const char *what;
	struct plan plan[6];
	/*
	 * rules hit in order, as digits: by a unicast frame of type 1, of type 2, by a multicast
	 * frame of type 2
	 */
	const char *one, *two, *multicast;
} order_rows[] = {
	{ "nobody", { { .type = ANY, .ether_type = 3 } }, "", "", "" },
	{ "priority 0 first", { { ANY, 5, 0, 1 }, { ANY, 0, 0, 1 }, { ANY, 3, 0, 1 } },
	  "1", "", "" },
	{ "priorities beyond 255", { { ANY, 0xffff, 0, 1 }, { ANY, 0x8000, 0, 1 } }, "1", "", "" },
	{ "not matched by the first", { { ANY, 0, 0, 1 }, { ANY, 1, 0, 0 } }, "0", "1", "1" },
	{ "the older of equal rules", { { ANY, 4, 0, 0 }, { ANY, 4, 0, 1 } }, "0", "0", "0" },
	{ "the same match twice: copies", { { ANY, 4, 0, 1 }, { ANY, 4, 0, 2 }, { ANY, 4, 0, 1 } },
	  "02", "1", "1" },
	{ "the same match at another priority", { { ANY, 4, 0, 1 }, { ANY, 5, 0, 1 } },
	  "0", "", "" },
	{ "don't trap", { { ANY, 0, GO_ON, 1 }, { ANY, 1, 0, 1 }, { ANY, 2, 0, 1 } },
	  "01", "", "" },
	{ "don't trap goes first at its priority", { { ANY, 2, 0, 1 }, { ANY, 2, GO_ON, 1 } },
	  "10", "", "" },
	{ "don't trap after a rule that traps", { { ANY, 2, 0, 1 }, { ANY, 3, GO_ON, 1 } },
	  "0", "", "" },
	{ "don't trap alone", { { ANY, 2, GO_ON, 1 }, { ANY, 3, GO_ON, 0 }, { ALL } },
	  "012", "12", "12" },
	{ "don't trap twice", { { ANY, 2, GO_ON, 1 }, { ANY, 2, GO_ON, 1 }, { ANY, 2, 0, 0 } },
	  "012", "2", "2" },
	{ "drop", { { ANY, 1, 0, 0 }, { ANY, 0, 0, 1, true }, { ALL } }, "1", "0", "0" },
	{ "drop ends a don't trap", { { ANY, 0, GO_ON, 1, true }, { ANY, 1, 0, 0 } },
	  "0", "1", "1" },
	{ "drop after a rule that traps", { { ANY, 0, 0, 1 }, { ANY, 1, 0, 0, true } },
	  "0", "1", "1" },
	{ "unmatched frames", { { ALL }, { ANY, 9, 0, 1 } }, "1", "0", "0" },
	{ "multicast that is left", { { MC }, { ANY, 9, 0, 1 } }, "1", "", "0" },
	{ "both: copies", { { MC }, { ALL }, { ALL } }, "12", "12", "012" },
	{ "priority among unmatched frames", { { ALL, 1 }, { MC, 0 } }, "0", "0", "1" },
	{ "sniffers", { { SNIFF }, { ANY, 0, 0, 1, true }, { SNIFF, 3 }, { ALL } },
	  "021", "023", "023" },
	{ "egress rules are not for these", { { ANY, 0, OUT, 0, true }, { ANY, 1, 0, 1 } },
	  "1", "", "" },
};
/* clang-format on */

static void check_hits(const char *what, const struct hits *h, const struct flow_rule *rules,
		       const char *expected)
{
	char found[MAX_HITS + 1] = "";

	for (unsigned int i = 0; i < h->n; i++)
		found[i] = '0' + (h->rule[i] - rules);
	if (strcmp(found, expected))
		fail_msg("%s: %s, not %s", what, found, expected);
}

static void order(void **state)
{
	for (const struct order_row *row = order_rows; row < order_rows + ARRAY_SIZE(order_rows);
	     row++) {
		const char *expected[] = { row->one, row->two, row->multicast };
		struct flow_rule rules[6];
		struct flow_table t;
		unsigned int n = 0;

		flow_table_init(&t);
		assert_true(flow_table_empty(&t));
		do
			assert_int_equal(add(&t, &rules[n], &row->plan[n]), 0);
		while (++n < 6 && (row->plan[n].type || row->plan[n].priority ||
				   row->plan[n].flags || row->plan[n].ether_type));
		assert_false(flow_table_empty(&t));
		for (unsigned int i = 0; i < 3; i++) {
			struct frame f = { .len = 0 };
			struct hits h = { 0 };
			struct flow_key key;

			frame_eth(&f, i == 2 ? "\1\2\3\4\5\6" : "\2\2\3\4\5\6", "\2\2\2\2\2\2",
				  i ? 2 : 1);
			flow_dissect(&key, f.data, f.len);
			flow_table_received(&t, &key, note, &h);
			check_hits(row->what, &h, rules, expected[i]);
		}
		for (unsigned int i = 0; i < n; i++)
			flow_table_del(&t, &rules[i]);
		assert_true(flow_table_empty(&t));
	}
}

static void sent_frames(void **state)
{
	static const struct plan plan[] = {
		{ ANY, 0, 0, 0 },         { SNIFF }, { ANY, 2, OUT, 1, true }, { ANY, 1, OUT, 2 },
		{ ANY, 5, OUT, 0, true }, { ALL },
	};
	struct flow_rule rules[6];
	struct flow_table t;

	flow_table_init(&t);
	for (unsigned int i = 0; i < ARRAY_SIZE(plan); i++)
		assert_int_equal(add(&t, &rules[i], &plan[i]), 0);
	for (uint16_t type = 1; type <= 3; type++) {
		static const char *const expected[] = { "2", "3", "4" };
		struct frame f = { .len = 0 };
		struct hits h = { 0 };
		struct flow_key key;

		frame_eth(&f, "\2\2\3\4\5\6", "\2\2\2\2\2\2", type);
		flow_dissect(&key, f.data, f.len);
		assert_int_equal(flow_table_sent(&t, &key, note, &h), type == 2);
		check_hits("sent", &h, rules, expected[type - 1]);
		h.n = 0;
		flow_table_sniffed(&t, note, &h);
		check_hits("sniffed", &h, rules, "1");
	}
}

static void same_match_different_actions(void **state)
{
	static const struct {
		struct plan a, b;
		int err;
	} rows[] = {
		{ { ANY, 1, 0, 1 }, { ANY, 1, 0, 1 }, 0 },
		{ { ANY, 1, 0, 1 }, { ANY, 1, 0, 1, true }, EEXIST },
		{ { ANY, 1, 0, 1, true }, { ANY, 1, 0, 1, true }, 0 },
		{ { ANY, 1, 0, 1, false, 7 }, { ANY, 1, 0, 1, false, 7 }, 0 },
		{ { ANY, 1, 0, 1, false, 7 }, { ANY, 1, 0, 1, false, 8 }, EEXIST },
		{ { ANY, 1, 0, 1, false, 7 }, { ANY, 1, 0, 1 }, EEXIST },
		{ { ANY, 1, 0, 1, false, 7 }, { ANY, 2, 0, 1, false, 8 }, 0 },
		{ { ANY, 1, 0, 1, false, 7 }, { ANY, 1, GO_ON, 1, false, 8 }, 0 },
		{ { ANY, 1, 0, 1, false, 7 }, { ANY, 1, 0, 2, false, 8 }, 0 },
		{ { ANY, 1, OUT, 1 }, { ANY, 1, OUT, 1, true }, EEXIST },
		{ { ANY, 1, OUT, 1 }, { ANY, 1, 0, 1, true }, 0 },
		{ { SNIFF, 1, 0, 0, false, 7 }, { SNIFF, 1, 0, 0, false, 8 }, 0 },
		{ { ALL }, { ALL }, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct flow_rule a, b;
		struct flow_table t;

		flow_table_init(&t);
		assert_int_equal(add(&t, &a, &rows[i].a), 0);
		assert_int_equal(add(&t, &b, &rows[i].b), rows[i].err);
	}
}

/* When a group of rules with the same match loses a member, the others remain a group. */
static void removal_among_copies(void **state)
{
	for (unsigned int gone = 0; gone < 3; gone++) {
		struct flow_rule rules[4];
		struct flow_table t;
		struct frame f = { .len = 0 };
		struct flow_key key;
		struct hits h = { 0 };
		static const char *const expected[] = { "12", "02", "01" };

		flow_table_init(&t);
		for (unsigned int i = 0; i < 3; i++)
			add(&t, &rules[i], &(struct plan){ ANY, 1, 0, 1 });
		add(&t, &rules[3], &(struct plan){ ANY, 1, 0, 0 });
		flow_table_del(&t, &rules[gone]);
		frame_eth(&f, "\2\2\3\4\5\6", "\2\2\2\2\2\2", 1);
		flow_dissect(&key, f.data, f.len);
		flow_table_received(&t, &key, note, &h);
		check_hits("removal", &h, rules, expected[gone]);
	}
}

/* Computes the expected receivers of a frame from the rules alone, without lists. */
static unsigned int expected_hits(const struct plan *plan, const bool *matches, unsigned int n,
				  bool multicast, bool *hit)
{
	unsigned int best = UINT32_MAX, left = UINT32_MAX;

	/* The sort key: priority, then whether later rules are applied as well, then age. */
#define KEY(i) ((plan[i].priority * 2u + !(plan[i].flags & GO_ON)) * 16 + (i))
	for (unsigned int i = 0; i < n; i++) {
		if (plan[i].type == ANY && matches[i] &&
		    (plan[i].drop || !(plan[i].flags & GO_ON)) && KEY(i) < best)
			best = KEY(i);
		if ((plan[i].type == ALL || (plan[i].type == MC && multicast)) &&
		    plan[i].priority < left)
			left = plan[i].priority;
	}
	for (unsigned int i = 0; i < n; i++) {
		if (plan[i].type == SNIFF)
			hit[i] = true;
		else if (plan[i].type == ANY)
			hit[i] = matches[i] && KEY(i) <= best;
		else
			hit[i] = best == UINT32_MAX && (plan[i].type == ALL || multicast) &&
				 plan[i].priority == left;
	}
	return best;
}

/* Without rules of equal match, whose copies the rows above cover. */
static void random_tables(void **state)
{
	static const enum ibv_flow_attr_type types[] = { ANY, ANY, ANY, ANY, ANY, SNIFF, ALL, MC };

	random_start();
	world_start(random_u64());
	for (unsigned int round = 0; round < 3000; round++) {
		unsigned int n = 1 + random_below(8), used = 0;
		struct spec_list lists[8];
		struct flow_rule rules[8];
		struct plan plan[8];
		struct flow_table t;
		struct world_frame w;

		flow_table_init(&t);
		world_frame(&w);
		while (used < n) {
			struct plan *p = &plan[used];

			*p = (struct plan){ types[random_below(8)], random_below(3) };
			if (p->type == ANY) {
				world_rule(&lists[used], &w);
				p->flags = random_below(3) ? 0 : GO_ON;
				p->drop = !random_below(5);
			} else {
				rule_begin(&lists[used], p->type);
			}
			lists[used].attr.priority = p->priority;
			lists[used].attr.flags = p->flags;
			if (p->drop)
				RULE_ADD(&lists[used], action_drop, IBV_FLOW_SPEC_ACTION_DROP);
			if (flow_rule_parse(&rules[used], &lists[used].attr) ||
			    flow_table_add(&t, &rules[used]))
				continue;
			if (rules[used].twin)
				flow_table_del(&t, &rules[used]);
			else
				used++;
		}
		for (unsigned int f = 0; f < 10; f++) {
			bool matches[8], hit[8];
			unsigned int total = 0;
			struct hits h = { 0 };
			struct flow_key key;

			if (f)
				world_frame(&w);
			flow_dissect(&key, w.f.data, w.len);
			for (unsigned int i = 0; i < n; i++)
				matches[i] = world_matches(&lists[i], &w);
			expected_hits(plan, matches, n, w.outer.dst_mac[0] & 1 && w.len >= 14, hit);
			flow_table_received(&t, &key, note, &h);
			for (unsigned int i = 0; i < n; i++) {
				unsigned int times = 0;

				for (unsigned int k = 0; k < h.n; k++)
					times += h.rule[k] == &rules[i];
				if (times != hit[i])
					fail_msg("round %u frame %u rule %u: hit %u times", round,
						 f, i, times);
				total += hit[i];
			}
			assert_int_equal(h.n, total);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matcher_agrees_with_the_oracle),
		cmocka_unit_test(order),
		cmocka_unit_test(sent_frames),
		cmocka_unit_test(same_match_different_actions),
		cmocka_unit_test(removal_among_copies),
		cmocka_unit_test(random_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
