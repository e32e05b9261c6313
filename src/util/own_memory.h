/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the calling thread, made when it is first asked for and freed with the thread: for what
 * is too large for the stack of a program's thread and needed at each call.  No lock.
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

/* The same place at each call of a thread, with what it left there. NULL: memory is out. */
void *own_memory(struct own_memory *o);

#endif
