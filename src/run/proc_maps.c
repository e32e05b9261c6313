/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three sources, best first: the PROCMAP_QUERY ioctl (Linux 6.11), the text of /proc/self/maps,
 * mincore(2).
 */
#include "run/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
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

static const struct memmap everything = { true, true, true, true };

struct vma {
	uint64_t start, end, offset, dev, ino;
	bool readable, writable, shared;
};

static void merge(struct memmap *map, const struct vma *v)
{
	bool file = v->shared && v->ino, first = map->ino == 0;
	uint64_t shift = v->offset - v->start;

	map->readable &= v->readable;
	map->writable &= v->writable;
	map->shared_file &= file;
	map->one_file &= file && (first || (map->dev == v->dev && map->ino == v->ino &&
					    map->shift == shift));
	if (first) {
		map->dev = v->dev;
		map->ino = v->ino;
		map->shift = shift;
	}
}

/* Returns 0, EFAULT, or ENOTTY if the kernel does not have the ioctl. path may be NULL. */
static int query_ioctl(int fd, uintptr_t at, uintptr_t end, struct memmap *map, char *path)
{
	while (at < end) {
		struct procmap_query q = { .size = sizeof(q), .query_addr = at };
		struct vma v;

		if (path) {
			/* valgrind does not know the ioctl: it sees nothing written there */
			memset(path, 0, MEMMAP_PATH);
			q.vma_name_addr = (uintptr_t)path;
			q.vma_name_size = MEMMAP_PATH;
		}
		if (ioctl(fd, PROCMAP_IOCTL, &q) < 0)
			return errno == ENOENT ? EFAULT : ENOTTY;
		v = (struct vma){
			.start = q.vma_start,
			.end = q.vma_end,
			.offset = q.vma_offset,
			.dev = makedev(q.dev_major, q.dev_minor),
			.ino = q.inode,
			.readable = q.vma_flags & VMA_READABLE,
			.writable = q.vma_flags & VMA_WRITABLE,
			.shared = q.vma_flags & VMA_SHARED,
		};
		merge(map, &v);
		at = q.vma_end;
	}
	return 0;
}

/* "start-end rwxs offset dev inode path". Returns false if it is something else. */
static bool parse_line(char *line, struct vma *v, char *path)
{
	unsigned long start, end, offset, ino;
	unsigned int major, minor;
	char perm[5];
	int name = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, perm, &offset, &major,
		   &minor, &ino, &name) != 7)
		return false;
	*v = (struct vma){ start, end, offset, makedev(major, minor), ino,
			   perm[0] == 'r', perm[1] == 'w', perm[3] == 's' };
	if (path) {
		line[strcspn(line, "\n")] = '\0';
		snprintf(path, MEMMAP_PATH, "%s", name ? line + name : "");
	}
	return true;
}

/* Returns true when *at has reached end or the range cannot be covered. */
static bool take_line(char *line, uintptr_t *at, uintptr_t end, struct memmap *map, char *path)
{
	struct vma v;

	if (!parse_line(line, &v, path))
		return true;
	if (v.end <= *at)
		return false;
	if (v.start > *at)
		return true;
	merge(map, &v);
	*at = v.end;
	return *at >= end;
}

static int query_text(FILE *f, uintptr_t at, uintptr_t end, struct memmap *map, char *path)
{
	char line[4352];

	while (fgets(line, sizeof(line), f))
		if (take_line(line, &at, end, map, path))
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

/* Asks an open maps file, which it closes. */
static int query_file(int fd, uintptr_t at, uintptr_t end, struct memmap *map, char *path)
{
	int err = query_ioctl(fd, at, end, map, path);
	FILE *f;

	if (err != ENOTTY) {
		close(fd);
		return err;
	}
	*map = everything;
	f = fdopen(fd, "re");
	if (!f) {
		close(fd);
		return EACCES;
	}
	err = query_text(f, at, end, map, path);
	fclose(f);
	return err;
}

int memmap_query(const void *addr, size_t len, struct memmap *map)
{
	uintptr_t at = (uintptr_t)addr, end = at + len;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int err = EACCES;

	*map = everything;
	if (fd >= 0)
		err = query_file(fd, at, end, map, NULL);
	if (err != EACCES)
		return err;
	*map = everything;
	map->shared_file = map->one_file = false;
	return query_mincore(at, end);
}

int memmap_query_process(pid_t pid, uint64_t addr, uint64_t len, struct memmap *map,
			 char path[MEMMAP_PATH])
{
	char name[32];
	int fd;

	*map = everything;
	*path = '\0';
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? EACCES : query_file(fd, addr, addr + len, map, path);
}
