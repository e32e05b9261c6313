/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that a program reads in the process that counts: perftest's --report-counters keeps the
 * files open, and reads each again at the end.  The files hold what was last written to them; the
 * library, if it is in this process, has newer values and writes them when asked for a counter
 * (ibv_read_sysfs_file).  So a read from the start of such a file asks the library first.
 * Lock-free.
 */
#ifndef VRB_SHIM_COUNTER_H
#define VRB_SHIM_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Remembers an opened file if it is a counter in the tree, unless `caller` is in the library
 * itself.
 */
void shim_counter_opened(int fd, const char *path, const void *caller);

/* True if this process has opened a counter.  Cheap if it has not. */
bool shim_counter_any(void);

/* Name of an open counter whose offset is 0; false if fd is something else. */
bool shim_counter_at_start(int fd, char *path, size_t cap);

/* Reads the current value into buf; -1: read the file. */
ssize_t shim_counter_now(const char *path, void *buf, size_t size);

#endif
