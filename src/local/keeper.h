/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper: a thread whose robust futex shows that its process still runs with the same memory.
 * The segment header holds the futex word, and the thread's robust list names it. The kernel marks
 * the word when the thread ends: when the process exits in any way, or when exec is about to
 * replace its memory (after all other threads have ended). So one load of a word without
 * FUTEX_OWNER_DIED proves that the pid still names the expected process with the expected memory.
 *
 * A word of 0 means no keeper, as in a process without a progress thread. Peers then ask the kernel
 * each time (peer_in_reach()).
 *
 * L10: the kernel's store precedes the removal of the memory; pairs with the acquire of
 * keeper_gone().
 *
 * Peers cannot corrupt the list, which is in the owner's private memory. A wrong word costs one
 * connection.
 */
#ifndef VRB_LOCAL_KEEPER_H
#define VRB_LOCAL_KEEPER_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"

/* Lives in the owner's private memory while the thread runs. */
struct keeper {
	struct robust_list_head head;
	struct robust_list node;
};

/*
 * Makes the calling thread the keeper. The thread must not lock robust mutexes, because this
 * replaces glibc's list of them. If the kernel has no robust lists, the word stays 0.
 */
void keeper_begin(struct keeper *k, uint32_t *word);

/* Ends the keeper in an orderly way, before the segment is destroyed. */
static inline void keeper_end(uint32_t *word)
{
	store_release(word, FUTEX_OWNER_DIED);
}

static inline bool keeper_gone(const uint32_t *word)
{
	return load_acquire(word) & FUTEX_OWNER_DIED;	/* L10 */
}

static inline bool keeper_vouches(const uint32_t *word)
{
	return load_acquire(word) & FUTEX_TID_MASK;
}

#endif
