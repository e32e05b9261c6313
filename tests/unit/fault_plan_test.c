/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault rules of a process: rules are added and cleared, counts restart, actions run after the
 * occasion.
 */
#include "core/fault/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <infiniband/verbs.h>

static const struct fault_queue first_qp = { .qpn = 0x11, .qp_index = 1, .direction = FAULT_TX };
static const struct fault_queue far_qp = { .qpn = 0x12, .qp_index = 1000, .direction = FAULT_TX };

static void add(const char *rules)
{
	char error[VRB_FAULTS_ERROR];

	if (!vrb_faults_add("test", rules, strlen(rules), error))
		fail_msg("%s", error);
}

static int clear(void **state)
{
	vrb_faults_clear();
	return 0;
}

static void without_rules_nothing_is_on(void **state)
{
	for (enum fault_kind kind = 0; kind < FAULT_KINDS; kind++)
		assert_false(vrb_faults_on(kind));
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
}

static void rules_turn_on_their_kind_only(void **state)
{
	add("wr nth 2 fail ENOMEM");
	assert_true(vrb_faults_on(FAULT_WR));
	assert_false(vrb_faults_on(FAULT_PACKET));
	vrb_faults_clear();
	assert_false(vrb_faults_on(FAULT_WR));
}

static void each_qp_counts_for_itself(void **state)
{
	add("wr nth 2 fail ENOMEM");
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
	assert_int_equal(vrb_fault_wr(&far_qp), 0);
	assert_int_equal(vrb_fault_wr(&first_qp), ENOMEM);
	assert_int_equal(vrb_fault_wr(&far_qp), ENOMEM);
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
}

static void a_change_resets_all_counts(void **state)
{
	add("wr nth 2 fail ENOMEM");
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
	add("wr nth 3 fail EINVAL");
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
	assert_int_equal(vrb_fault_wr(&first_qp), ENOMEM);
	assert_int_equal(vrb_fault_wr(&first_qp), EINVAL);
}

static void bad_rules_change_nothing(void **state)
{
	char error[VRB_FAULTS_ERROR], text[VRB_FAULTS_TEXT];
	const char bad[] = "wr nth 1 fail ENOMEM\nwr drop";

	add("wr nth 1 fail EINVAL");
	assert_false(vrb_faults_add("file", bad, sizeof(bad) - 1, error));
	assert_string_equal(error,
			    "file:2:4: expected a selector or an action of this occasion, "
			    "not \"drop\"");
	vrb_faults_list(text);
	assert_string_equal(text, "wr nth 1 fail EINVAL # 0\n");
}

static void the_list_shows_the_hits_of_each_rule(void **state)
{
	char text[VRB_FAULTS_TEXT], again[VRB_FAULTS_TEXT];

	add("wr every 2 fail ENOMEM; verb ibv_reg_mr fail EPERM");
	for (unsigned int i = 0; i < 5; i++)
		vrb_fault_wr(&first_qp);
	vrb_faults_list(text);
	assert_string_equal(text, "wr every 2 fail ENOMEM # 2\nverb ibv_reg_mr fail EPERM # 0\n");
	vrb_faults_clear();
	add(text);
	vrb_faults_list(again);
	assert_string_equal(again, "wr every 2 fail ENOMEM # 0\nverb ibv_reg_mr fail EPERM # 0\n");
}

static void a_list_of_the_longest_rules_fits(void **state)
{
	char text[VRB_FAULTS_TEXT], rule[FAULT_LINE];

	snprintf(rule, sizeof(rule), "completion qp 0xffffff qp_index 4294967295 tx nth "
				     "18446744073709551614..18446744073709551615 every "
				     "18446744073709551615 chance 4294967294/4294967295 status "
				     "REM_INV_RD_REQ_ERR vendor_err 4294967295");
	for (unsigned int i = 0; i < FAULT_RULES; i++)
		add(rule);
	assert_in_range(vrb_faults_list(text), FAULT_RULES * 150, VRB_FAULTS_TEXT - 1);
	assert_string_equal(text + strlen(text) - 4, "# 0\n");
}

