/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three sources, best first: the PROCMAP_QUERY ioctl (Linux 6.11), the text of /proc/self/maps,
 * mincore(2).
 */
#include "core/mem/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/compiler.h"

/* From the kernel's UAPI; most distributions' headers do not have it yet. */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};

enum {
	VMA_READABLE = 1,
	VMA_WRITABLE = 2,
	VMA_SHARED = 8,
};

#define PROCMAP_IOCTL _IOWR('f', 17, struct procmap_query)

static void merge(struct memmap *map, bool readable, bool writable, bool shared_file)
{
	map->readable &= readable;
	map->writable &= writable;
	map->shared_file &= shared_file;
}

/* Returns 0, EFAULT, or ENOTTY if the kernel does not know the ioctl. */
static int query_ioctl(int fd, uintptr_t at, uintptr_t end, struct memmap *map)
{
	while (at < end) {
		struct procmap_query q = { .size = sizeof(q), .query_addr = at };

		if (ioctl(fd, PROCMAP_IOCTL, &q) < 0)
			return errno == ENOENT ? EFAULT : ENOTTY;
		merge(map, q.vma_flags & VMA_READABLE, q.vma_flags & VMA_WRITABLE,
		      (q.vma_flags & VMA_SHARED) && q.inode);
		at = q.vma_end;
	}
	return 0;
}

/*
 * Parses one line, "start-end rwxs offset dev inode path". Returns true when *at has reached end or
 * the range cannot be covered.
 */
static bool take_line(const char *line, uintptr_t *at, uintptr_t end, struct memmap *map)
{
	unsigned long start, stop, inode;
	char perm[5];

	if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &stop, perm, &inode) != 4)
		return true;
	if (stop <= *at)
		return false;
	if (start > *at)
		return true;
	merge(map, perm[0] == 'r', perm[1] == 'w', perm[3] == 's' && inode);
	*at = stop;
	return *at >= end;
}

static int query_text(FILE *f, uintptr_t at, uintptr_t end, struct memmap *map)
{
	char line[4352];

	while (fgets(line, sizeof(line), f))
		if (take_line(line, &at, end, map))
			break;
	return at >= end ? 0 : EFAULT;
}

static int query_mincore(uintptr_t at, uintptr_t end)
{
	const uintptr_t page = sysconf(_SC_PAGESIZE);
	unsigned char present[256];

	for (at &= ~(page - 1); at < end; at += sizeof(present) * page) {
		size_t pages = min((end - at + page - 1) / page, sizeof(present));

		if (mincore((void *)at, pages * page, present) < 0)
			return errno == ENOMEM ? EFAULT : 0;
	}
	return 0;
}

int memmap_query(const void *addr, size_t len, struct memmap *map)
{
	uintptr_t at = (uintptr_t)addr, end = at + len;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), err;
	FILE *f;

	*map = (struct memmap){ true, true, true };
	if (fd < 0)
		goto mincore;
	err = query_ioctl(fd, at, end, map);
	if (err != ENOTTY) {
		close(fd);
		return err;
	}
	*map = (struct memmap){ true, true, true };
	f = fdopen(fd, "re");
	if (!f) {
		close(fd);
		goto mincore;
	}
	err = query_text(f, at, end, map);
	fclose(f);
	return err;
mincore:
	map->shared_file = false;
	return query_mincore(at, end);
}
