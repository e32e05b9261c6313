/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three ways to ask what is mapped: each on memory of ours, the text form also on lines that we
 * make up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/*
 * The ways are static; which of them a kernel leaves to be used is not for the test to depend on.
 */
#include "../../src/core/mem/proc_maps.c"
#include "left_out.h"

static size_t page;
static uint8_t *area;	/* read-write, read-only, nothing, inaccessible */

static int setup(void **state)
{
	page = sysconf(_SC_PAGESIZE);
	area = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(area + page, page, PROT_READ);
	munmap(area + 2 * page, page);
	mprotect(area + 3 * page, page, PROT_NONE);
	return area == MAP_FAILED;
}

static int teardown(void **state)
{
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
	err = query_ioctl(fd, at, end, map);
	close(fd);
	return err;
}

static int by_text(uintptr_t at, uintptr_t end, struct memmap *map)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int err;

	assert_non_null(f);
	err = query_text(f, at, end, map);
	fclose(f);
	return err;
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
		struct memmap map = { true, true, true };
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

/* It cannot tell rights, only whether there is anything. */
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

static void a_file_is_told_from_the_rest(void **state)
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
		struct memmap map = { true, true, true };

		assert_int_equal(query_text(f, lines[i].at, lines[i].end, &map), lines[i].err);
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
		cmocka_unit_test(a_file_is_told_from_the_rest),
		cmocka_unit_test(text_lines),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
