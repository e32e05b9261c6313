/* SPDX-License-Identifier: BSD-2-Clause */
/* See peer_file.h. */
#include "local/peer_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "run/proc_maps.h"
#include "util/tuning.h"

/* On the heap, because the data path runs on a small stack. */
struct names {
	char path[MEMMAP_PATH];	/* as in the maps */
	char link[MEMMAP_PATH];	/* of a descriptor */
};

/* Does /proc show our own PID namespace? Otherwise its pids name other processes. */
static bool proc_is_ours(void)
{
	char self[16] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

static bool is_file(int fd, const struct memmap *map)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == map->dev &&
	       st.st_ino == map->ino;
}

/*
 * Opens the file if it is the expected one, else returns -1. O_PATH runs no code of the file's
 * driver or server.
 */
static int open_if_same(int dirfd, const char *name, int flags, const struct memmap *map)
{
	int fd = openat(dirfd, name, O_PATH | O_CLOEXEC | flags);

	if (fd < 0 || is_file(fd, map))
		return fd;
	close(fd);
	return -1;
}

/*
 * Finds the file among the descriptors of the process: its link there reads as the name in the
 * maps.
 */
static int find_descriptor(pid_t pid, struct names *names, const struct memmap *map)
{
	const char *path = names->path;
	char dirname[32], *link = names->link;
	struct dirent *entry;
	int fd = -1;
	DIR *dir;

	snprintf(dirname, sizeof(dirname), "/proc/%d/fd", (int)pid);
	dir = opendir(dirname);
	if (!dir)
		return -1;
	for (int i = 0; fd < 0 && i < LIMIT_PEER_FDS && (entry = readdir(dir)); i++) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, MEMMAP_PATH);

		if (n == (ssize_t)strlen(path) && memcmp(link, path, n) == 0)
			fd = open_if_same(dirfd(dir), entry->d_name, 0, map);
	}
	closedir(dir);
	return fd;
}

static int find_file(pid_t pid, struct names *names, const struct memmap *map)
{
	int fd = -1;

	if (names->path[0] == '/')
		fd = open_if_same(AT_FDCWD, names->path, O_NOFOLLOW, map);
	return fd < 0 ? find_descriptor(pid, names, map) : fd;
}

/* Returns the page size of the file, or 0 if access to the pages of its file system could block. */
static uint64_t page_of(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return 0;
	if ((uint32_t)fs.f_type == TMPFS_MAGIC)
		return sysconf(_SC_PAGESIZE);
	return (uint32_t)fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : 0;
}

/* Turns the O_PATH descriptor into one that can be mapped. */
static int reopen(int path_fd, bool write, struct peer_file *file)
{
	char name[40];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	file->fd = write ? open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
	file->writable = file->fd >= 0;
	if (file->fd < 0)
		file->fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return file->fd < 0 ? EACCES : 0;
}

static int open_checked(int path_fd, uint64_t len, bool write, struct peer_file *file)
{
	struct stat st;

	file->page = page_of(path_fd);
	if (file->page == 0)
		return ENOTSUP;
	if (fstat(path_fd, &st) < 0 || file->offset > (uint64_t)st.st_size ||
	    len > (uint64_t)st.st_size - file->offset)
		return EFAULT;
	return reopen(path_fd, write, file);
}

static int find_and_open(pid_t pid, uint64_t addr, uint64_t len, bool write,
			 struct names *names, struct peer_file *file)
{
	struct memmap map;
	int fd, err = memmap_query_process(pid, addr, len, &map, names->path);

	if (err != 0)
		return err;
	if (!map.one_file)
		return ENOTSUP;
	fd = find_file(pid, names, &map);
	if (fd < 0)
		return ENOENT;
	*file = (struct peer_file){ .offset = addr + map.shift };
	err = open_checked(fd, len, write, file);
	close(fd);
	return err;
}

int peer_file_open(pid_t pid, uint64_t addr, uint64_t len, bool write, struct peer_file *file)
{
	struct names *names;
	int err;

	if (len == 0 || addr + len < addr)
		return EFAULT;
	if (!proc_is_ours())
		return EACCES;
	names = malloc(sizeof(*names));
	if (names == NULL)
		return ENOMEM;
	err = find_and_open(pid, addr, len, write, names, file);
	free(names);
	return err;
}
