/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper: a thread of the owner that vouches for the segment as long as it runs.  Its number stands in the header, on the robust futex list that
 * the kernel goes through when the thread ends: with the process, however that ends, or because exec is about to give the process another
 * memory, which happens after all other threads have ended.  So a word without FUTEX_OWNER_DIED says, at the price of a load, that the pid
 * still names the process that is meant, with the memory that is meant.
 *
 * 0: nobody vouches, as in a process without a progress thread.  Then neighbours have to ask the kernel each time (peer_in_reach()).
 *
 * L10: the kernel's store comes before it takes the memory away; pairs with the acquire of keeper_gone().
 *
 * Nothing here is believed that a neighbour could have scribbled: the list lies in the owner's private memory, and a wrong word costs a connection.
 */
#ifndef VRB_LOCAL_KEEPER_H
#define VRB_LOCAL_KEEPER_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/atomic.h"

/* In the owner's private memory for as long as the thread runs. */
struct keeper {
	struct robust_list_head head;
	struct robust_list node;
};

/*
 * The calling thread vouches from now on.  It must lock no robust mutexes: glibc's list of them is replaced. Where the kernel has no such lists
 * nobody vouches.
 */
void keeper_begin(struct keeper *k, uint32_t *word);

/* It ends in good order, before the segment goes. */
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
