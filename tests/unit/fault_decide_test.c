/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault rules: which occasions each selector matches, and what the actions do. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

#include "fault/decide.h"
#include "fault/parse.h"
#include "roce/opcode.h"
#include "util/compiler.h"

enum {
	QPN = 0x11,
	RUN = 100000,	/* number of occasions in a statistic */
};

static struct fault_plan plan;
static struct fault_counts counts;
static struct fault_hit hit;

static void start(const char *text)
{
	struct fault_error error;

	fault_plan_init(&plan);
	memset(&counts, 0, sizeof(counts));
	if (!fault_parse(&plan, text, strlen(text), &error))
		fail_msg("%s: %u: expected %s", text, error.column, error.expected);
}

static const struct fault_packet sent = {
	.queue = { .qpn = QPN, .qp_index = 1, .direction = FAULT_TX },
	.opcode = ROCE_RC_SEND_ONLY,
	.psn = 5,
};

static bool packet(const struct fault_packet *p)
{
	return fault_on_packet(&plan, &counts, p, &hit);
}

/* Which of the first 16 occasions are hit, as bits; the first one is the lowest. */
static uint32_t pattern(const struct fault_packet *p)
{
	uint32_t bits = 0;

	for (unsigned int i = 0; i < 16; i++)
		bits |= (uint32_t)packet(p) << i;
	return bits;
}

