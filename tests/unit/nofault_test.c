/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded accesses: what they copy, what they report, and that the program's own signal handlers
 * never see their faults.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/nofault.h"
#include "util/atomic.h"
#include "util/compiler.h"

static size_t page;

static bool (*const copies[])(void *dst, const void *src, size_t len) = { vrb_guard_copy,
									  vrb_guard_copy_past };

/* Two pages: the first is accessible with `prot`, the second is not accessible. */
static uint8_t *page_and_guard(int prot)
{
	uint8_t *p =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	/* cmocka installs its own handlers before each test */
	vrb_guard_install();
	memset(p, 0x5a, 2 * page);
	assert_int_equal(mprotect(p, page, prot), 0);
	assert_int_equal(munmap(p + page, page), 0);
	return p;
}

static void copies_every_length_and_alignment(void **state)
{
	uint8_t src[4096 + 64], dst[4096 + 64], want[4096 + 64];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = i * 7 + 3;
	for (size_t len = 0; len <= 4096; len += len < 160 ? 1 : 97) {
		size_t s = len % 13, d = len % 7;

		memset(want, 0xee, sizeof(want));
		memcpy(want + d, src + s, len);
		for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
			memset(dst, 0xee, sizeof(dst));
			assert_true(copies[i](dst + d, src + s, len));
			assert_memory_equal(dst, want, sizeof(dst));
		}
	}
}

static void reports_a_read_beyond_the_mapping(void **state)
{
	uint8_t *p = page_and_guard(PROT_READ), dst[4096];

	for (size_t len = 1; len <= 2048; len += len < 40 ? 1 : 61) {
		for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
			assert_true(copies[i](dst, p + page - len, len));
			assert_false(copies[i](dst, p + page - len + 1, len));
		}
	}
	munmap(p, page);
}

static void reports_a_write_and_leaves_a_prefix(void **state)
{
	uint8_t *p = page_and_guard(PROT_READ | PROT_WRITE), src[64];

	memset(src, 0x11, sizeof(src));
	for (size_t i = 0; i < ARRAY_SIZE(copies); i++)
		assert_false(copies[i](p + page - 32, src, sizeof(src)));
	for (int i = 0; i < 32; i++)
		assert_true(p[page - 32 + i] == 0x11 || p[page - 32 + i] == 0x5a);
	assert_int_equal(p[page - 32], 0x11);
	munmap(p, page);
}

static void reports_read_only_memory(void **state)
{
	uint8_t *p = page_and_guard(PROT_READ);
	uint64_t there = 0x5a5a5a5a5a5a5a5a, old;

	assert_false(vrb_guard_copy(p, "12345678", 8));
	assert_false(vrb_guard_store64((uint64_t *)p, 1));
	assert_false(vrb_guard_fetch_add64((uint64_t *)p, 1, &old));
	assert_false(vrb_guard_cmp_swap64((uint64_t *)p, there, 1, &old));
	munmap(p, page);
}

static void reports_a_file_that_shrank(void **state)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);
	uint8_t *p, dst[16];

	vrb_guard_install();
	assert_int_equal(ftruncate(fd, page), 0);
	p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_false(vrb_guard_copy(dst, p, sizeof(dst))); /* SIGBUS */
	munmap(p, page);
	close(fd);
}

static void atomics(void **state)
{
	uint64_t v = 5, old = 0;

	assert_true(vrb_guard_fetch_add64(&v, 3, &old));
	assert_int_equal(old, 5);
	assert_int_equal(v, 8);
	assert_true(vrb_guard_cmp_swap64(&v, 7, 9, &old));
	assert_int_equal(old, 8);
	assert_int_equal(v, 8);
	assert_true(vrb_guard_cmp_swap64(&v, 8, 9, &old));
	assert_int_equal(old, 8);
	assert_int_equal(v, 9);
	assert_true(vrb_guard_store64(&v, 77));
	assert_int_equal(v, 77);
}

/* A receiver polls the last byte and then must find the whole message. */
enum { ROUNDS = 3000, MESSAGE = 1500 };

