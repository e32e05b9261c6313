/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for the library's own files. A file that grows beyond RLIMIT_FSIZE raises SIGXFSZ, and
 * memory of a file that has no room raises SIGBUS; either would end the program, so both are
 * checked before. No locks; any thread.
 */
#ifndef VRB_UTIL_FILE_ROOM_H
#define VRB_UTIL_FILE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* May a file of this process have that many bytes? */
bool file_may_have(uint64_t size);

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
