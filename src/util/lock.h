/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of every data-path object. Taking it costs one atomic instruction, and releasing it a
 * plain store. It is not a pthread mutex because those took a quarter of the time of a small
 * message.
 *
 * Most locks are taken by one thread again and again. Such a thread becomes the lock's owner, which
 * takes it without an atomic instruction, until another thread wants it and ends that (lock.c).
 * A thread releases what it took: only lock_init_shared() makes a lock that another may release.
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

#include <pthread.h>
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

/* A thread is its lock_self(), which is another's only after its end; 0: none. */
struct lock {
	uint32_t taken;    /* atomic: LOCK_*; sleepers wait on it. The owner leaves it alone */
	uint32_t sleepers; /* atomic: a thread may be asleep (lock.c) */
	uintptr_t owner;   /* atomic; changes while `taken` is */
	uintptr_t held;    /* atomic: the owner has it; set by that thread only */

	/* Change while `taken` is. */
	uintptr_t last;	/* the last thread that took it */
	uintptr_t only;	/* the first owner; no other thread becomes one */
	uint32_t left;	/* how often `last` has to take it again to become the owner */
	uint32_t ends;	/* how often an ownership was ended */
};

#define LOCK_NO_THREAD UINTPTR_MAX

static inline uintptr_t lock_self(void)
{
#ifdef HAVE_THREAD_POINTER
	return (uintptr_t)__builtin_thread_pointer();
#else
	return (uintptr_t)pthread_self();
#endif
}

/* Threads become owners from now on. Only if heavy_fence_own_join() succeeded. */
void lock_allow_owners(void);

/* For all but the owner, after lock_taken_by_owner(). */
void lock_take(struct lock *l);
bool lock_take_now(struct lock *l);
void lock_give(struct lock *l);

static inline void lock_init(struct lock *l)
{
	*l = (struct lock){ 0 };
	__tsan_mutex_create(l, 0);
}

/* Any thread may release it, so it never has an owner. */
static inline void lock_init_shared(struct lock *l)
{
	lock_init(l);
	l->only = LOCK_NO_THREAD;
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

/*
 * Store `held`, load `owner` after; pairs with the heavy fence of lock.c, which stores and loads
 * them the other way around. The first look keeps other threads from storing.
 */
static inline __attribute__((always_inline)) bool lock_taken_by_owner(struct lock *l)
{
	uintptr_t self = lock_self();

	if (unlikely(load_relaxed(&l->owner) != self))
		return false;
	store_relaxed(&l->held, self);
	light_fence();
	if (likely(load_relaxed(&l->owner) == self))
		return true;
	store_relaxed(&l->held, 0);	/* it came too late */
	return false;
}

static inline __attribute__((always_inline)) void lock_acquire(struct lock *l)
{
	__tsan_mutex_pre_lock(l, 0);
	if (unlikely(!lock_taken_by_owner(l)))
		lock_take(l);
	__tsan_mutex_post_lock(l, 0, 0);
}

static inline __attribute__((always_inline)) bool lock_try(struct lock *l)
{
	bool mine;

	__tsan_mutex_pre_lock(l, __tsan_mutex_try_lock);
	mine = likely(lock_taken_by_owner(l)) || lock_take_now(l);
	__tsan_mutex_post_lock(l, mine ? __tsan_mutex_try_lock : __tsan_mutex_try_lock_failed, 0);
	return mine;
}

/* For display only: does some thread have it at this moment? */
static inline bool lock_in_use(const struct lock *l)
{
	return load_relaxed(&l->held) || load_relaxed(&l->taken) != LOCK_FREE;
}

/* For what may run at exit: a signal's handler may have called exit() in the thread that has it. */
static inline bool lock_try_at_exit(struct lock *l)
{
	return load_relaxed(&l->held) != lock_self() && lock_try(l);
}

static inline __attribute__((always_inline)) void lock_release(struct lock *l)
{
	__tsan_mutex_pre_unlock(l, 0);
	if (likely(load_relaxed(&l->owner)))
		store_release(&l->held, 0);	/* pairs with end_ownership() */
	else
		lock_give(l);
	__tsan_mutex_post_unlock(l, 0);
}

#endif
