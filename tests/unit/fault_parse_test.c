/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsing and printing fault rules: every selector and action, and the position of errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fault/parse.h"
#include "fault/print.h"
#include "util/compiler.h"

static struct fault_plan plan;
static struct fault_error error;

static bool parse(const char *text)
{
	fault_plan_init(&plan);
	return fault_parse(&plan, text, strlen(text), &error);
}

/* The input and its canonical form; NULL: the same. */
static const char *const rules[][2] = {
	/* occasions */
	{ "packet drop" },
	{ "message drop" },
	{ "verb ibv_reg_mr fail ENOMEM" },
	{ "completion status WR_FLUSH_ERR" },
	{ "wr kill" },
	{ "cm REQ drop" },
	{ "cm SIDR_REP drop" },
	/* selectors */
	{ "packet qp 0x11 drop" },
	{ "packet qp 17 drop", "packet qp 0x11 drop" },
	{ "packet qp 0xFFFFFF drop", "packet qp 0xffffff drop" },
	{ "packet qp_index 2 drop" },
	{ "packet tx drop" },
	{ "packet rx drop" },
	{ "packet opcode SEND drop" },
	{ "packet opcode SEND_ONLY drop" },
	{ "packet opcode XRC_SEND_LAST_WITH_INVALIDATE drop" },
	{ "packet opcode ACKNOWLEDGE drop", "packet opcode ACK drop" },
	{ "packet opcode 0x04 drop", "packet opcode RC_SEND_ONLY drop" },
	{ "packet opcode 0xff drop" },
	{ "packet opcode 255 drop", "packet opcode 0xff drop" },
	{ "packet psn 7 drop", "packet psn 0x7 drop" },
	{ "packet psn 0x10..0x1f drop" },
	{ "packet psn 0xfffff0..0xf drop" },
	{ "packet psn 5..5 drop", "packet psn 0x5 drop" },
	{ "packet nth 5 drop" },
	{ "packet nth 5..9 drop" },
	{ "packet nth 5.. drop" },
	{ "packet nth 18446744073709551615 drop" },
	{ "packet every 100 drop" },
	{ "packet chance 1/100 drop" },
	{ "packet chance 4294967295/4294967295 drop" },
	{ "packet chance 1/10 every 3 nth 5.. psn 1 opcode ACK rx qp_index 1 qp 2 drop",
	  "packet qp 0x2 qp_index 1 rx opcode ACK psn 0x1 nth 5.. every 3 chance 1/10 drop" },
	{ "completion tx qp 0x11 nth 3 status RETRY_EXC_ERR vendor_err 129",
	  "completion qp 0x11 tx nth 3 status RETRY_EXC_ERR vendor_err 129" },
	{ "cm REP tx nth 1 drop" },
	{ "verb ibv_post_send every 2 chance 1/2 fail EINVAL" },
	/* actions */
	{ "packet duplicate", "packet duplicate 1" },
	{ "packet duplicate 3" },
	{ "cm DREQ duplicate 1" },
	{ "packet delay 10ms" },
	{ "packet delay 1500us" },
	{ "packet delay 2000us", "packet delay 2ms" },
	{ "packet delay 3600s" },
	{ "packet delay 1ns" },
	{ "packet reorder", "packet reorder 1" },
	{ "packet reorder 1000" },
	{ "packet corrupt" },
	{ "message opcode WRITE corrupt" },
	{ "packet mark" },
	{ "message mark" },
	{ "wr tx nth 3 fail ENOMEM" },
	{ "verb ibv_create_qp fail 12", "verb ibv_create_qp fail ENOMEM" },
	{ "verb ibv_create_qp fail 4095" },
	{ "completion status REM_ACCESS_ERR vendor_err 0x88",
	  "completion status REM_ACCESS_ERR vendor_err 136" },
	{ "cm REQ rx reject", "cm REQ rx reject 28" },
	{ "cm REP reject 3" },
	{ "cm REQ tx timeout" },
	{ "wr nth 100 raise PORT_ERR" },
	{ "wr nth 200 raise PORT_ACTIVE" },
	{ "verb ibv_reg_mr raise DEVICE_FATAL" },
	{ "packet raise GID_CHANGE" },
	{ "packet raise QP_FATAL" },
	{ "completion raise CQ_ERR" },
	{ "wr rx raise SRQ_ERR" },
	{ "message raise PATH_MIG" },
	{ "message rx nth 100 stall 500ms" },
	{ "wr tx nth 1000 kill" },
	/* blanks and comments */
	{ " \tpacket\t tx  drop \r", "packet tx drop" },
	{ "packet drop # every single one", "packet drop" },
	{ "packet drop#", "packet drop" },
};

