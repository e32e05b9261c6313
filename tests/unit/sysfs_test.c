/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_get_sysfs_path() and ibv_read_sysfs_file(): the environment variable, trailing slashes,
 * newlines, short buffers, missing files.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/exports.h"

static char dir[] = "/tmp/verbena-sysfs-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void path_from_environment(void **state)
{
	assert_string_equal(ibv_get_sysfs_path(), "/nowhere/sys");
	/* The path is determined once. */
	setenv("SYSFS_PATH", "/elsewhere", 1);
	assert_string_equal(ibv_get_sysfs_path(), "/nowhere/sys");
}

static void reading(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		const char *result;
	} rows[] = {
		{ "4\n", 16, "4" },	 { "4", 16, "4" },	  { "", 16, "" },
		{ "\n", 16, "" },	 { "a\n\n", 16, "a\n" },  { "abcdef\n", 7, "abcdef" },
		{ "abcdef\n", 6, "abcde" }, { "abc\n", 1, "" },
	};
	char buf[16];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_file("f", rows[i].text);
		memset(buf, 'x', sizeof(buf));
		assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, rows[i].size),
				 strlen(rows[i].result));
		assert_string_equal(buf, rows[i].result);
	}
}

static void refusals(void **state)
{
	char buf[16], *longest;

	assert_int_equal(ibv_read_sysfs_file(dir, "absent", buf, sizeof(buf)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_read_sysfs_file("/", "tmp", buf, sizeof(buf)), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, 0), -1);
	longest = calloc(1, 10000);
	memset(longest, 'a', 9999);
	assert_int_equal(ibv_read_sysfs_file(dir, longest, buf, sizeof(buf)), -1);
	free(longest);
}

static int make_dir(void **state)
{
	setenv("SYSFS_PATH", "/nowhere/sys//", 1);
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/f", dir);
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_from_environment),
		cmocka_unit_test(reading),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
