/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three ways to query mappings: each on memory of the test, the text form also on lines that the
 * test writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* The functions are static; the test must not depend on which of them the kernel supports. */
#include "../../src/run/proc_maps.c"
#include "left_out.h"

static size_t page;
static FILE *maps;
static uint8_t *area;	/* a read-write page, a read-only page, a hole, an inaccessible page */

static int setup(void **state)
{
	/* Once the hole is there, memory for a stream may come to lie in it. */
	maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	page = sysconf(_SC_PAGESIZE);
	area = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(area + page, page, PROT_READ);
	munmap(area + 2 * page, page);
	mprotect(area + 3 * page, page, PROT_NONE);
	return area == MAP_FAILED;
}

static int teardown(void **state)
{
	fclose(maps);
	munmap(area, 2 * page);
	munmap(area + 3 * page, page);
	return 0;
}

struct row {
	int from, pages;
	int err;
	bool readable, writable;
};

static const struct row rows[] = {
	{ 0, 1, 0, true, true }, { 1, 1, 0, true, false }, { 0, 2, 0, true, false },
	{ 2, 1, EFAULT },	 { 1, 2, EFAULT },	   { 3, 1, 0, false, false },
};

static int by_ioctl(uintptr_t at, uintptr_t end, struct memmap *map)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), err;

	assert_true(fd >= 0);
	err = query_ioctl(fd, at, end, map, NULL);
	close(fd);
	return err;
}

static int by_text(uintptr_t at, uintptr_t end, struct memmap *map)
{
	rewind(maps);
	return query_text(maps, at, end, map, NULL);
}

static int by_any(uintptr_t at, uintptr_t end, struct memmap *map)
{
	return memmap_query((void *)at, end - at, map);
}

static void check_rows(int (*ask)(uintptr_t, uintptr_t, struct memmap *))
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		uintptr_t at = (uintptr_t)area + r->from * page;
		struct memmap map = everything;
		int err = ask(at, at + r->pages * page, &map);

		if (err == ENOTTY)
			LEAVE_OUT("this kernel has no PROCMAP_QUERY");
		assert_int_equal(err, r->err);
		if (err)
			continue;
		assert_int_equal(map.readable, r->readable);
		assert_int_equal(map.writable, r->writable);
		assert_false(map.shared_file);
	}
}

static void ioctl_way(void **state)
{
	check_rows(by_ioctl);
}

static void text_way(void **state)
{
	check_rows(by_text);
}

static void public_way(void **state)
{
	check_rows(by_any);
}

/* mincore() reports only whether a page is mapped, not the access rights. */
static void mincore_way(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uintptr_t at = (uintptr_t)area + rows[i].from * page;

		assert_int_equal(query_mincore(at, at + rows[i].pages * page), rows[i].err);
	}
	assert_int_equal(query_mincore((uintptr_t)area + page - 1, (uintptr_t)area + page + 1), 0);
	assert_int_equal(query_mincore((uintptr_t)area + 2 * page - 1,
				     (uintptr_t)area + 2 * page + 1),
			 EFAULT);
}

static void file_mappings_are_recognized(void **state)
{
	int fd = memfd_create("memmap", MFD_CLOEXEC);
	struct memmap map;
	void *p;

	assert_int_equal(ftruncate(fd, page), 0);
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(memmap_query(p, page, &map), 0);
	assert_true(map.shared_file);
	munmap(p, page);
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_int_equal(memmap_query(p, page, &map), 0);
	assert_false(map.shared_file);
	munmap(p, page);
	close(fd);
}

/* Two pages of a file in file order are one range of it; in another order they are not. */
static void pages_of_one_file(void **state)
{
	int fd = memfd_create("memmap", MFD_CLOEXEC);
	const int prot = PROT_READ | PROT_WRITE;
	char path[MEMMAP_PATH];
	struct memmap map;
	struct stat st;
	uint8_t *p;

	assert_int_equal(ftruncate(fd, 8 * page), 0);
	assert_int_equal(fstat(fd, &st), 0);
	p = mmap(NULL, 2 * page, prot, MAP_SHARED, fd, 3 * page);
	assert_int_equal(mprotect(p + page, page, PROT_READ), 0);	/* two mappings now */
	assert_int_equal(memmap_query_process(getpid(), (uintptr_t)p + 7, page, &map, path), 0);
	assert_true(map.one_file);
	assert_int_equal(map.dev, st.st_dev);
	assert_int_equal(map.ino, st.st_ino);
	assert_int_equal(map.shift + (uintptr_t)p, 3 * page);
	assert_string_equal(path, "/memfd:memmap (deleted)");
	assert_ptr_not_equal(mmap(p, page, prot, MAP_SHARED | MAP_FIXED, fd, 5 * page), MAP_FAILED);
	assert_int_equal(memmap_query(p, 2 * page, &map), 0);
	assert_true(map.shared_file);
	assert_false(map.one_file);
	munmap(p, 2 * page);
	close(fd);
}

static void another_process(void **state)
{
	char path[MEMMAP_PATH];
	struct memmap map;

	assert_int_equal(memmap_query_process(getpid(), (uintptr_t)area, page, &map, path), 0);
	assert_false(map.one_file);
	assert_int_equal(memmap_query_process(getpid(), (uintptr_t)area + 2 * page, page, &map,
					      path),
			 EFAULT);
	/* no process has this number */
	assert_int_equal(memmap_query_process(1 << 30, (uintptr_t)area, page, &map, path), EACCES);
}

static void text_lines(void **state)
{
	static char text[] = "1000-3000 rw-p 00000000 00:00 0 \n"
			     "3000-5000 rw-s 00000000 00:01 77 /a file\n"
			     "6000-7000 r--p 00000000 00:00 0 \n"
			     "nonsense\n";
	static const struct {
		uintptr_t at, end;
		int err;
	} lines[] = {
		{ 0x1000, 0x1001, 0 },	    { 0x2fff, 0x5000, 0 },	{ 0x2fff, 0x5001, EFAULT },
		{ 0xfff, 0x1001, EFAULT },  { 0x6000, 0x7000, 0 },	{ 0x6fff, 0x7001, EFAULT },
		{ 0x9000, 0x9001, EFAULT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		FILE *f = fmemopen(text, strlen(text), "r");
		char path[MEMMAP_PATH];
		struct memmap map = everything;

		assert_int_equal(query_text(f, lines[i].at, lines[i].end, &map, path),
				 lines[i].err);
		fclose(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ioctl_way),
		cmocka_unit_test(text_way),
		cmocka_unit_test(public_way),
		cmocka_unit_test(mincore_way),
		cmocka_unit_test(file_mappings_are_recognized),
		cmocka_unit_test(pages_of_one_file),
		cmocka_unit_test(another_process),
		cmocka_unit_test(text_lines),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
