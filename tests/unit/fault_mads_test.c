/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault rules for communication management: which messages pass. */
#include "core/fault/mads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/msg.h"
#include "core/base/tap.h"
#include "core/fault/control.h"
#include "core/fault/held.h"
#include "core/fault/plan.h"

static void start(const char *rules)
{
	char error[VRB_FAULTS_ERROR];

	vrb_faults_clear();
	vrb_fault_mads_forget();
	if (!vrb_faults_add("test", rules, strlen(rules), error))
		fail_msg("%s", error);
}

static bool given_up;	/* the sender was told that no retransmission will pass */

static bool passes(enum cm_type type, uint64_t tid, bool out)
{
	const struct cm_msg m = { .type = type, .tid = tid };
	const struct net_path path = { 0 };
	uint8_t mad[CM_MAD_LEN];

	given_up = false;
	cm_encode(mad, &m);
	return vrb_fault_mad(&(struct tap_mad){
		.path = &path, .mad = mad, .out = out, .in_vain = out ? &given_up : NULL });
}

static bool sends(enum cm_type type, uint64_t tid)
{
	return passes(type, tid, true);
}

static bool receives(enum cm_type type, uint64_t tid)
{
	return passes(type, tid, false);
}

static void only_the_selected_message_is_lost(void **state)
{
	start("cm REP nth 2 drop");
	assert_true(sends(CM_REP, 1));
	assert_true(sends(CM_REQ, 1));
	assert_false(sends(CM_REP, 1));
	assert_true(sends(CM_REP, 1));
}

static void the_direction_is_matched(void **state)
{
	start("cm RTU rx drop");
	assert_true(sends(CM_RTU, 1));
}

static void a_timeout_loses_the_whole_exchange(void **state)
{
	start("cm REQ nth 1 timeout");
	assert_false(sends(CM_REQ, 7));
	for (unsigned int i = 0; i < 20; i++) {
		assert_false(sends(CM_REQ, 7));
		assert_true(given_up);
	}
	assert_true(sends(CM_REQ, 8));
	assert_false(given_up);
	assert_true(sends(CM_REP, 7));
}

static void a_timeout_at_the_receiver(void **state)
{
	start("cm REP rx nth 1 timeout");
	assert_true(sends(CM_REP, 7));
	for (unsigned int i = 0; i < 20; i++)
		assert_false(receives(CM_REP, 7));
	assert_true(receives(CM_REP, 8));
	assert_true(receives(CM_REQ, 7));
}

static void a_lost_message_will_be_sent_again(void **state)
{
	start("cm REP nth 1 drop");
	assert_false(sends(CM_REP, 7));
	assert_false(given_up);
	assert_true(sends(CM_REP, 7));
}

static void no_exchange_is_forgotten(void **state)
{
	start("cm REQ nth 1..1000 timeout");
	for (uint64_t tid = 1; tid <= 1000; tid++)
		assert_false(sends(CM_REQ, tid));
	for (uint64_t tid = 1; tid <= 1000; tid++)
		assert_false(sends(CM_REQ, tid));
	assert_true(sends(CM_REQ, 1001));
	vrb_fault_mads_forget();
	assert_true(sends(CM_REQ, 1));
}

enum { CHILD_LIMIT_S = 60 };

static bool forks;
static int child_status = -1;

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

/* Called with the lock held. As in a child of a fork by another thread: it cannot be released. */
void *__wrap_realloc(void *p, size_t n)
{
	pid_t child = forks ? fork() : -1;

	forks = false;
	if (!child) {
		alarm(CHILD_LIMIT_S);
		vrb_fault_control_forget();
		_exit(!sends(CM_REP, 1));
	}
	if (child > 0)
		waitpid(child, &child_status, 0);
	return __real_realloc(p, n);
}

static void a_child_forked_meanwhile_goes_on(void **state)
{
	start("cm REQ nth 1..100 timeout");
	forks = true;
	for (uint64_t tid = 1; tid <= 100; tid++)
		assert_false(sends(CM_REQ, tid));
	assert_false(forks);
	assert_int_equal(child_status, 0);
}

static void held_messages_pass_once(void **state)
{
	start("cm REQ drop");
	vrb_held_returns = true;
	assert_true(sends(CM_REQ, 9));
	assert_false(sends(CM_REQ, 9));
}

static void without_rules_all_pass(void **state)
{
	vrb_faults_clear();
	assert_true(sends(CM_REQ, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_selected_message_is_lost),
		cmocka_unit_test(the_direction_is_matched),
		cmocka_unit_test(a_timeout_loses_the_whole_exchange),
		cmocka_unit_test(a_timeout_at_the_receiver),
		cmocka_unit_test(a_lost_message_will_be_sent_again),
		cmocka_unit_test(a_child_forked_meanwhile_goes_on),
		cmocka_unit_test(no_exchange_is_forgotten),
		cmocka_unit_test(held_messages_pass_once),
		cmocka_unit_test(without_rules_all_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