static uint8_t inbox[MESSAGE];
static uint32_t seen;

static void *receiver(void *arg)
{
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		uint8_t tag = round;

		while (load_acquire(&inbox[MESSAGE - 1]) != tag)
			cpu_relax();
		for (size_t i = 0; i < MESSAGE; i++)
			if (inbox[i] != tag)
				return inbox; /* torn */
		store_release(&seen, round);
	}
	return NULL;
}

static void last_byte_comes_last(void **state)
{
	uint8_t msg[MESSAGE];
	pthread_t thread;
	void *verdict;

	assert_int_equal(pthread_create(&thread, NULL, receiver, NULL), 0);
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		memset(msg, round, sizeof(msg));
		assert_true(vrb_guard_copy(inbox, msg, sizeof(msg)));
		while (load_acquire(&seen) != round)
			cpu_relax();
	}
	pthread_join(thread, &verdict);
	assert_null(verdict);
}

/* ---- The program's own handlers ---- */

static sigjmp_buf escape;
static volatile int calls_first, calls_second;
static struct sigaction behind_second;

static void first(int sig, siginfo_t *info, void *context)
{
	calls_first++;
	siglongjmp(escape, 1);
}

static void second(int sig, siginfo_t *info, void *context)
{
	calls_second++;
	behind_second.sa_sigaction(sig, info, context);
}

static void install(void (*fn)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction act = { .sa_sigaction = fn, .sa_flags = SA_SIGINFO };

	assert_int_equal(sigaction(SIGSEGV, &act, old), 0);
}

/* A fault of the program itself; returns whether a handler jumped back here. */
static bool fault(void)
{
	uint8_t *p = page_and_guard(PROT_NONE);
	volatile uint8_t v;

	if (sigsetjmp(escape, 1)) {
		munmap(p, page);
		return true;
	}
	v = *(volatile uint8_t *)p;
	(void)v;
	return false;
}

static void faults_of_the_program_go_to_its_handler(void **state)
{
	uint8_t *p, dst[8];

	install(first, NULL);
	vrb_guard_install();
	calls_first = 0;
	/* The handler leaves by siglongjmp each time: no state of an earlier round may remain. */
	for (int i = 1; i <= 3; i++) {
		assert_true(fault());
		assert_int_equal(calls_first, i);
		p = page_and_guard(PROT_NONE);
		assert_false(vrb_guard_copy(dst, p, sizeof(dst)));
		assert_int_equal(calls_first, i);
		munmap(p, page);
	}
}

static void a_later_handler_that_chains(void **state)
{
	uint8_t *p = page_and_guard(PROT_NONE), dst[8];

	install(first, NULL);
	vrb_guard_install();
	install(second, &behind_second);
	calls_first = calls_second = 0;
	/*
	 * The library's handler is behind the program's now and works if that one passes faults on.
	 */
	assert_false(vrb_guard_copy(dst, p, sizeof(dst)));
	assert_int_equal(calls_second, 1);
	assert_int_equal(calls_first, 0);
	/*
	 * A registration puts the library's handler in front again; it passes the program's faults
	 * on to the second handler, which passes them on to the library's, which passes them on to
	 * the first.
	 */
	vrb_guard_install();
	assert_false(vrb_guard_copy(dst, p, sizeof(dst)));
	assert_int_equal(calls_second, 1);
	for (int i = 1; i <= 2; i++) {
		assert_true(fault());
		assert_int_equal(calls_second, 1 + i);
		assert_int_equal(calls_first, i);
	}
	munmap(p, page);
}

