/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run directory: found or made, and checked before anything in it is believed.
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
 * Opens `wanted`, or the first that can be had of the two places of host.h if wanted is NULL or
 * empty; makes it if it does not exist.  It must be a directory of the effective user, not a
 * symbolic link, and closed to everybody else. Returns 0 or an errno value; EPERM if it is there
 * but not as it must be.
 */
int host_dir_open(const char *wanted, struct host_run_dir *dir);

/*
 * The tree in the run directory that describes the devices of this process as /sys and /dev do those of the kernel.  Devices belong to
 * a network namespace, and to what $VERBENA_DEVICES makes of it, so each pair has a tree of its own.  Makes the run directory, not the tree.
 * Returns 0, ENAMETOOLONG, or what host_dir_open() says.
 */
int host_tree_path(char *path, size_t size);

/* Unlinks all files whose name starts with prefix. */
void host_dir_sweep(int dirfd, const char *prefix);

#endif
