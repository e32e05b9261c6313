/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow paths of a contended lock.
 *
 *	sleeper		announces itself in `sleepers`, full fence, tries once more, then
 *			futex_wait(LOCK_TAKEN)
 *	releaser	LOCK_FREE (release), then `sleepers`; if any: clears them, and wakes one
 *
 * The thread that wakes announces itself again when it gets the lock, so its own release wakes the
 * next: one system call per sleeper, however long the scheduler takes to run it.
 *
 * The releaser's store may become visible after its load. Then the sleeper finds LOCK_TAKEN still
 * and sleeps, and no thread wakes it. The store takes nanoseconds and the sleeper's system call
 * longer, so this practically never happens; the timeout of the sleep limits its cost to a
 * millisecond.
 *
 * A sleeper that was woken and found the lock taken again LOSSES times announces that it starves.
 * The next releaser takes the lock for it: LOCK_PASSED, which only sleepers take. If none was
 * asleep, none may come for it, so the releaser frees it again.
 */
#include "util/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	/* some microseconds; a longer wait means a preempted holder */
	SPINS = 512,
	SLEEP_NS = 1000000,
	LOSSES = 2,
};

/* Bits of lock.sleepers. */
enum {
	ASLEEP = 1,
	STARVES = 2,
};

static bool spin(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		cpu_relax();
		if (load_relaxed(&l->taken) == LOCK_FREE && lock_taken_now(l))
			return true;
	}
	return false;
}

/* Taking a lock leaves errno alone. */
static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
	int saved = errno;
	long ret = syscall(SYS_futex, word, op, value, limit, NULL, 0);

	errno = saved;
	return ret;
}

/* Acquire: pairs with the release of the thread that passed the lock. */
static bool lock_received(struct lock *l)
{
	uint32_t state = LOCK_PASSED;

	return cas_acq_rel(&l->taken, &state, LOCK_TAKEN);
}

void lock_wait(struct lock *l)
{
	const struct timespec limit = { 0, SLEEP_NS };
	unsigned int woken = 0;

	if (spin(l))
		return;
	for (;;) {
		fetch_or_acq_rel(&l->sleepers, woken < LOSSES ? ASLEEP : STARVES);
		full_fence();
		if (lock_taken_now(l) || lock_received(l))
			return;
		woken += futex(&l->taken, FUTEX_WAIT_PRIVATE, LOCK_TAKEN, &limit) == 0;
	}
}

/* Returns false if another thread has taken the lock, whose release will look for sleepers. */
static bool pass(struct lock *l)
{
	uint32_t state = LOCK_FREE;

	if (!cas_acq_rel(&l->taken, &state, LOCK_PASSED))
		return false;
	if (futex(&l->taken, FUTEX_WAKE_PRIVATE, 1, NULL) <= 0) {
		state = LOCK_PASSED;
		cas_acq_rel(&l->taken, &state, LOCK_FREE);
	}
	return true;
}

void lock_wake(struct lock *l)
{
	if ((swap_acq_rel(&l->sleepers, 0) & STARVES) && pass(l))
		return;
	futex(&l->taken, FUTEX_WAKE_PRIVATE, 1, NULL);
}
