/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow paths of a contended lock.
 *
 *	sleeper		sleepers = 1, full fence, tries once more, then futex_wait(taken == 1)
 *	releaser	taken = 0 (release), then sleepers; if 1: 0, and wakes one
 *
 * The thread that wakes sets `sleepers` again when it gets the lock, so its own release wakes the
 * next: one system call per sleeper, however long the scheduler takes to run it.
 *
 * The releaser's store may become visible after its load. Then the sleeper finds `taken` still 1
 * and sleeps, and no thread wakes it. The store takes nanoseconds and the sleeper's system call
 * longer, so this practically never happens; the timeout of the sleep limits its cost to a
 * millisecond.
 */
#include "util/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	/* some microseconds; a longer wait means a preempted holder */
	SPINS = 64,
	SLEEP_NS = 1000000,
};

static bool spin(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		cpu_relax();
		if (load_relaxed(&l->taken) == 0 && lock_taken_now(l))
			return true;
	}
	return false;
}

/* Taking a lock leaves errno alone. */
static void futex(uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
	int saved = errno;

	syscall(SYS_futex, word, op, value, limit, NULL, 0);
	errno = saved;
}

void lock_wait(struct lock *l)
{
	const struct timespec limit = { 0, SLEEP_NS };

	if (spin(l))
		return;
	for (;;) {
		store_seq_cst(&l->sleepers, 1);
		if (lock_taken_now(l))
			return;
		futex(&l->taken, FUTEX_WAIT_PRIVATE, 1, &limit);
	}
}

void lock_wake(struct lock *l)
{
	store_relaxed(&l->sleepers, 0);
	futex(&l->taken, FUTEX_WAKE_PRIVATE, 1, NULL);
}
