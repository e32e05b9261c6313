/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run directory: found or created, and checked before anything in it is used.
 */
#ifndef VRB_HOST_DIR_H
#define VRB_HOST_DIR_H

#include <limits.h>
#include <stddef.h>

struct host_run_dir {
	int fd;
	char path[PATH_MAX];
};

/*
 * Where the run directory may be, best first: `wanted` unless it is NULL or empty, then the two
 * places of host.h.  host_dir_open_at() opens one of them and makes it if it does not exist.  A run
 * directory is a directory of the effective user, not a symbolic link, and not accessible to
 * others.  Where `wanted` is another kind of directory, one in it is used: verbena-<uid>;
 * directories of that name that are the user's own are closed to others if they were not.  Returns
 * 0 or an errno value; EPERM if it belongs to another user.
 */
unsigned int host_dir_places(const char *wanted);
int host_dir_open_at(const char *wanted, unsigned int place, struct host_run_dir *dir);

/* The first that can be opened.  Returns 0, or why the first of all cannot. */
int host_dir_open(const char *wanted, struct host_run_dir *dir);

/*
 * The tree in the run directory that describes the devices of this process as /sys and /dev do
 * those of the kernel.  Devices belong to a network namespace, and to what $VERBENA_DEVICES makes
 * of it, so each pair has a tree of its own.  Makes the run directory, not the tree. Returns 0,
 * ENAMETOOLONG, or what host_dir_open() says.
 */
int host_tree_path(char *path, size_t size);

/* Unlinks all files whose name starts with prefix. */
void host_dir_sweep(int dirfd, const char *prefix);

#endif