static void canonical_form(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const char *want = rules[i][1] ? rules[i][1] : rules[i][0];
		struct fault_rule first;
		char line[FAULT_LINE];

		if (!parse(rules[i][0]))
			fail_msg("%s: %u: expected %s", rules[i][0], error.column, error.expected);
		assert_int_equal(plan.n_rules, 1);
		first = plan.rule[0];
		assert_int_equal(fault_rule_print(line, sizeof(line), &first), strlen(want));
		assert_string_equal(line, want);
		assert_true(parse(line));
		assert_memory_equal(&plan.rule[0], &first, sizeof(first));
	}
}

/* The longest of every selector. */
static void the_longest_rule_fits_a_line(void **state)
{
	static const char longest[] =
		"message qp 0xffffff qp_index 4294967295 tx opcode XRC_SEND_LAST_WITH_INVALIDATE "
		"psn 0xffffff..0xfffffe nth 18446744073709551614..18446744073709551615 every "
		"18446744073709551615 chance 4294967295/4294967295 raise DEVICE_FATAL";
	char line[FAULT_LINE];

	assert_true(parse(longest));
	assert_in_range(fault_rule_print(line, sizeof(line), &plan.rule[0]), 200, FAULT_LINE - 1);
}

static void a_small_buffer_holds_the_beginning(void **state)
{
	char line[8] = "???????";

	assert_true(parse("packet drop"));
	assert_int_equal(fault_rule_print(line, sizeof(line), &plan.rule[0]), 11);
	assert_string_equal(line, "packet ");
	assert_int_equal(fault_rule_print(line, 1, &plan.rule[0]), 11);
	assert_string_equal(line, "");
}

static void rules_of_a_variable_and_of_a_file(void **state)
{
	assert_true(parse("seed 7; packet drop;message drop ;; "));
	assert_int_equal(plan.seed, 7);
	assert_int_equal(plan.n_rules, 2);
	assert_true(parse("# all of it\n\npacket drop # here; not a rule\r\n\nseed 0x8\nwr kill"));
	assert_int_equal(plan.seed, 8);
	assert_int_equal(plan.n_rules, 2);
	assert_int_equal(plan.rule[1].kind, FAULT_WR);
	assert_true(parse(""));
	assert_int_equal(plan.seed, 1);
	assert_int_equal(plan.n_rules, 0);
}

static void rules_are_added_all_or_none(void **state)
{
	static const char more[] = "seed 9; wr kill; packet";

	assert_true(parse("packet drop"));
	assert_false(fault_parse(&plan, more, strlen(more), &error));
	assert_int_equal(plan.n_rules, 1);
	assert_int_equal(plan.seed, 1);
	assert_true(fault_parse(&plan, more, strlen("seed 9; wr kill"), &error));
	assert_int_equal(plan.n_rules, 2);
	assert_int_equal(plan.seed, 9);
}

static void number_of_rules_is_limited(void **state)
{
	fault_plan_init(&plan);
	for (int i = 0; i < FAULT_RULES; i++)
		assert_true(fault_parse(&plan, "wr kill", 7, &error));
	assert_true(fault_parse(&plan, "seed 2", 6, &error));
	assert_false(fault_parse(&plan, "wr kill", 7, &error));
	assert_string_equal(error.expected, "at most 64 rules");
}