/* Runs fn in a child; returns the signal that killed it, or 0. */
static int killed_by(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sigaction dfl = { .sa_handler = SIG_DFL };

		sigaction(SIGSEGV, &dfl, NULL);
		vrb_guard_install();
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void write_to_null(void)
{
	*(volatile char *)page_and_guard(PROT_NONE) = 1;
}

static void send_to_self(void)
{
	kill(getpid(), SIGSEGV);
	pause();
}

static void ignore_sent(void)
{
	struct sigaction ign = { .sa_handler = SIG_IGN };

	sigaction(SIGSEGV, &ign, NULL);
	vrb_guard_install();
	raise(SIGSEGV);
}

static void default_action_still_kills(void **state)
{
	assert_int_equal(killed_by(write_to_null), SIGSEGV);
	assert_int_equal(killed_by(send_to_self), SIGSEGV);
	assert_int_equal(killed_by(ignore_sent), 0);
}

/* ---- Handlers for one fault ---- */

static volatile int *one_shot_calls;	/* shared with the children */
static bool one_shot_raises;

static void one_shot(int sig, siginfo_t *info, void *context)
{
	if (++*one_shot_calls > 1)
		_exit(1);
	if (one_shot_raises)
		raise(sig);	/* else it returns, and the access faults again */
}

static void install_one_shot(int flags)
{
	struct sigaction act = {
		.sa_sigaction = one_shot,
		.sa_flags = SA_SIGINFO | SA_RESETHAND | flags,
	};

	assert_int_equal(sigaction(SIGSEGV, &act, NULL), 0);
	vrb_guard_install();
}

static void fault_once(void)
{
	install_one_shot(0);
	write_to_null();
}

static void fault_once_nodefer(void)
{
	install_one_shot(SA_NODEFER);
	write_to_null();
}

static void send_once(void)
{
	install_one_shot(0);
	raise(SIGSEGV);
	raise(SIGSEGV);
}

/* A guarded access is no fault of the program, and spends no handler. */
static void fault_once_after_guarded(void)
{
	uint8_t dst[8];

	install_one_shot(0);
	if (vrb_guard_copy(dst, page_and_guard(PROT_NONE), sizeof(dst)) || *one_shot_calls)
		_exit(2);
	write_to_null();
}

/* Installed again, it serves once more. */
static void send_once_each(void)
{
	install_one_shot(0);
	raise(SIGSEGV);
	if (*one_shot_calls != 1)
		_exit(3);
	*one_shot_calls = 0;
	install_one_shot(0);
	raise(SIGSEGV);
	raise(SIGSEGV);
}

static void a_handler_for_one_fault(void **state)
{
	static void (*const ways[])(void) = { fault_once, fault_once_nodefer, send_once,
					      fault_once_after_guarded };

	one_shot_calls = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	assert_true(one_shot_calls != MAP_FAILED);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(ways); i++) {
		one_shot_raises = i % 2;
		*one_shot_calls = 0;
		assert_int_equal(killed_by(ways[i / 2]), SIGSEGV);
		assert_int_equal(*one_shot_calls, 1);
	}
	one_shot_raises = false;
	*one_shot_calls = 0;
	assert_int_equal(killed_by(send_once_each), SIGSEGV);
	assert_int_equal(*one_shot_calls, 1);
	munmap((void *)one_shot_calls, page);
}

static void *copy_with_all_blocked(void *p)
{
	uint8_t dst[64];
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	assert_false(vrb_guard_copy(dst, p, sizeof(dst)));
	return NULL;
}

/* A thread that blocks every signal would be killed by its first fault. */
static void a_thread_that_blocks_everything(void **state)
{
	uint8_t *p = page_and_guard(PROT_NONE);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, copy_with_all_blocked, p), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	munmap(p, page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_every_length_and_alignment),
		cmocka_unit_test(reports_a_read_beyond_the_mapping),
		cmocka_unit_test(reports_a_write_and_leaves_a_prefix),
		cmocka_unit_test(reports_read_only_memory),
		cmocka_unit_test(reports_a_file_that_shrank),
		cmocka_unit_test(a_thread_that_blocks_everything),
		cmocka_unit_test(atomics),
		cmocka_unit_test(last_byte_comes_last),
		cmocka_unit_test(faults_of_the_program_go_to_its_handler),
		cmocka_unit_test(a_later_handler_that_chains),
		cmocka_unit_test(default_action_still_kills),
		cmocka_unit_test(a_handler_for_one_fault),
	};

	page = sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