static int raised;
static uint32_t raised_qpn;

static void on_raise(int event, uint32_t qpn)
{
	raised++;
	assert_int_equal(event, IBV_EVENT_QP_FATAL);
	raised_qpn = qpn;
}

static const struct fault_effects effects = { .raise = on_raise };

static void an_event_is_raised_after_the_occasion(void **state)
{
	raised = 0;
	vrb_fault_effects = &effects;
	add("wr nth 2 raise QP_FATAL");
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
	vrb_faults_settle();
	assert_int_equal(raised, 0);
	assert_int_equal(vrb_fault_wr(&first_qp), 0);
	assert_int_equal(raised, 0);
	vrb_faults_settle();
	vrb_faults_settle();
	assert_int_equal(raised, 1);
	assert_int_equal(raised_qpn, 0x11);
}

static void no_event_is_lost_among_many(void **state)
{
	raised = 0;
	vrb_fault_effects = &effects;
	add("wr raise QP_FATAL");
	for (unsigned int round = 1; round <= 2; round++) {
		for (unsigned int i = 0; i < 1000; i++)
			vrb_fault_wr(&first_qp);
		vrb_faults_settle();
		assert_int_equal(raised, 1000 * round);
		assert_false(vrb_faults_pending());
	}
}

static void actions_after_a_stall_wait_for_its_end(void **state)
{
	raised = 0;
	vrb_fault_effects = &effects;
	add("wr nth 1 stall 1us; wr nth 2 raise QP_FATAL");
	vrb_fault_wr(&first_qp);
	vrb_fault_wr(&first_qp);
	vrb_faults_settle();
	assert_int_equal(raised, 1);
	assert_false(vrb_faults_pending());
}

static void clear_ends_a_stall(void **state)
{
	raised = 0;
	vrb_fault_effects = &effects;
	add("wr nth 1 stall 3600s; wr nth 2 raise QP_FATAL");
	vrb_fault_wr(&first_qp);
	vrb_fault_wr(&first_qp);
	assert_true(vrb_faults_settle_until_stall() > 0);
	assert_true(vrb_faults_settle_until_stall() > 0);
	assert_int_equal(raised, 0);
	vrb_faults_clear();
	assert_int_equal(vrb_faults_settle_until_stall(), 0);
	assert_false(vrb_faults_pending());
	assert_int_equal(raised, 0);
}

static void kill_is_by_sigkill_after_the_occasion(void **state)
{
	pid_t child = fork();
	int status;

	if (!child) {
		add("wr nth 3 kill");
		for (unsigned int i = 0; i < 3; i++)
			vrb_fault_wr(&first_qp);
		if (write(STDOUT_FILENO, "", 0) < 0)
			_exit(1);
		vrb_faults_settle();
		_exit(2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void a_child_counts_for_itself(void **state)
{
	pid_t child;
	int status;

	add("wr nth 2 fail ENOMEM");
	vrb_fault_wr(&first_qp);
	vrb_faults_before_fork();
	child = fork();
	if (!child) {
		vrb_faults_after_fork_child();
		if (vrb_fault_wr(&first_qp) || vrb_fault_wr(&first_qp) != ENOMEM)
			_exit(1);
		_exit(0);
	}
	vrb_faults_after_fork_parent();
	assert_int_equal(vrb_fault_wr(&first_qp), ENOMEM);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, clear)
		TEST(without_rules_nothing_is_on),
		TEST(rules_turn_on_their_kind_only),
		TEST(each_qp_counts_for_itself),
		TEST(a_change_resets_all_counts),
		TEST(bad_rules_change_nothing),
		TEST(the_list_shows_the_hits_of_each_rule),
		TEST(a_list_of_the_longest_rules_fits),
		TEST(an_event_is_raised_after_the_occasion),
		TEST(no_event_is_lost_among_many),
		TEST(actions_after_a_stall_wait_for_its_end),
		TEST(clear_ends_a_stall),
		TEST(kill_is_by_sigkill_after_the_occasion),
		TEST(a_child_counts_for_itself),
#undef TEST
	};

	setenv("VERBENA_LOG", "warn", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
