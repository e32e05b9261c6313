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
 * Candidates for the run directory, best first: `wanted` unless it is NULL or empty, then the two
 * places of host.h.  host_dir_open_at() opens one of them, and creates it if it does not exist.  A
 * run directory is a directory of the effective user, not a symbolic link, and not accessible to
 * others.  If `wanted` is any other directory, verbena-<uid> in it is used; if a directory of that
 * name belongs to the user but is accessible to others, its mode is corrected.  Returns 0 or an
 * errno value; EPERM if it belongs to another user.
 */
unsigned int host_dir_places(const char *wanted);
int host_dir_open_at(const char *wanted, unsigned int place, struct host_run_dir *dir);

/* Opens the first candidate that can be opened. Returns 0, or the error of the first candidate. */
int host_dir_open(const char *wanted, struct host_run_dir *dir);

/*
 * The tree in the run directory that describes the devices of this process as /sys and /dev
 * describe those of the kernel. Each pair of a network namespace and a value of $VERBENA_DEVICES
 * has its own tree. Creates the run directory, not the tree. Returns 0, ENAMETOOLONG, or an error
 * of host_dir_open().
 */
int host_tree_path(char *path, size_t size);

/* Unlinks all files whose name starts with prefix. */
void host_dir_sweep(int dirfd, const char *prefix);

#endif
