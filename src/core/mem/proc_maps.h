/* SPDX-License-Identifier: BSD-2-Clause */
/* What is mapped in this process: the check that hardware makes when it pins pages. */
#ifndef VRB_CORE_MEM_PROC_MAPS_H
#define VRB_CORE_MEM_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>

/* What every page of the range allows. */
struct memmap {
	bool readable;
	bool writable;
	bool shared_file; /* every page maps a shared file, so msync(2) makes it persistent */
};

/*
 * Looks at [addr, addr + len), len > 0. Returns 0, or EFAULT if a page is not mapped. Where /proc
 * cannot be read, mapped pages count as readable and writable.
 */
int memmap_query(const void *addr, size_t len, struct memmap *map);

#endif