/* One row per selector: a rule, a packet, and which of its first 16 occasions are hit. */
static void selectors(void **state)
{
	static const struct {
		const char *rule;
		struct fault_packet packet;
		uint32_t hits;
	} rows[] = {
#define PACKET(qpn, index, direction, opcode, psn) { { qpn, index, direction }, opcode, psn }
		{ "packet drop", PACKET(QPN, 1, FAULT_TX, ROCE_RC_SEND_ONLY, 5), 0xffff },
		{ "message drop", PACKET(QPN, 1, FAULT_TX, ROCE_RC_SEND_ONLY, 5), 0 },
		{ "packet qp 0x11 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0xffff },
		{ "packet qp 0x11 drop", PACKET(QPN + 1, 1, FAULT_TX, 0, 5), 0 },
		{ "packet qp 0 drop", PACKET(0, 0, FAULT_TX, 0, 5), 0xffff },
		{ "packet qp 0 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0 },
		{ "packet qp_index 2 drop", PACKET(QPN, 2, FAULT_TX, 0, 5), 0xffff },
		{ "packet qp_index 2 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0 },
		{ "packet tx drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0xffff },
		{ "packet tx drop", PACKET(QPN, 1, FAULT_RX, 0, 5), 0 },
		{ "packet rx drop", PACKET(QPN, 1, FAULT_RX, 0, 5), 0xffff },
		{ "packet opcode WRITE drop",
		  PACKET(QPN, 1, FAULT_TX, ROCE_UC_WRITE_LAST_WITH_IMMEDIATE, 5), 0xffff },
		{ "packet opcode WRITE drop", PACKET(QPN, 1, FAULT_TX, ROCE_RC_SEND_ONLY, 5), 0 },
		{ "packet opcode SEND_ONLY drop",
		  PACKET(QPN, 1, FAULT_TX, ROCE_UD_SEND_ONLY, 5), 0xffff },
		{ "packet opcode RC_SEND_ONLY drop",
		  PACKET(QPN, 1, FAULT_TX, ROCE_UD_SEND_ONLY, 5), 0 },
		{ "packet opcode SEND drop",
		  PACKET(QPN, 1, FAULT_TX, ROCE_CNP_NOTIFICATION, 5), 0 },
		{ "packet opcode CNP drop",
		  PACKET(QPN, 1, FAULT_TX, ROCE_CNP_NOTIFICATION, 5), 0xffff },
		{ "packet psn 5 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0xffff },
		{ "packet psn 5 drop", PACKET(QPN, 1, FAULT_TX, 0, 6), 0 },
		{ "packet psn 4..6 drop", PACKET(QPN, 1, FAULT_TX, 0, 4), 0xffff },
		{ "packet psn 4..6 drop", PACKET(QPN, 1, FAULT_TX, 0, 6), 0xffff },
		{ "packet psn 4..6 drop", PACKET(QPN, 1, FAULT_TX, 0, 3), 0 },
		{ "packet psn 4..6 drop", PACKET(QPN, 1, FAULT_TX, 0, 7), 0 },
		{ "packet psn 0xfffffe..1 drop", PACKET(QPN, 1, FAULT_TX, 0, 0xffffff), 0xffff },
		{ "packet psn 0xfffffe..1 drop", PACKET(QPN, 1, FAULT_TX, 0, 1), 0xffff },
		{ "packet psn 0xfffffe..1 drop", PACKET(QPN, 1, FAULT_TX, 0, 0xfffffd), 0 },
		{ "packet psn 0xfffffe..1 drop", PACKET(QPN, 1, FAULT_TX, 0, 2), 0 },
		{ "packet nth 1 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0x1 },
		{ "packet nth 3..5 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0x1c },
		{ "packet nth 15.. drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0xc000 },
		{ "packet every 1 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0xffff },
		{ "packet every 5 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0x4210 },
		{ "packet every 5 nth 6.. drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0x4200 },
		{ "packet chance 1/1 drop", PACKET(QPN, 1, FAULT_TX, 0, 5), 0xffff },
#undef PACKET
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		start(rows[i].rule);
		if (pattern(&rows[i].packet) != rows[i].hits)
			fail_msg("row %zu: %s", i, rows[i].rule);
	}
}

/* One row per action: the resulting decision. */
static void actions(void **state)
{
	static const struct {
		const char *rule;
		struct fault_action action;
	} rows[] = {
		{ "packet drop", { FAULT_DROP } },
		{ "packet duplicate", { FAULT_DUPLICATE, 0, 1 } },
		{ "packet duplicate 2", { FAULT_DUPLICATE, 0, 2 } },
		{ "packet delay 3us", { FAULT_DELAY, 0, 3000 } },
		{ "packet reorder 4", { FAULT_REORDER, 0, 4 } },
		{ "packet corrupt", { FAULT_CORRUPT } },
		{ "packet mark", { FAULT_MARK } },
		{ "packet raise PORT_ERR", { FAULT_RAISE, 0, IBV_EVENT_PORT_ERR } },
		{ "packet raise PORT_ACTIVE", { FAULT_RAISE, 0, IBV_EVENT_PORT_ACTIVE } },
		{ "packet raise GID_CHANGE", { FAULT_RAISE, 0, IBV_EVENT_GID_CHANGE } },
		{ "packet raise DEVICE_FATAL", { FAULT_RAISE, 0, IBV_EVENT_DEVICE_FATAL } },
		{ "packet raise QP_FATAL", { FAULT_RAISE, 0, IBV_EVENT_QP_FATAL } },
		{ "packet raise CQ_ERR", { FAULT_RAISE, 0, IBV_EVENT_CQ_ERR } },
		{ "packet raise SRQ_ERR", { FAULT_RAISE, 0, IBV_EVENT_SRQ_ERR } },
		{ "packet raise PATH_MIG", { FAULT_RAISE, 0, IBV_EVENT_PATH_MIG } },
		{ "packet stall 2s", { FAULT_STALL, 0, 2000000000 } },
		{ "packet kill", { FAULT_KILL } },
		{ "message corrupt", { FAULT_CORRUPT } },
		{ "verb ibv_reg_mr fail ENOMEM", { FAULT_FAIL, 0, ENOMEM } },
		{ "completion status FATAL_ERR vendor_err 7",
		  { FAULT_STATUS, 7, IBV_WC_FATAL_ERR } },
		{ "wr fail EINVAL", { FAULT_FAIL, 0, EINVAL } },
		{ "cm REQ reject 3", { FAULT_REJECT, 0, 3 } },
		{ "cm REQ timeout", { FAULT_TIMEOUT } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int hits = 0;

		start(rows[i].rule);
		hits += packet(&sent);
		hits += fault_on_message(&plan, &counts, &sent, &hit);
		hits += fault_on_verb(&plan, &counts, VERB_reg_mr, &hit);
		hits += fault_on_completion(&plan, &counts, &sent.queue, &hit);
		hits += fault_on_wr(&plan, &counts, &sent.queue, &hit);
		hits += fault_on_cm(&plan, &counts, FAULT_REQ, FAULT_RX, &hit);
		assert_int_equal(hits, 1);
		assert_memory_equal(&hit.action, &rows[i].action, sizeof(hit.action));
	}
}

static void verbs_and_cm_messages_by_name(void **state)
{
	start("verb ibv_reg_mr nth 2 fail ENOMEM; cm REP tx nth 1 drop");
	assert_false(fault_on_verb(&plan, &counts, VERB_create_qp, &hit));
	assert_false(fault_on_verb(&plan, &counts, VERB_reg_mr, &hit));
	assert_false(fault_on_verb(&plan, &counts, VERB_create_qp, &hit));
	assert_true(fault_on_verb(&plan, &counts, VERB_reg_mr, &hit));
	assert_int_equal(hit.rule, 0);
	assert_int_equal(hit.count, 2);
	assert_false(fault_on_cm(&plan, &counts, FAULT_REQ, FAULT_TX, &hit));
	assert_false(fault_on_cm(&plan, &counts, FAULT_REP, FAULT_RX, &hit));
	assert_true(fault_on_cm(&plan, &counts, FAULT_REP, FAULT_TX, &hit));
	assert_int_equal(hit.rule, 1);
	assert_false(fault_on_cm(&plan, &counts, FAULT_REP, FAULT_TX, &hit));
}

/* A rule counts only the occasions that it selects. */
static void only_what_matches_is_counted(void **state)
{
	struct fault_packet ack = sent;

	ack.opcode = ROCE_RC_ACKNOWLEDGE;
	start("packet opcode ACK nth 2 drop");
	assert_false(packet(&ack));
	assert_false(packet(&sent));
	assert_true(packet(&ack));
	assert_int_equal(hit.count, 2);
}

/* Each rule counts its matches even if another rule acts. */
static void the_first_rule_acts_and_all_count(void **state)
{
	start("packet nth 2 drop; packet nth 2..3 corrupt");
	assert_false(packet(&sent));
	assert_true(packet(&sent));
	assert_int_equal(hit.rule, 0);
	assert_int_equal(hit.action.what, FAULT_DROP);
	assert_true(packet(&sent));
	assert_int_equal(hit.rule, 1);
	assert_int_equal(hit.count, 3);
	assert_false(packet(&sent));
}

static void each_qp_has_its_own_counts(void **state)
{
	struct fault_counts other = { 0 };

	start("packet nth 2 drop");
	assert_false(packet(&sent));
	assert_false(fault_on_packet(&plan, &other, &sent, &hit));
	assert_true(packet(&sent));
	assert_true(fault_on_packet(&plan, &other, &sent, &hit));
}

static void a_changed_plan_resets_counts(void **state)
{
	start("packet nth 1 drop");
	assert_true(packet(&sent));
	assert_false(packet(&sent));
	plan.generation++;
	assert_true(packet(&sent));
	assert_false(packet(&sent));
}

static void no_rules_no_faults(void **state)
{
	start("seed 5");
	assert_int_equal(pattern(&sent), 0);
}

/* Which of RUN packets are hit, and their random numbers, as one number. */
static uint64_t fingerprint(const char *rules, const struct fault_packet *p)
{
	uint64_t sum = 0;

	start(rules);
	for (uint64_t i = 1; i <= RUN; i++) {
		if (packet(p))
			sum = sum * 31 + i * hit.random;
	}
	return sum;
}

static void the_same_seed_gives_the_same_run(void **state)
{
	static const char rules[] = "seed 7; packet chance 1/10 corrupt";
	struct fault_packet other = sent;
	uint64_t first = fingerprint(rules, &sent);

	assert_true(fingerprint(rules, &sent) == first);
	/* another number, opcode or PSN of the packet changes nothing */
	other.queue.qpn++;
	other.opcode = ROCE_RC_ACKNOWLEDGE;
	other.psn++;
	assert_true(fingerprint(rules, &other) == first);
	/* another seed, rule or QP does */
	assert_true(fingerprint("seed 8; packet chance 1/10 corrupt", &sent) != first);
	assert_true(fingerprint("seed 7; wr kill; packet chance 1/10 corrupt", &sent) != first);
	other.queue.qp_index++;
	assert_true(fingerprint(rules, &other) != first);
}

/* Decisions do not change between releases, because sweeps and reports give seeds. */
static void seeds_are_stable(void **state)
{
	start("seed 1; packet chance 1/4 drop");
	assert_int_equal(pattern(&sent), 0x686);
}

/* The numbers of hits, and of neighbours that are both hit, match the probability. */
static void chance_is_a_probability(void **state)
{
	static const struct {
		const char *rule;
		double p;
	} rows[] = {
		{ "packet chance 1/2 drop", 0.5 },
		{ "packet chance 1/10 drop", 0.1 },
		{ "packet chance 1/100 drop", 0.01 },
		{ "packet chance 99/100 drop", 0.99 },
		{ "packet chance 1/1000 drop", 0.001 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		double p = rows[i].p, expected = RUN * p, pairs_expected = RUN * p * p;
		unsigned int hits = 0, pairs = 0;
		bool last = false;

		start(rows[i].rule);
		for (unsigned int n = 0; n < RUN; n++) {
			bool now = packet(&sent);

			hits += now;
			pairs += now && last;
			last = now;
		}
		/* five standard deviations; the variance of pairs is at most three times theirs */
		if ((hits - expected) * (hits - expected) > 25 * expected * (1 - p) ||
		    (pairs - pairs_expected) * (pairs - pairs_expected) >
			    25 * 3 * (pairs_expected + 1))
			fail_msg("%s: %u hits, %u pairs", rows[i].rule, hits, pairs);
	}
}

/* Two rules, and two QPs, are hit independently of each other. */
static void chances_are_independent(void **state)
{
	struct fault_counts of_other = { 0 };
	struct fault_packet other = sent;
	unsigned int both_rules = 0, both_qps = 0;

	other.queue.qp_index = 2;
	start("packet chance 1/10 drop; message chance 1/10 drop");
	for (unsigned int n = 0; n < RUN; n++) {
		bool first = packet(&sent);

		both_rules += fault_on_message(&plan, &counts, &sent, &hit) && first;
		both_qps += fault_on_packet(&plan, &of_other, &other, &hit) && first;
	}
	assert_in_range(both_rules, RUN / 100 - 160, RUN / 100 + 160);
	assert_in_range(both_qps, RUN / 100 - 160, RUN / 100 + 160);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selectors),
		cmocka_unit_test(actions),
		cmocka_unit_test(verbs_and_cm_messages_by_name),
		cmocka_unit_test(only_what_matches_is_counted),
		cmocka_unit_test(the_first_rule_acts_and_all_count),
		cmocka_unit_test(each_qp_has_its_own_counts),
		cmocka_unit_test(a_changed_plan_resets_counts),
		cmocka_unit_test(no_rules_no_faults),
		cmocka_unit_test(the_same_seed_gives_the_same_run),
		cmocka_unit_test(seeds_are_stable),
		cmocka_unit_test(chance_is_a_probability),
		cmocka_unit_test(chances_are_independent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
