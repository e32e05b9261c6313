/* SPDX-License-Identifier: BSD-2-Clause */
/* Which files behind a peer's memory can be opened, and how; this process plays the peer. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cmocka.h>

#include "local/peer_file.h"

#include "left_out.h"

static size_t page;
static char name[64];	/* for shm_open() */

static int setup(void **state)
{
	page = sysconf(_SC_PAGESIZE);
	snprintf(name, sizeof(name), "/vrb-peer-file-%d", (int)getpid());
	return 0;
}

static uint8_t *map(int fd, uint64_t page_offset)
{
	uint8_t *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  page_offset * page);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static int sized(int fd)
{
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8 * page), 0);
	return fd;
}

static int open_it(const void *addr, uint64_t len, struct peer_file *file)
{
	return peer_file_open(getpid(), (uintptr_t)addr, len, true, file);
}

/*
 * Opens the file behind the memory 5 bytes into p, a mapping that starts at page 2 of the file, and
 * reads a byte through it.
 */
static void expect_found(uint8_t *p)
{
	struct peer_file file;
	uint8_t byte = 0;

	p[5] = 77;
	assert_int_equal(open_it(p + 5, 2 * page, &file), 0);
	assert_true(file.writable);
	assert_int_equal(file.offset, 2 * page + 5);
	assert_int_equal(file.page, page);
	assert_int_equal(pread(file.fd, &byte, 1, file.offset), 1);
	assert_int_equal(byte, 77);
	close(file.fd);
	munmap(p, 4 * page);
}

static void expect(int err, uint8_t *p, uint64_t len)
{
	struct peer_file file;

	assert_int_equal(open_it(p, len, &file), err);
	munmap(p, 4 * page);
}

static void by_descriptor(void **state)
{
	int fd = sized(memfd_create("by descriptor", MFD_CLOEXEC));

	expect_found(map(fd, 2));
	close(fd);
}

static void by_name(void **state)
{
	int fd = sized(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
	uint8_t *p = map(fd, 2);

	close(fd);
	expect_found(p);
	shm_unlink(name);
}

/* A read-only file is not opened for writing. */
static void for_reading(void **state)
{
	int fd = sized(memfd_create("for reading", MFD_CLOEXEC));
	uint8_t *p = map(fd, 2);
	struct peer_file file;

	assert_int_equal(peer_file_open(getpid(), (uintptr_t)p, page, false, &file), 0);
	assert_false(file.writable);
	assert_int_equal(fcntl(file.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(file.fd);
	munmap(p, 4 * page);
	close(fd);
}

/* The name now leads to another file; the descriptor still leads to this one. */
static void replaced_by_name(void **state)
{
	int fd = sized(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600)), other;
	uint8_t *p = map(fd, 2);

	shm_unlink(name);
	other = sized(shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
	expect_found(p);
	p = map(fd, 2);
	close(fd);
	expect(ENOENT, p, page);
	close(other);
	shm_unlink(name);
}

static void file_not_reachable(void **state)
{
	int fd = sized(memfd_create("closed", MFD_CLOEXEC));
	uint8_t *p = map(fd, 0);

	close(fd);
	expect(ENOENT, p, page);
	p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(ENOENT, p, page);
}

static void no_shared_file(void **state)
{
	int fd = sized(memfd_create("private", MFD_CLOEXEC));
	uint8_t *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	expect(ENOTSUP, p, page);
	p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(ENOTSUP, p, page);
	close(fd);
}

static void out_of_range(void **state)
{
	int fd = sized(memfd_create("range", MFD_CLOEXEC));
	struct peer_file file;
	uint8_t *p = map(fd, 0);

	assert_int_equal(open_it(p, 0, &file), EFAULT);
	assert_int_equal(open_it(p, UINT64_MAX, &file), EFAULT);
	munmap(p + 2 * page, page);
	expect(EFAULT, p, 3 * page);
	p = map(fd, 0);
	assert_int_equal(ftruncate(fd, page), 0);
	expect(EFAULT, p, 2 * page);
	close(fd);
}

/* A file on disk could block, so its memory is accessed through the kernel. */
static void of_a_disk(void **state)
{
	char path[] = "peer_file_XXXXXX";
	int fd = mkstemp(path);
	struct statfs fs;
	uint8_t *p;

	if (fd < 0)
		LEAVE_OUT("no file can be created here");
	unlink(path);
	assert_int_equal(fstatfs(fd, &fs), 0);
	if (fs.f_type == 0x01021994)
		LEAVE_OUT("the current directory is in memory");
	p = map(sized(fd), 0);
	expect(ENOTSUP, p, page);
	close(fd);
}

static void huge_pages(void **state)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	const size_t size = 2 << 20;
	struct peer_file file;
	uint8_t *p;

	if (fd < 0 || ftruncate(fd, 2 * size))
		LEAVE_OUT("no huge pages");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, size);
	if (p == MAP_FAILED)
		LEAVE_OUT("no huge pages");
	assert_int_equal(open_it(p + 4096, 4096, &file), 0);
	assert_int_equal(file.offset, size + 4096);
	assert_int_equal(file.page, size);
	close(file.fd);
	munmap(p, size);
	close(fd);
}

static void no_such_process(void **state)
{
	struct peer_file file;

	assert_int_equal(peer_file_open(1 << 30, (uintptr_t)name, 1, true, &file), EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_descriptor),
		cmocka_unit_test(by_name),
		cmocka_unit_test(for_reading),
		cmocka_unit_test(replaced_by_name),
		cmocka_unit_test(file_not_reachable),
		cmocka_unit_test(no_shared_file),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(of_a_disk),
		cmocka_unit_test(huge_pages),
		cmocka_unit_test(no_such_process),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
