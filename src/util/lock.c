/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow paths of a contended lock, and its owner.
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
 *
 * A thread that took the lock TURNS times in a row becomes its owner:
 *
 *	owner		`held`, light fence, `owner` is still itself: has the lock; after that,
 *			`held` = 0 (release)
 *	another		takes `taken`; owner = 0, heavy fence, waits for held = 0 (acquire), or
 *			gives up: `owner` and `taken` as before
 *
 * Either the owner sees that it is none any more, and goes the other way, or the other thread sees
 * that it has the lock. A thread that was preempted after its first look at `owner` may store
 * `held` at any later time. That would hide the `held` of another owner, so only one thread is ever
 * owner of a lock; it would have to go on itself first.
 *
 * An end costs one to three microseconds, a few hundred atomic instructions. The number of turns
 * doubles with each of the first DOUBLED ends, so that two threads, in turns of any length, end no
 * more than one ownership in 2,048 turns.
 */
#include "util/lock.h"

#include <assert.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/cancel.h"
#include "util/heavy_fence.h"

enum {
	/* some microseconds; a longer wait means a preempted holder */
	SPINS = 512,
	SLEEP_NS = 1000000,
	LOSSES = 2,
	TURNS = 128,
	DOUBLED = 4,	/* times at most */
	HELD_NS = 20000,
};

static bool owners; /* atomic: heavy fences work */

/* Bits of lock.sleepers. */
enum {
	ASLEEP = 1,
	STARVES = 2,
};

/* Acquire: pairs with the previous holder's release. */
static bool taken_now(struct lock *l)
{
	uint32_t state = LOCK_FREE;

	return cas_acq_rel(&l->taken, &state, LOCK_TAKEN);
}

static bool spin(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		cpu_relax();
		if (load_relaxed(&l->taken) == LOCK_FREE && taken_now(l))
			return true;
	}
	return false;
}

/* Taking a lock leaves errno alone. */
static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
	return SYS_CALL(SYS_futex, word, op, value, limit, NULL, 0);
}

/* Acquire: pairs with the release of the thread that passed the lock. */
static bool lock_received(struct lock *l)
{
	uint32_t state = LOCK_PASSED;

	return cas_acq_rel(&l->taken, &state, LOCK_TAKEN);
}

__attribute__((cold)) static void wait_for(struct lock *l)
{
	const struct timespec limit = { 0, SLEEP_NS };
	unsigned int woken = 0;

	if (spin(l))
		return;
	for (;;) {
		fetch_or_acq_rel(&l->sleepers, woken < LOSSES ? ASLEEP : STARVES);
		full_fence();
		if (taken_now(l) || lock_received(l))
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

__attribute__((cold)) static void wake(struct lock *l)
{
	if ((swap_acq_rel(&l->sleepers, 0) & STARVES) && pass(l))
		return;
	futex(&l->taken, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void free_taken(struct lock *l)
{
	assert(load_relaxed(&l->taken) != LOCK_FREE);
	store_release(&l->taken, LOCK_FREE);
	if (unlikely(load_relaxed(&l->sleepers)))
		wake(l);
}

/* Another thread may be ending this one's ownership. */
void lock_give(struct lock *l)
{
	if (load_relaxed(&l->held) == lock_self())
		store_release(&l->held, 0);	/* pairs with end_ownership() */
	else
		free_taken(l);
}

void lock_allow_owners(void)
{
	store_relaxed(&owners, true);
}

/* Returns false if `now` and the owner has the lock. */
static bool end_ownership(struct lock *l, bool now)
{
	const struct timespec pause = { 0, HELD_NS };

	l->ends++;
	store_relaxed(&l->owner, 0);
	if (!heavy_fence_own()) {
		store_relaxed(&owners, false);
		heavy_fence_settle();
	}
	/* Acquire: pairs with the owner's release. */
	for (unsigned int i = 0; load_acquire(&l->held); i++) {
		if (now) {
			/* Whoever takes it next has to wait for the owner, too. */
			store_relaxed(&l->owner, l->only);
			return false;
		}
		if (i < SPINS)
			cpu_relax();
		else
			SYS_CALL(SYS_nanosleep, &pause, NULL);
	}
	return true;
}

/* It has the lock as its owner from here on. Another thread may take `taken` at once. */
static void become_owner(struct lock *l, uintptr_t self)
{
	l->only = self;
	store_relaxed(&l->held, self);
	store_relaxed(&l->owner, self);
	free_taken(l);
}

/*
 * A thread is the owner, even this one if it came too late and another gave up, or another thread
 * took it last, or this one takes it often enough to own it.
 */
__attribute__((cold)) static bool change_owner(struct lock *l, bool now)
{
	uintptr_t self = lock_self();
	bool mine = !load_relaxed(&l->owner) || end_ownership(l, now), owns;

	if (!mine) {
		free_taken(l);
		return false;
	}
	owns = load_relaxed(&owners) && l->last == self && !l->left &&
	       (!l->only || l->only == self);
	l->last = self;
	l->left = TURNS << min(l->ends, (uint32_t)DOUBLED);
	if (owns)
		become_owner(l, self);
	return true;
}

/* `taken` is. Counts this turn. */
static bool settle(struct lock *l, bool now)
{
	if (likely(!load_relaxed(&l->owner) && l->last == lock_self() && --l->left))
		return true;
	return change_owner(l, now);
}

void lock_take(struct lock *l)
{
	if (unlikely(!taken_now(l)))
		wait_for(l);
	settle(l, false);
}

bool lock_take_now(struct lock *l)
{
	return load_relaxed(&l->taken) == LOCK_FREE && !load_relaxed(&l->held) && taken_now(l) &&
	       settle(l, true);
}
