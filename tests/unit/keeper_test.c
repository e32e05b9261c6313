/* SPDX-License-Identifier: BSD-2-Clause */
/* The word of a keeper thread: its value while the thread runs, and after each way to end. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/keeper.h"
#include "util/compiler.h"

static uint32_t *word;	/* shared with children */
static pthread_barrier_t started;

static void *keep_and_end(void *arg)
{
	struct keeper *k = arg;

	keeper_begin(k, word);
	assert_true(keeper_vouches(word));
	assert_false(keeper_gone(word));
	return NULL;
}

static void *keep_on(void *arg)
{
	keeper_begin(arg, word);
	pthread_barrier_wait(&started);
	for (;;)
		pause();
	return NULL;
}

static void a_thread_that_ends(void **state)
{
	struct keeper k;
	pthread_t t;

	*word = 0;
	assert_false(keeper_vouches(word));
	assert_false(keeper_gone(word));
	assert_int_equal(pthread_create(&t, NULL, keep_and_end, &k), 0);
	pthread_join(t, NULL);
	assert_true(keeper_gone(word));
}

static void an_owner_that_leaves(void **state)
{
	*word = 0;
	keeper_end(word);
	assert_true(keeper_gone(word));
}

static void run_exec(void)
{
	execl("/bin/true", "true", NULL);
}

static void run_kill(void)
{
	kill(getpid(), SIGKILL);
}

static void run_exit(void)
{
	_exit(0);
}

/* A process ends in this way in its first thread while another thread is the keeper. */
static void a_process_that_ends(void **state)
{
	static void (*const ways[])(void) = { run_exec, run_kill, run_exit };

	for (unsigned int i = 0; i < ARRAY_SIZE(ways); i++) {
		pid_t pid;

		*word = 0;
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct keeper k;
			pthread_t t;

			pthread_barrier_init(&started, NULL, 2);
			if (pthread_create(&t, NULL, keep_on, &k))
				_exit(1);
			pthread_barrier_wait(&started);
			if (!keeper_vouches(word) || keeper_gone(word))
				_exit(1);
			ways[i]();
			_exit(1);
		}
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_true(keeper_gone(word));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_ends),
		cmocka_unit_test(an_owner_that_leaves),
		cmocka_unit_test(a_process_that_ends),
	};
	struct keeper probe;

	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (word == MAP_FAILED)
		return 1;
	keeper_begin(&probe, word);
	if (!keeper_vouches(word)) {
		printf("no robust futexes on this system\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
