/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mappings of this process, for the check that hardware makes when it pins pages; and those of
 * another process.
 */
#ifndef VRB_RUN_PROC_MAPS_H
#define VRB_RUN_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Properties of every page of the range. */
struct memmap {
	bool readable;
	bool writable;
	bool shared_file; /* every page maps a shared file, so msync(2) makes it persistent */
	bool one_file;    /* and the same file throughout, in file order: */
	uint64_t dev;     /* as in struct stat */
	uint64_t ino;
	uint64_t shift;   /* offset in the file, less the address; modulo 2^64 */
};

/*
 * Queries [addr, addr + len), len > 0. Returns 0, or EFAULT if a page is not mapped. If /proc
 * cannot be read, mapped pages count as readable and writable.
 */
int memmap_query(const void *addr, size_t len, struct memmap *map);

enum { MEMMAP_PATH = 4096 };

/*
 * As memmap_query(), for another process. *path receives the name of the file at addr, as the
 * kernel prints it. Also returns EACCES if the kernel denies access.
 */
int memmap_query_process(pid_t pid, uint64_t addr, uint64_t len, struct memmap *map,
			 char path[MEMMAP_PATH]);

#endif
