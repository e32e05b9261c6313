/* SPDX-License-Identifier: BSD-2-Clause */
/* Taps are called at their tap points, in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/tap.h"

static char call_log[32];
static unsigned int n_calls;
static bool refuses;

static void log_call(char what)
{
	assert_true(n_calls < sizeof(call_log) - 1);
	call_log[n_calls++] = what;
	call_log[n_calls] = 0;
}

static void expect(const char *what)
{
	assert_string_equal(call_log, what);
	call_log[n_calls = 0] = 0;
}

static bool fault_enter(struct tap_call *call)
{
	log_call('f');
	if (refuses)
		call->err = ENOMEM;
	return !refuses;
}

static bool record_enter(struct tap_call *call)
{
	log_call(call->err == ENOMEM ? 'x' : 'r');
	return true;
}

static void record_leave(struct tap_call *call)
{
	log_call('l');
	errno = EIO;
}

static int fault_post(const struct tap_post *post)
{
	log_call('f');
	return refuses ? EINVAL : 0;
}

static int record_post(const struct tap_post *post)
{
	log_call('r');
	return 0;
}

static bool fault_out(struct tap_packet *p)
{
	log_call('f');
	return !refuses;
}

static bool record_out(struct tap_packet *p)
{
	log_call('r');
	return true;
}

static const struct tap_ops fault = {
	.enter = fault_enter, .post = fault_post, .out = fault_out, .in = fault_out
};
static const struct tap_ops record = {
	.enter = record_enter, .leave = record_leave, .post = record_post, .out = record_out,
};

static int set_up(void **state)
{
	vrb_tap_attach(TAP_RECORD, &record);
	vrb_tap_attach(TAP_FAULT, &fault);
	refuses = false;
	return 0;
}

static void nothing_is_called_before_a_tap_is_attached(void **state)
{
	assert_false(tapped());
	set_up(state);
	assert_true(tapped());
}

static void faults_precede_the_recording(void **state)
{
	struct tap_call call = { .verb = VERB_reg_mr };

	assert_true(vrb_tap_enter(&call));
	vrb_tap_leave(&call);
	expect("frl");
	refuses = true;
	assert_false(vrb_tap_enter(&call));
	assert_int_equal(call.err, ENOMEM);
	errno = ENOMEM;
	vrb_tap_leave(&call);
	assert_int_equal(errno, ENOMEM);
	expect("fxl");
}

static void nested_calls_are_not_tapped(void **state)
{
	struct tap_call outer = { .verb = VERB_reg_mr_ex }, inner = { .verb = VERB_reg_mr };

	assert_true(vrb_tap_enter(&outer));
	expect("fr");
	refuses = true;
	assert_true(vrb_tap_enter(&inner));
	vrb_tap_leave(&inner);
	expect("");
	vrb_tap_leave(&outer);
	expect("l");
}

static void lost_packets_are_not_recorded(void **state)
{
	const struct tap_post post = { 0 };
	struct tap_packet p = { 0 };

	assert_int_equal(vrb_tap_post(&post), 0);
	assert_true(vrb_tap_out(&p));
	assert_true(vrb_tap_in(&p));
	expect("frfrf");
	refuses = true;
	assert_int_equal(vrb_tap_post(&post), EINVAL);
	assert_false(vrb_tap_out(&p));
	assert_false(vrb_tap_in(&p));
	expect("fff");
}

static void a_tap_can_be_detached(void **state)
{
	struct tap_packet p = { 0 };

	vrb_tap_attach(TAP_FAULT, NULL);
	refuses = true;
	assert_true(vrb_tap_out(&p));
	expect("r");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_called_before_a_tap_is_attached),
		cmocka_unit_test_setup(faults_precede_the_recording, set_up),
		cmocka_unit_test_setup(nested_calls_are_not_tapped, set_up),
		cmocka_unit_test_setup(lost_packets_are_not_recorded, set_up),
		cmocka_unit_test_setup(a_tap_can_be_detached, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
