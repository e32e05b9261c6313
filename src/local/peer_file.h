/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file behind a range of another process's memory, opened by this process.
 *
 * The kernel's /proc/PID/maps decides: device, inode and offset. The file is opened by its name if
 * that still leads to this inode, else through the process's descriptors in /proc/PID/fd. An
 * ordinary user may read both for its own processes (PTRACE_MODE_READ), also under Yama, but not
 * /proc/PID/map_files. A file with neither a name nor an open descriptor cannot be opened.
 *
 * Only regular files of tmpfs and hugetlbfs (memfd, shm_open, huge pages) are opened. Their pages
 * need no device, server or disk, so access to them does not block.
 *
 * Works for processes of this PID namespace. Makes system calls; takes no locks.
 */
#ifndef VRB_LOCAL_PEER_FILE_H
#define VRB_LOCAL_PEER_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer_file {
	int fd;			/* the caller closes it */
	bool writable;
	uint64_t offset;	/* offset of the range in the file */
	uint64_t page;		/* mappings must begin at a multiple of this */
};

/*
 * Opens the file that process `pid` maps at [addr, addr + len); `write`: for writing, if that is
 * permitted. Returns 0, EFAULT (not mapped, or the file is shorter), ENOTSUP (not a shared mapping
 * of one such file), ENOENT (no way to open it), EACCES or ENOMEM.
 */
int peer_file_open(pid_t pid, uint64_t addr, uint64_t len, bool write,
		   struct peer_file *file);

#endif
