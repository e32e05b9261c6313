/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cancel.h"

int file_above_stdio(int fd)
{
	int high, err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	errno = err;
	return high;
}

int file_create(int dirfd, const char *name, int flags)
{
	int fd = file_above_stdio(
		openat(dirfd, name, O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && (st.st_mode & 0600) != 0600)
		(void)fchmod(fd, 0600);
	return fd;
}

bool file_may_have(uint64_t size)
{
	struct rlimit most;

	return SYS_RESULT(getrlimit(RLIMIT_FSIZE, &most)) < 0 || most.rlim_cur == RLIM_INFINITY ||
	       size <= most.rlim_cur;
}

bool file_may_grow(int fd, uint64_t len)
{
	struct stat st;

	return file_may_have(UINT64_MAX) || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	       file_may_have((uint64_t)st.st_size + len);
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
