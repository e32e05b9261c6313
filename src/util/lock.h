/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of every data-path object.  Taking it costs one atomic instruction and giving it back a plain store, which is why it is
 * not a pthread mutex: those were a quarter of what a small message costs.
 *
 * Objects made under an ibv_td keep theirs: the progress thread may run the same object.
 *
 * Who finds it taken spins for a moment, because critical sections are short, and then sleeps.  Whoever gives it back looks
 * whether somebody sleeps without a fence between the two, so he may look too early; a sleeper therefore wakes by itself now and then
 * (lock.c).  ThreadSanitizer is told of it as of a mutex, so that it checks the order of locks.
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

struct lock {
	uint32_t taken;		/* atomic: 0 or 1; sleepers wait on it */
	uint32_t sleepers;	/* atomic: somebody may be asleep */
};

/* lock.c: the slow ways. */
void lock_wait(struct lock *l);
void lock_wake(struct lock *l);

static inline void lock_init(struct lock *l)
{
	*l = (struct lock){ 0 };
	__tsan_mutex_create(l, 0);
}

static inline void lock_destroy(struct lock *l)
{
	__tsan_mutex_destroy(l, 0);
}

/* Acquire: pairs with the release of whoever held it before. */
static inline bool lock_taken_now(struct lock *l)
{
	uint32_t free = 0;

	return cas_acq_rel(&l->taken, &free, 1);
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
	mine = load_relaxed(&l->taken) == 0 && lock_taken_now(l);
	__tsan_mutex_post_lock(l, mine ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);
	return mine;
}

static inline void lock_release(struct lock *l)
{
	__tsan_mutex_pre_unlock(l, 0);
	store_release(&l->taken, 0);
	if (unlikely(load_relaxed(&l->sleepers)))
		lock_wake(l);
	__tsan_mutex_post_unlock(l, 0);
}

#endif
