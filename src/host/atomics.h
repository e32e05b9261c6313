/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The locks that make atomics of all processes of a host exclude each other (IBV_ATOMIC_HCA),
 * whether they arrive by packet or a local peer runs them, and through whichever registration of
 * the same bytes: several processes may have registered one shared page, each at an address of its
 * own.
 *
 * An address chooses its lock by where it lies in its page, which is the same in every mapping of
 * the same memory; so the lock belongs to the memory, and no process needs to know what memory that
 * is.  The words lie in the file `atomics` of the run directory, which all processes map, those
 * without the local transport too.  In private mode only the threads of the process exclude each
 * other: no other process can reach its memory then.
 *
 * A word: 0 = free, else the incarnation of the holder.  A holder makes two short copies, so
 * waiters spin; one that spins for long checks whether the holder lives, and takes the lock over
 * from a dead holder, or from one stopped for seconds.  What a dead holder left is whole: the
 * 8-byte store that ends an atomic happens or does not.
 *
 * The threads of one process exclude each other by locks of their own. Our own incarnation in the
 * word therefore means corruption.
 *
 * L3: taking the word is acquire, freeing it release; together they order one atomic's copies
 * before the next one's.
 */
#ifndef VRB_HOST_ATOMICS_H
#define VRB_HOST_ATOMICS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/lock.h"

enum {
	ATOMICS_WORDS = 64,
	/* of the machines we know the smallest: mappings of one memory agree below it */
	ATOMICS_PAGE = 4096,
};

/* Answers whether the process with this incarnation lives. */
typedef bool (*atomics_alive_fn)(void *arg, uint64_t incarnation);

struct atomics_word {
	uint64_t holder cacheline_aligned;
};

struct atomics {
	struct atomics_word *word;	/* mapped; NULL in private mode */
	struct lock threads[ATOMICS_WORDS];
	uint64_t me;			/* not 0 */
	atomics_alive_fn alive;
	void *arg;
};

/* Private until atomics_share(). */
void atomics_init(struct atomics *a, uint64_t me, atomics_alive_fn alive, void *arg);

/* Maps the file of the run directory, which is made if need be. Returns 0 or an errno value. */
int atomics_share(struct atomics *a, int dirfd);
void atomics_close(struct atomics *a);

/*
 * For the eight bytes at an address of the process that owns the memory. A thread holds one at a
 * time.
 */
void atomics_lock(struct atomics *a, uint64_t address);
void atomics_unlock(struct atomics *a, uint64_t address);

#endif