/* A text, the position of its error, and a part of the message. */
static const struct {
	const char *text;
	unsigned int line, column;
	const char *part;
} errors[] = {
	{ "paket drop", 1, 1, "expected packet, message, verb," },
	{ "Packet drop", 1, 1, "not \"Packet\"" },
	{ "seed", 1, 5, "a number" },
	{ "seed x", 1, 6, "not \"x\"" },
	{ "seed 18446744073709551616", 1, 6, "64 bits" },
	{ "seed 1 2", 1, 8, "the end" },
	{ "packet", 1, 7, "an action" },
	{ "packet ; wr kill", 1, 8, "an action" },
	{ "packet tx # drop", 1, 11, "an action" },
	{ "packet tx rx drop", 1, 11, "each selector once, not \"rx\"" },
	{ "packet qp 1 qp 2 drop", 1, 13, "each selector once" },
	{ "packet every 5 frobnicate", 1, 16, "not \"frobnicate\"" },
	{ "packet drop tx", 1, 13, "the end of the rule, not \"tx\"" },
	{ "packet qp drop", 1, 11, "a QP number" },
	{ "packet qp", 1, 10, "a QP number" },
	{ "packet qp 0x1000000 drop", 1, 11, "24 bits" },
	{ "packet qp -1 drop", 1, 11, "a QP number" },
	{ "packet qp 0x drop", 1, 11, "a QP number" },
	{ "packet qp 1x drop", 1, 11, "a QP number" },
	{ "packet qp_index 0 drop", 1, 17, "from 1" },
	{ "packet opcode drop", 1, 15, "an opcode" },
	{ "packet opcode SEN drop", 1, 15, "an opcode" },
	{ "packet opcode 256 drop", 1, 15, "an opcode" },
	{ "packet psn 0x1000000 drop", 1, 12, "a PSN" },
	{ "packet psn 1.. drop", 1, 12, "a PSN" },
	{ "packet psn 1...2 drop", 1, 12, "a PSN" },
	{ "packet nth 0 drop", 1, 12, "from 1" },
	{ "packet nth 5..4 drop", 1, 12, "FIRST..LAST" },
	{ "packet nth ..4 drop", 1, 12, "FIRST..LAST" },
	{ "packet every 0 drop", 1, 14, "from 1" },
	{ "packet chance 1% drop", 1, 15, "1/100" },
	{ "packet chance 0/5 drop", 1, 15, "1/100" },
	{ "packet chance 2/1 drop", 1, 15, "1/100" },
	{ "packet chance 1/0 drop", 1, 15, "1/100" },
	{ "packet chance 1/4294967296 drop", 1, 15, "1/100" },
	{ "packet delay", 1, 13, "a time" },
	{ "packet delay 10", 1, 14, "a time" },
	{ "packet delay 10 ms", 1, 14, "a time" },
	{ "packet delay 0ms", 1, 14, "a time" },
	{ "packet delay 3601s", 1, 14, "an hour" },
	{ "packet delay 18446744073709551615s", 1, 14, "an hour" },
	{ "packet duplicate 0", 1, 18, "from 1" },
	{ "packet reorder 1001", 1, 16, "to 1000" },
	{ "packet fail ENOMEM", 1, 8, "of this occasion, not \"fail\"" },
	{ "completion mark", 1, 12, "of this occasion" },
	{ "verb", 1, 5, "a verb" },
	{ "verb ibv_reg_mt fail ENOMEM", 1, 6, "not \"ibv_reg_mt\"" },
	{ "verb ibv_reg_mr qp 1 fail ENOMEM", 1, 17, "of this occasion" },
	{ "verb ibv_reg_mr fail", 1, 21, "an errno" },
	{ "verb ibv_reg_mr fail ENOMEN", 1, 22, "an errno" },
	{ "verb ibv_reg_mr fail 0", 1, 22, "an errno" },
	{ "verb ibv_reg_mr fail 4096", 1, 22, "an errno" },
	{ "completion status SUCCESS", 1, 19, "a status" },
	{ "completion status IBV_WC_FATAL_ERR", 1, 19, "a status" },
	{ "completion status FATAL_ERR 5", 1, 29, "vendor_err" },
	{ "completion status FATAL_ERR vendor_err", 1, 39, "a number" },
	{ "completion opcode SEND status FATAL_ERR", 1, 12, "of this occasion" },
	{ "cm REK drop", 1, 4, "REQ, MRA" },
	{ "cm RTU reject", 1, 8, "REQ or REP" },
	{ "cm REQ reject 0", 1, 15, "a reason" },
	{ "cm REQ raise QP_FATAL", 1, 14, "has no QP, not \"QP_FATAL\"" },
	{ "verb ibv_reg_mr raise CQ_ERR", 1, 23, "has no QP" },
	{ "wr raise COMM_EST", 1, 10, "PORT_ERR" },
	{ "packet drop\n\n  wr tx kil", 3, 9, "not \"kil\"" },
	{ "packet drop; wr\ttx kil; wr kill", 1, 20, "not \"kil\"" },
	{ "packet \x1b[31m", 1, 8, "not \"?[31m\"" },
	{ "wr aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee", 1, 4, "dddd...\"" },
};

static void errors_point_at_the_place(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		char line[256], start[64];

		if (parse(errors[i].text))
			fail_msg("%s: no error", errors[i].text);
		assert_int_equal(plan.n_rules, 0);
		snprintf(start, sizeof(start), "VERBENA_FAULTS:%u:%u: expected ", errors[i].line,
			 errors[i].column);
		assert_in_range(fault_error_print(line, sizeof(line), "VERBENA_FAULTS", &error), 1,
				sizeof(line) - 1);
		if (strncmp(line, start, strlen(start)) || !strstr(line, errors[i].part))
			fail_msg("%s\n%s\n%s%s", errors[i].text, line, start, errors[i].part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(canonical_form),
		cmocka_unit_test(the_longest_rule_fits_a_line),
		cmocka_unit_test(a_small_buffer_holds_the_beginning),
		cmocka_unit_test(rules_of_a_variable_and_of_a_file),
		cmocka_unit_test(rules_are_added_all_or_none),
		cmocka_unit_test(number_of_rules_is_limited),
		cmocka_unit_test(errors_point_at_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
