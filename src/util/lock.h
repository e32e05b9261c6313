/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of every data-path object. Taking it costs one atomic instruction, and releasing it a
 * plain store. It is not a pthread mutex because those took a quarter of the time of a small
 * message.
 *
 * Objects created under an ibv_td keep their lock: the progress thread may use the same object.
 *
 * A thread that finds the lock taken spins for a moment, because critical sections are short, and
 * then sleeps. The release checks for sleepers without a fence after the store, so it may check too
 * early; therefore a sleep has a timeout (lock.c). A sleeper that others beat to it again and again
 * gets the lock passed by a release, so that no thread waits for ever for one that pollers take and
 * release all the time. ThreadSanitizer is told that this is a mutex, so that it checks the lock
 * order.
 */
#ifndef VRB_UTIL_LOCK_H
#define VRB_UTIL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/atomic.h"
#include "util/compiler.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_mutex_create(l, flags)
#define __tsan_mutex_destroy(l, flags)
#define __tsan_mutex_pre_lock(l, flags)
#define __tsan_mutex_post_lock(l, flags, recursion)
#define __tsan_mutex_pre_unlock(l, flags)
#define __tsan_mutex_post_unlock(l, flags)
#endif

enum {
	LOCK_FREE,
	LOCK_TAKEN,
	LOCK_PASSED, /* it waits for a sleeper */
};

struct lock {
	uint32_t taken;    /* atomic: LOCK_*; sleepers wait on it */
	uint32_t sleepers; /* atomic: a thread may be asleep (lock.c) */
};

/* The slow paths, in lock.c. Cold, so that the compiler keeps them out of line. */
__attribute__((cold)) void lock_wait(struct lock *l);
__attribute__((cold)) void lock_wake(struct lock *l);

static inline void lock_init(struct lock *l)
{
	*l = (struct lock){ 0 };
	__tsan_mutex_create(l, 0);
}

static inline void lock_destroy(struct lock *l)
{
	__tsan_mutex_destroy(l, 0);
}

/*
 * Reinitialises a static lock in a forked child; its holder may have been a thread that does not
 * exist there. Call it from fork handlers only: ThreadSanitizer reports nothing inside them, such
 * as the destruction of a held lock.
 */
static inline void lock_renew(struct lock *l)
{
	lock_destroy(l);
	lock_init(l);
}

/* Acquire: pairs with the previous holder's release. */
static inline bool lock_taken_now(struct lock *l)
{
	uint32_t state = LOCK_FREE;

	return cas_acq_rel(&l->taken, &state, LOCK_TAKEN);
}

static inline void lock_acquire(struct lock *l)
{
	__tsan_mutex_pre_lock(l, 0);
	if (unlikely(!lock_taken_now(l)))
		lock_wait(l);
	__tsan_mutex_post_lock(l, 0, 0);
}

static inline bool lock_try(struct lock *l)
{
	bool mine;

	__tsan_mutex_pre_lock(l, __tsan_mutex_try_lock);
	mine = load_relaxed(&l->taken) == LOCK_FREE && lock_taken_now(l);
	__tsan_mutex_post_lock(l, mine ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);
	return mine;
}

static inline void lock_release(struct lock *l)
{
	__tsan_mutex_pre_unlock(l, 0);
	store_release(&l->taken, LOCK_FREE);
	if (unlikely(load_relaxed(&l->sleepers)))
		lock_wake(l);
	__tsan_mutex_post_unlock(l, 0);
}

#endif
