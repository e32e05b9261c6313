/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of every data-path object: an adaptive pthread mutex.
 *
 * Objects made under an ibv_td keep theirs: the progress thread may run the same object, and an uncontended
 * acquisition is one atomic instruction.  What a td removes is said in docs/ARCHITECTURE.md.
 * The lock spins briefly before it sleeps, because critical sections are short and two cores are common.
 */
#ifndef VRB_UTIL_LOCK_H
#define VRB_UTIL_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct lock {
	pthread_mutex_t mutex;
};

static inline void lock_init(struct lock *l)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&l->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

static inline void lock_destroy(struct lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

static inline void lock_acquire(struct lock *l)
{
	pthread_mutex_lock(&l->mutex);
}

static inline bool lock_try(struct lock *l)
{
	return pthread_mutex_trylock(&l->mutex) == 0;
}

static inline void lock_release(struct lock *l)
{
	pthread_mutex_unlock(&l->mutex);
}

#endif
