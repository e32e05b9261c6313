/* SPDX-License-Identifier: BSD-2-Clause */
/* Room for files: beyond RLIMIT_FSIZE an error, no SIGXFSZ; a signal in between is not seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/file_room.h"

enum { LIMIT = 16384 };

static unsigned int interruptions, calls;

/* In the place of the C library's. */
int posix_fallocate(int fd, off_t at, off_t len)
{
	calls++;
	if (interruptions) {
		interruptions--;
		return EINTR;
	}
	return syscall(SYS_fallocate, fd, 0, at, len) ? errno : 0;
}

static int open_limited(void **state)
{
	struct rlimit limit;
	int fd = memfd_create("file_room_test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = LIMIT;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	*state = (void *)(intptr_t)fd;
	return 0;
}

static int close_limited(void **state)
{
	struct rlimit limit;

	close((int)(intptr_t)*state);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_FSIZE, &limit);
}

static uint64_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

static void the_limit_is_an_error(void **state)
{
	int fd = (int)(intptr_t)*state;

	assert_true(file_may_have(LIMIT));
	assert_false(file_may_have(LIMIT + 1));
	assert_int_equal(file_resize(fd, LIMIT + 1), EFBIG);
	assert_int_equal(file_reserve(fd, 0, LIMIT + 1), EFBIG);
	assert_int_equal(file_reserve(fd, LIMIT, 1), EFBIG);
	assert_int_equal(file_reserve(fd, 1, UINT64_MAX), EFBIG);
	assert_int_equal(size_of(fd), 0);

	assert_int_equal(file_resize(fd, LIMIT / 2), 0);
	assert_int_equal(size_of(fd), LIMIT / 2);
	assert_int_equal(file_reserve(fd, LIMIT / 2, LIMIT / 2), 0);
	assert_int_equal(size_of(fd), LIMIT);
}

static void a_signal_is_not_seen(void **state)
{
	int fd = (int)(intptr_t)*state;

	interruptions = 3;
	calls = 0;
	assert_int_equal(file_reserve(fd, 0, LIMIT), 0);
	assert_int_equal(calls, 4);
	assert_int_equal(size_of(fd), LIMIT);
}

static void other_errors_are_returned(void **state)
{
	assert_int_equal(file_resize(-1, 1), EBADF);
	assert_int_equal(file_reserve(-1, 0, 1), EBADF);
}

/* The program has closed them, and may print, or want them back. */
static void standard_streams_are_left_to_the_program(void **state)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), kept[3], fd;

	for (int i = 0; i <= STDERR_FILENO; i++) {
		kept[i] = fcntl(i, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(i);
	}
	fd = file_create(AT_FDCWD, "/dev/null", O_RDWR);
	for (int i = 0; i <= STDERR_FILENO; i++)
		if (fcntl(i, F_GETFD) >= 0 || dup2(kept[i], i) < 0)
			fd = -1;
	assert_true(fd > STDERR_FILENO);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(file_above_stdio(null), null);
	assert_int_equal(file_above_stdio(-1), -1);
	for (int i = 0; i <= STDERR_FILENO; i++)
		close(kept[i]);
	close(fd);
	close(null);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_limit_is_an_error, open_limited, close_limited),
		cmocka_unit_test_setup_teardown(a_signal_is_not_seen, open_limited, close_limited),
		cmocka_unit_test(other_errors_are_returned),
		cmocka_unit_test(standard_streams_are_left_to_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
