/* SPDX-License-Identifier: BSD-2-Clause */
/* What is mapped where in this process: the question that pinning memory answers on hardware. */
#ifndef VRB_CORE_MEMMAP_H
#define VRB_CORE_MEMMAP_H

#include <stdbool.h>
#include <stddef.h>

/* What every page of a range allows. */
struct memmap {
	bool readable;
	bool writable;
	bool shared_file; /* of a shared file mapping: msync(2) makes it persistent */
};

/*
 * Looks at [addr, addr + len), len > 0.  Returns 0, or EFAULT if a page of it is not mapped.  Where
 * /proc cannot be read, mapped pages count as readable and writable.
 */
int memmap_query(const void *addr, size_t len, struct memmap *map);

#endif
