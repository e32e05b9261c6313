/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock that makes atomics of all processes on one process's memory exclude each other (IBV_ATOMIC_HCA), whether they arrive by
 * packet or are run by a neighbour.  It lies in the segment of the process whose memory it guards.
 *
 * One word: 0 = free, else the incarnation of the holder.  A holder does two short copies and lets go, so waiters spin;
 * a waiter that spins long asks whether the holder lives and takes the lock over from a dead one, or from one that has been stopped for
 * seconds.  What the dead holder left is whole: the 8-byte store that ends an atomic happens or does not.
 *
 * The threads of one process exclude each other by a mutex of their own, so whoever finds his own incarnation in the word finds rubbish.
 *
 * L3: taking the word is acquire, freeing it release; together they order one atomic's copies before the next one's.
 */
#ifndef VRB_LOCAL_ATOMICS_H
#define VRB_LOCAL_ATOMICS_H

#include <stdbool.h>
#include <stdint.h>

/* Answers whether the process with this incarnation lives. */
typedef bool (*atomics_alive_fn)(void *arg, uint64_t incarnation);

/* me must not be 0. A thread holds one at a time. */
void atomics_lock(uint64_t *word, uint64_t me, atomics_alive_fn alive, void *arg);
void atomics_unlock(uint64_t *word, uint64_t me);

/* In a forked child: whoever held it does not exist. */
void atomics_after_fork(void);

#endif
