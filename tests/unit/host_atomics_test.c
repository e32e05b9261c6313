/* SPDX-License-Identifier: BSD-2-Clause */
/* The locks of atomics: mutual exclusion, and takeover from a dead owner. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/atomics.h"
#include "util/atomic.h"
#include "util/compiler.h"

#include "host_env.h"

enum {
	ME = 11,
	OTHER = 12,
	ADDRESS = 0x7000 + 5 * 8,
	WORD = 5,
	ADDITIONS = 20000,
};

static int liveness_checks /* atomic */, lives;
static unsigned int interruptions;

/* In the place of the C library's; tmpfs gives up if a signal comes. */
int posix_fallocate(int fd, off_t at, off_t len)
{
	if (interruptions) {
		interruptions--;
		return EINTR;
	}
	return syscall(SYS_fallocate, fd, 0, at, len) ? errno : 0;
}

static bool lives_for_a_while(void *arg, uint64_t incarnation)
{
	return fetch_add_relaxed(&liveness_checks, 1) < lives;
}

static void join_as(struct atomics *a, uint64_t me)
{
	int dir = open(run_dir, O_DIRECTORY | O_RDONLY);

	assert_true(dir >= 0);
	atomics_init(a, me, lives_for_a_while, NULL);
	assert_int_equal(atomics_share(a, dir), 0);
	close(dir);
}

static void the_lock_is_taken_over(void **state)
{
	uint64_t *word;
	struct atomics a;

	join_as(&a, ME);
	word = &a.word[WORD].holder;
	atomics_lock(&a, ADDRESS);
	assert_int_equal(*word, ME);
	assert_int_equal(liveness_checks, 0);
	atomics_unlock(&a, ADDRESS);
	assert_int_equal(*word, 0);

	/* The holder died after it was checked. */
	*word = OTHER;
	lives = 2;
	atomics_lock(&a, ADDRESS);
	assert_int_equal(*word, ME);
	assert_int_equal(liveness_checks, 3);
	atomics_unlock(&a, ADDRESS);

	/* This process's incarnation in a lock that it does not hold means corruption. */
	*word = ME;
	liveness_checks = 0;
	atomics_lock(&a, ADDRESS);
	assert_int_equal(liveness_checks, 0);

	/* Another process took the lock over and keeps it. */
	*word = OTHER;
	atomics_unlock(&a, ADDRESS);
	assert_int_equal(*word, OTHER);

	/* The wait for a stopped holder is limited. */
	liveness_checks = 0;
	lives = 1 << 30;
	atomics_lock(&a, ADDRESS);
	assert_int_equal(*word, ME);
	atomics_unlock(&a, ADDRESS);
	atomics_close(&a);
}

/*
 * The same memory mapped at two addresses has the same lock, and words that cannot be the same
 * memory do not share one.
 */
static void the_lock_belongs_to_the_memory(void **state)
{
	struct atomics a, b;

	join_as(&a, ME);
	join_as(&b, OTHER);
	for (uint64_t at = 0; at < ATOMICS_PAGE; at += 8) {
		uint64_t word = at / 8 % ATOMICS_WORDS;

		atomics_lock(&a, 0x10000 + at);
		assert_int_equal(b.word[word].holder, ME);
		atomics_lock(&b, 0x555000 + at + 8);
		atomics_unlock(&b, 0x555000 + at + 8);
		atomics_unlock(&a, 0x10000 + at);
		atomics_lock(&b, 0x555000 + at);
		assert_int_equal(a.word[word].holder, OTHER);
		atomics_unlock(&b, 0x555000 + at);
	}
	atomics_close(&a);
	atomics_close(&b);
}

/*
 * Read and written separately, so only the locks protect it. For ThreadSanitizer two mappings of
 * one word are two words.
 */
static uint64_t sum;

static void *add(void *arg)
{
	struct atomics *a = arg;

	for (int i = 0; i < ADDITIONS; i++) {
		atomics_lock(a, ADDRESS);
		store_relaxed(&sum, load_relaxed(&sum) + 1);
		atomics_unlock(a, ADDRESS);
	}
	return NULL;
}

/* Two threads in each of two processes; in private mode two threads in one. */
static void atomics_do_not_interleave(void **state)
{
	struct atomics a[2];
	pthread_t t[4];

	lives = 1 << 30;
	join_as(&a[0], ME);
	join_as(&a[1], OTHER);
	sum = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, add, &a[i % 2]), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(sum, ARRAY_SIZE(t) * ADDITIONS);
	atomics_close(&a[0]);
	atomics_close(&a[1]);

	atomics_init(&a[0], ME, lives_for_a_while, NULL);
	sum = 0;
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, add, &a[0]), 0);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(sum, 2 * ADDITIONS);
	atomics_close(&a[0]);
}

/* All members of a host have the file, with its memory allocated from the start. */
static void members_share_them(void **state)
{
	char path[96];
	struct host *h = join();
	struct stat st;

	snprintf(path, sizeof(path), "%s/atomics", run_dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(st.st_blocks > 0);	/* memory is allocated */
	host_lock_atomics(h, ADDRESS);
	host_unlock_atomics(h, ADDRESS);
	host_leave(h);
}

static void a_signal_does_not_keep_a_process_out(void **state)
{
	struct host *h;

	interruptions = 2;
	h = join();
	assert_int_equal(interruptions, 0);
	assert_true(is_here(h));
	host_leave(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(the_lock_is_taken_over),
		IN_DIR(the_lock_belongs_to_the_memory),
		IN_DIR(atomics_do_not_interleave),
		IN_DIR(members_share_them),
		IN_DIR(a_signal_does_not_keep_a_process_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
