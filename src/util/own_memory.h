/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread-local memory, allocated at first use and freed with the thread: for buffers that each call
 * needs and that are too large for the stack of a program's thread. No lock.
 *
 * A caller holds it in a variable of the thread:
 *
 *	static __thread struct buffer *own;
 *
 *	static void forget(void) { own = NULL; }
 *
 *	if (!own)
 *		own = own_memory(sizeof(*own), forget);
 */
#ifndef VRB_UTIL_OWN_MEMORY_H
#define VRB_UTIL_OWN_MEMORY_H

#include <stddef.h>

/*
 * Returns memory for the calling thread, not cleared, because most of it may never be used; NULL if
 * memory is exhausted. At the thread's end
 * forget() is called there, then it is freed. A program's destructors of thread-specific data run
 * in any order: one that comes later may make calls that need such memory, which is allocated anew
 * then. If the process has no pthread key left, the memory is not freed.
 */
void *own_memory(size_t size, void (*forget)(void));

#endif
