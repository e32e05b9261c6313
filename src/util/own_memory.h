/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread-local memory, allocated at first use and freed with the thread: for buffers that each call
 * needs and that are too large for the stack of a program's thread. No lock.
 */
#ifndef VRB_UTIL_OWN_MEMORY_H
#define VRB_UTIL_OWN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* One object per purpose, static, with only the size set. */
struct own_memory {
	size_t size;
	uint32_t key;	/* atomic: the pthread key + 1; 0: none yet */
};

/*
 * Returns the same memory at each call of a thread, with its contents; NULL if memory is exhausted.
 */
void *own_memory(struct own_memory *o);

#endif
