/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's own files, and room for them. A file that grows beyond RLIMIT_FSIZE raises SIGXFSZ,
 * and memory of a file that has no room raises SIGBUS; either would end the program, so both are
 * checked before. No locks; any thread.
 */
#ifndef VRB_UTIL_FILE_ROOM_H
#define VRB_UTIL_FILE_ROOM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* No descriptor is left: of the process, or of the machine. */
static inline bool file_is_shortage(int err)
{
	return err == EMFILE || err == ENFILE;
}

/*
 * Moves a descriptor, with O_CLOEXEC, away from 0..2. A program that has closed these may still
 * print, which would overwrite the file, or may expect to get them back. Passes -1 on. Returns -1
 * with errno on failure; fd is closed then.
 */
int file_above_stdio(int fd);

/*
 * As openat(2) with O_CREAT, above descriptor 2. The mode is 0600 whatever the umask, which may
 * even keep a file from its owner.
 */
int file_create(int dirfd, const char *name, int flags);

/* May a file of this process have that many bytes? */
bool file_may_have(uint64_t size);

/* May that many bytes be appended? To what is no file, always. */
bool file_may_grow(int fd, uint64_t len);

/*
 * Sets the size of a file; what is added is sparse and reads as 0. Returns 0, EFBIG or another
 * errno value.
 */
int file_resize(int fd, uint64_t size);

/*
 * Allocates a range of the file, which grows if it ends before. Returns 0, EFBIG, ENOSPC or another
 * errno value. A cancellation point.
 */
int file_reserve(int fd, uint64_t from, uint64_t len);

#endif
