/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks that make the atomics of all processes of a host mutually exclusive (IBV_ATOMIC_HCA),
 * whether they arrive as packets or a local peer executes them, and through any registration of the
 * same bytes: several processes may have registered one shared page, each at its own address.
 *
 * The offset of an address in its page, the same in every mapping of the memory, selects the lock,
 * so no process needs to identify the memory. The words are in the file `atomics` of the run
 * directory, which all processes map, even those without the local transport. In private mode only
 * the threads of the process exclude each other: no other process can access its memory then.
 *
 * A word: 0 = free, else the incarnation of the holder. A holder makes two short copies, so waiters
 * spin. A waiter that spins for long checks whether the holder lives, and takes the lock over from
 * a dead holder, or from one stopped for seconds. A dead holder leaves no partial atomic: the
 * 8-byte store that completes it has happened or has not.
 *
 * Threads of one process exclude each other by the process's own locks. Our own incarnation in the
 * word therefore means corruption.
 *
 * L3: taking the word is acquire, freeing it release; together they order one atomic's copies
 * before those of the next.
 */
#ifndef VRB_HOST_ATOMICS_H
#define VRB_HOST_ATOMICS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/lock.h"

enum {
	ATOMICS_WORDS = 64,
	/* the smallest page size of all machines: mappings of one memory agree below it */
	ATOMICS_PAGE = 4096,
};

/* Returns whether the process with this incarnation is alive. */
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

/*
 * Maps the file of the run directory; creates it if it does not exist. Returns 0 or an errno value.
 */
int atomics_share(struct atomics *a, int dirfd);
void atomics_close(struct atomics *a);

/*
 * The address of the eight bytes in the process that owns the memory. A thread holds one lock at a
 * time.
 */
void atomics_lock(struct atomics *a, uint64_t address);
void atomics_unlock(struct atomics *a, uint64_t address);

#endif
