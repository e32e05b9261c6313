/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that a program reads in the same process that counts: perftest's --report-counters keeps the files open, and reads each again at the
 * end.  The files know what was added to them last; the library, if it is in this process, knows more, and adds it when it is asked for one
 * (ibv_read_sysfs_file).  So a read from the beginning of such a file asks first.  Lock-free.
 */
#ifndef VRB_SHIM_COUNTER_H
#define VRB_SHIM_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A file was opened, by its name in the tree and by whose code: remembered if it is a counter, unless the library itself looks. */
void shim_counter_opened(int fd, const char *path, const void *caller);

/* Has this process opened any?  Costs nothing in a program that has not. */
bool shim_counter_any(void);

/* The name of an open counter that stands at its beginning; false if fd is something else. */
bool shim_counter_at_start(int fd, char *path, size_t cap);

/* What it says now, into buf; -1: the file knows best. */
ssize_t shim_counter_now(const char *path, void *buf, size_t size);

#endif
