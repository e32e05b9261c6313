/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A descriptor is identified by its inode, so one that was closed and reused is not taken for a
 * counter.
 */
#include "counter.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/atomic.h"

enum { FILES = 64 };	/* that a program may have open at a time */

static struct counter_file {
	uint32_t fd_plus_1;	/* atomic, written last; 0: the entry is unused */
	dev_t dev;
	ino_t ino;
	char path[PATH_MAX];
} files[FILES];

static uint32_t opened;

typedef int read_sysfs_fn(const char *dir, const char *file, char *buf, size_t size);

static bool is_counter(const char *path)
{
	return strstr(path, "/counters/") || strstr(path, "/hw_counters/");
}

/* The library holds locks when it opens them. */
static bool is_library(const void *caller)
{
	const void *fn = dlsym(RTLD_DEFAULT, "ibv_read_sysfs_file");
	Dl_info library, other;

	return fn && dladdr(fn, &library) && dladdr(caller, &other) &&
	       library.dli_fbase == other.dli_fbase;
}

void shim_counter_opened(int fd, const char *path, const void *caller)
{
	struct counter_file *f;
	struct stat st;
	int saved = errno;

	if (fd < 0 || !is_counter(path) || is_library(caller) || fstat(fd, &st) < 0 ||
	    !S_ISREG(st.st_mode)) {
		errno = saved;
		return;
	}
	f = &files[fetch_add_relaxed(&opened, 1) % FILES];
	store_release(&f->fd_plus_1, 0);
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	snprintf(f->path, sizeof(f->path), "%s", path);
	store_release(&f->fd_plus_1, (uint32_t)fd + 1);
}

bool shim_counter_any(void)
{
	return load_relaxed(&opened) != 0;
}

bool shim_counter_at_start(int fd, char *path, size_t cap)
{
	int saved = errno;
	struct stat st;
	bool found = false;

	if (lseek(fd, 0, SEEK_CUR) == 0 && fstat(fd, &st) == 0) {
		for (unsigned int i = 0; i < FILES && !found; i++) {
			const struct counter_file *f = &files[i];

			found = load_acquire(&f->fd_plus_1) == (uint32_t)fd + 1 &&
				f->dev == st.st_dev && f->ino == st.st_ino;
			if (found)
				snprintf(path, cap, "%s", f->path);
		}
	}
	errno = saved;
	return found;
}

ssize_t shim_counter_now(const char *path, void *buf, size_t size)
{
	read_sysfs_fn *read_sysfs = (read_sysfs_fn *)dlsym(RTLD_DEFAULT, "ibv_read_sysfs_file");
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX], text[32];
	int n;

	if (!read_sysfs || !slash)
		return -1;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	n = read_sysfs(dir, slash + 1, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n++] = '\n';	/* removed again by that call */
	if ((size_t)n > size)
		n = (int)size;
	memcpy(buf, text, (size_t)n);
	return n;
}
