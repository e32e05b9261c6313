/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that runs, sleeps, is stopped, and has ended. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/wants_cpu.h"

static pid_t start(bool runs)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "S) S (R", 0, 0, 0);
	while (runs)
		;
	for (;;)
		pause();
}

static void who_runs_wants_to(void **state)
{
	pid_t pid = start(true);
	uint64_t before;

	while (!host_wants_cpu(pid))
		sched_yield();
	before = host_cpu_time(pid);
	while (host_cpu_time(pid) <= before)
		sched_yield();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_false(host_wants_cpu(pid));
	assert_int_equal(kill(pid, SIGCONT), 0);
	while (!host_wants_cpu(pid))
		sched_yield();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_false(host_wants_cpu(pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(host_wants_cpu(pid));
	assert_int_equal(host_cpu_time(pid), 0);
}

static void who_sleeps_does_not(void **state)
{
	pid_t pid = start(false);

	while (host_wants_cpu(pid))
		sched_yield();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_runs_wants_to),
		cmocka_unit_test(who_sleeps_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
