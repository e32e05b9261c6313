/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files below the root of the tree that sysfs.h draws: small texts, each put into place complete, and only if it says something new.
 * What cannot be written is left out, with a word in the log.  Any thread; takes no lock.
 */
#ifndef VRB_CORE_SYSFS_FILE_H
#define VRB_CORE_SYSFS_FILE_H

#include <limits.h>
#include <stdint.h>

#include "util/compiler.h"

/* A directory of the tree, to be completed by a file name. */
enum { SYSFS_PATH = 512 };	/* vrb_sysfs_root() leaves room */

struct sysfs_place {
	char path[SYSFS_PATH];
};

/* By its path below the root, which exists. */
struct sysfs_place vrb_sysfs_place(const char *fmt, ...) format_printf(1, 2);

/* The file `name` with one line of text. */
void vrb_sysfs_put(const struct sysfs_place *p, const char *name, const char *fmt, ...)
	format_printf(3, 4);

void vrb_sysfs_put_link(const struct sysfs_place *p, const char *name, const char *target);
void vrb_sysfs_drop(const struct sysfs_place *p, const char *name);

/*
 * Locks the tree against other processes until the descriptor is closed; -1 if there is none, or who has it does not go on within a moment.
 */
int vrb_sysfs_lock(void);

/* What a file holds; 0 if it is not there. */
uint64_t vrb_sysfs_number(const struct sysfs_place *p, const char *name);

#endif
