/* SPDX-License-Identifier: BSD-2-Clause */
/* See sysfs_file.h. */
#include "core/device/sysfs_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "core/device/sysfs_tree.h"
#include "host/dir.h"
#include "run/log.h"
#include "util/file_room.h"
#include "util/sleep.h"

enum {
	LOCK_TRIES = 50,
	DAY = 24 * 60 * 60,	/* seconds */
};

static char root[SYSFS_PATH];	/* constant once set */
static pthread_once_t root_once = PTHREAD_ONCE_INIT;

static void find_root(void)
{
	/* Leaves room for the paths below the root in ibv_device.ibdev_path. */
	if (host_tree_path(root, IBV_SYSFS_PATH_MAX - 128))
		root[0] = '\0';
}

const char *vrb_sysfs_root(void)
{
	pthread_once(&root_once, find_root);
	return root[0] ? root : NULL;
}

/* Creates the parent directories of a path. */
static void make_parents(const char *path)
{
	char part[SYSFS_PATH + 64];	/* the callers' longest */
	size_t skip = strlen(root);

	snprintf(part, sizeof(part), "%s", path);
	for (char *p = part + skip; (p = strchr(p, '/')); p++) {
		*p = '\0';
		/* The umask may take the owner's rights, too. */
		if (mkdir(part, 0755) == 0)
			chmod(part, 0755);
		else if (errno != EEXIST)
			log_debug(LOG_CORE, "%s: %m", part);
		*p = '/';
	}
}

static bool has_content(const char *path, const char *text, size_t len)
{
	char old[512];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, old, sizeof(old));
	close(fd);
	return n == (ssize_t)len && memcmp(old, text, len) == 0;
}

/* Writes a file under a unique temporary name, then renames it into place. */
static void replace(const char *path, const char *text, size_t len)
{
	char temp[2 * SYSFS_PATH];
	bool ok;
	int fd;

	if (!file_may_have(len))
		return;
	snprintf(temp, sizeof(temp), "%s.%d.tmp", path, (int)getpid());
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 && errno == ENOENT) {
		make_parents(path);
		fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	}
	if (fd < 0) {
		log_debug(LOG_CORE, "%s: %m", temp);
		return;
	}
	(void)fchmod(fd, 0644);
	ok = write(fd, text, len) == (ssize_t)len;
	close(fd);
	if (!ok || rename(temp, path) < 0)
		unlink(temp);
}

struct sysfs_place vrb_sysfs_place(const char *fmt, ...)
{
	struct sysfs_place p;
	int n = snprintf(p.path, sizeof(p.path), "%s/", root);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p.path + n, sizeof(p.path) - n, fmt, ap);
	va_end(ap);
	return p;
}

void vrb_sysfs_put(const struct sysfs_place *p, const char *name, const char *fmt, ...)
{
	char path[SYSFS_PATH + 64], text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	n = min(n, (int)sizeof(text) - 2);
	text[n++] = '\n';
	if (snprintf(path, sizeof(path), "%s/%s", p->path, name) >= SYSFS_PATH)
		return;
	if (!has_content(path, text, n))
		replace(path, text, n);
}

bool vrb_sysfs_is_recent(const struct sysfs_place *p, const char *name, const char *line)
{
	char path[SYSFS_PATH + 64], text[64] = "";
	time_t now = time(NULL);
	struct stat st;
	bool recent;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	recent = fstat(fd, &st) == 0 && st.st_mtime <= now && now - st.st_mtime < DAY &&
		 read(fd, text, sizeof(text) - 1) > 0;
	close(fd);
	text[strcspn(text, "\n")] = '\0';
	return recent && strcmp(text, line) == 0;
}

bool vrb_sysfs_exists(const struct sysfs_place *p, const char *name)
{
	char path[SYSFS_PATH + 64];

	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	return access(path, F_OK) == 0;
}

void vrb_sysfs_put_link(const struct sysfs_place *p, const char *name, const char *target)
{
	char path[SYSFS_PATH + 64];

	if (snprintf(path, sizeof(path), "%s/%s", p->path, name) >= SYSFS_PATH)
		return;
	if (symlink(target, path) == 0 || errno == EEXIST)
		return;
	make_parents(path);
	if (symlink(target, path) < 0)
		log_debug(LOG_CORE, "%s: %m", path);
}

int vrb_sysfs_lock(void)
{
	char path[SYSFS_PATH + 16];
	int fd;

	if (!vrb_sysfs_root())
		return -1;
	snprintf(path, sizeof(path), "%s/lock", root);
	fd = file_create(AT_FDCWD, path, O_RDWR);
	if (fd < 0 && errno == ENOENT) {
		make_parents(path);
		fd = file_create(AT_FDCWD, path, O_RDWR);
	}
	/* The lock is held for about a millisecond, but its holder may be stopped. */
	for (unsigned int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		sleep_whole(VRB_MSEC);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

void vrb_sysfs_drop(const struct sysfs_place *p, const char *name)
{
	char path[SYSFS_PATH + 64];

	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	unlink(path);
}

uint64_t vrb_sysfs_number(const struct sysfs_place *p, const char *name)
{
	char path[SYSFS_PATH + 64], text[32] = "";
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? strtoull(text, NULL, 10) : 0;
}
