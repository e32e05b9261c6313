/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files below the root of the tree in sysfs_tree.h: short texts, each renamed into place, and only
 * if the content changed. A file that cannot be written is skipped and logged. Any thread; takes no
 * lock.
 */
#ifndef VRB_CORE_DEVICE_SYSFS_FILE_H
#define VRB_CORE_DEVICE_SYSFS_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"

/* A directory of the tree; a file name is appended to it. */
enum { SYSFS_PATH = 512 };	/* vrb_sysfs_root() guarantees the room */

struct sysfs_place {
	char path[SYSFS_PATH];
};

/* A place by its path below the root. */
struct sysfs_place vrb_sysfs_place(const char *fmt, ...) format_printf(1, 2);

/* Writes the file `name` with one line of text. */
void vrb_sysfs_put(const struct sysfs_place *p, const char *name, const char *fmt, ...)
	format_printf(3, 4);

/* Has the file this line, and was it written in the last day? */
bool vrb_sysfs_is_recent(const struct sysfs_place *p, const char *name, const char *line);

bool vrb_sysfs_exists(const struct sysfs_place *p, const char *name);
void vrb_sysfs_put_link(const struct sysfs_place *p, const char *name, const char *target);
void vrb_sysfs_drop(const struct sysfs_place *p, const char *name);

/*
 * Locks the tree against other processes until the descriptor is closed. Returns -1 if there is no
 * tree or the holder does not release it soon.
 */
int vrb_sysfs_lock(void);

/* The number in a file; 0 if there is no file. */
uint64_t vrb_sysfs_number(const struct sysfs_place *p, const char *name);

#endif
