/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a child is stopped, also one whose name looks like the end of its name; and what runs. */
#include "run/proc_state.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static pid_t stopped_child(const char *name)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		for (;;)
			raise(SIGSTOP);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	return child;
}

static void end(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_stopped_process(void **state)
{
	static const char *const names[] = { "a", "a) R (b", ") S 1 1 1 1 1 1" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		pid_t child = stopped_child(names[i]);

		assert_true(proc_is_stopped(child));
		assert_false(proc_is_gone(child));
		assert_false(proc_is_runnable(child));
		end(child);
		assert_true(proc_is_gone(child));
		assert_false(proc_is_runnable(child));
		assert_false(proc_is_stopped(child));
	}
}

static void a_running_process(void **state)
{
	char old[16];

	assert_false(proc_is_stopped(getpid()));
	assert_true(proc_is_runnable(getpid()));
	assert_false(proc_is_gone(getpid()));
	prctl(PR_GET_NAME, old);
	prctl(PR_SET_NAME, "a) T (b");
	assert_false(proc_is_stopped(getpid()));
	prctl(PR_SET_NAME, old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stopped_process),
		cmocka_unit_test(a_running_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
