/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/config.h"
#include "run/log.h"
#include "util/compiler.h"
#include "util/hash.h"

static const char *const usual_places[] = { "/dev/shm", "/tmp" };

/*
 * Checks the open directory, not its name, which could be replaced meanwhile. If it is ours, its
 * mode is corrected: others may have got rights, or a umask may have taken some of its owner's.
 */
static int check_dir(int fd, const char *path, bool ours)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return errno;
	if (st.st_uid != geteuid())
		return EPERM;
	if ((st.st_mode & 0777) == 0700)
		return 0;
	if (!ours)
		return st.st_mode & 077 ? EPERM : 0;
	if (fchmod(fd, 0700) < 0)
		return errno;
	log_info(LOG_HOST, "%s had mode %03o; it is 0700 now", path,
		 (unsigned int)st.st_mode & 0777);
	return 0;
}

/* ours: the directory is named verbena-<uid>. */
static int try_dir(const char *path, bool ours, struct host_run_dir *dir)
{
	bool made;
	int err;
	int fd;

	if (strlen(path) >= sizeof(dir->path))
		return ENAMETOOLONG;
	made = mkdir(path, 0700) == 0;
	/* A read-only file system returns EROFS even if the directory exists. */
	if (!made && errno != EEXIST && errno != EROFS)
		return errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* A umask may have taken its owner's rights, whom the kernel allows to restore them. */
	if (fd < 0 && errno == EACCES && (ours || made) &&
	    !fchmodat(AT_FDCWD, path, 0700, AT_SYMLINK_NOFOLLOW))
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	err = check_dir(fd, path, ours || made);
	if (err) {
		close(fd);
		return err;
	}
	dir->fd = fd;
	snprintf(dir->path, sizeof(dir->path), "%s", path);
	return 0;
}

/* The user's own directory within a shared one. */
static int try_inside(const char *place, struct host_run_dir *dir)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/verbena-%u", place, (unsigned int)geteuid()) >=
	    (int)sizeof(path))
		return ENAMETOOLONG;
	return try_dir(path, true, dir);
}

/* VERBENA_DIR may name a shared directory, a link, or one that others can read. */
static int try_wanted(const char *wanted, struct host_run_dir *dir)
{
	int err = try_dir(wanted, false, dir);

	if (err == EPERM || err == ELOOP || err == ENOTDIR)
		return try_inside(wanted, dir) ? err : 0;
	return err;
}

static bool is_wanted(const char *wanted)
{
	return wanted && wanted[0];
}

unsigned int host_dir_places(const char *wanted)
{
	return ARRAY_SIZE(usual_places) + is_wanted(wanted);
}

int host_dir_open_at(const char *wanted, unsigned int place, struct host_run_dir *dir)
{
	if (is_wanted(wanted) && place-- == 0)
		return try_wanted(wanted, dir);
	return try_inside(usual_places[place], dir);
}

int host_dir_open(const char *wanted, struct host_run_dir *dir)
{
	int first = 0;

	for (unsigned int i = 0; i < host_dir_places(wanted); i++) {
		int err = host_dir_open_at(wanted, i, dir);

		if (!err)
			return 0;
		if (!i)
			first = err;
	}
	return first;
}

/* A hash of the entries of $VERBENA_DEVICES; 0 if there are none. */
static unsigned int devices_tag(const struct config *cfg)
{
	uint64_t h = HASH_START;

	if (!cfg->n_devices)
		return 0;
	for (unsigned int i = 0; i < cfg->n_devices; i++) {
		h = hash_bytes(h, cfg->device[i].ifname, strlen(cfg->device[i].ifname));
		h = hash_bytes(h, "=", 1);
		h = hash_bytes(h, cfg->device[i].name, strlen(cfg->device[i].name));
	}
	return (unsigned int)h;
}

int host_tree_path(char *path, size_t size)
{
	const struct config *cfg = config_get();
	unsigned int tag = devices_tag(cfg);
	struct host_run_dir dir;
	struct stat st = { 0 };
	char suffix[16] = "";
	int err = host_dir_open(cfg->dir, &dir);

	if (err)
		return err;
	close(dir.fd);
	if (stat("/proc/self/ns/net", &st) < 0)
		log_debug(LOG_HOST, "cannot identify the network namespace: %m");
	if (tag)
		snprintf(suffix, sizeof(suffix), ".%08x", tag);
	if (snprintf(path, size, "%s/sys.%lu%s", dir.path, (unsigned long)st.st_ino, suffix) >=
	    (int)size)
		return ENAMETOOLONG;
	return 0;
}

void host_dir_sweep(int dirfd, const char *prefix)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d)))
		if (!strncmp(e->d_name, prefix, strlen(prefix)))
			unlinkat(dirfd, e->d_name, 0);
	closedir(d);
}
