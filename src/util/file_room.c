/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

bool file_may_have(uint64_t size)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur == RLIM_INFINITY ||
	       size <= most.rlim_cur;
}

int file_resize(int fd, uint64_t size)
{
	if (!file_may_have(size))
		return EFBIG;
	return ftruncate(fd, (off_t)size) < 0 ? errno : 0;
}

int file_reserve(int fd, uint64_t from, uint64_t len)
{
	int err;

	if (from + len < from || !file_may_have(from + len))
		return EFBIG;
	/* tmpfs gives up on a signal. */
	do
		err = posix_fallocate(fd, (off_t)from, (off_t)len);
	while (err == EINTR);
	return err;
}
