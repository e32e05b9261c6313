/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log reads its configuration once per process, so all tests share one:
 * "warn,wire=debug,host=off" into a file.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "place.h"
#include "run/log.h"

static char path[128];

/* Returns what was logged since the last call. */
static const char *written(void)
{
	static char text[8192];
	static long at;
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	fseek(f, at, SEEK_SET);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	at += (long)n;
	fclose(f);
	return text;
}

static unsigned int count_lines(const char *s)
{
	unsigned int n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static int evaluated;

static int touch(void)
{
	return ++evaluated;
}

static void thresholds_per_module(void **state)
{
	const char *text;

	log_warn(LOG_CORE, "one");
	log_info(LOG_CORE, "two");
	log_debug(LOG_WIRE, "three");
	log_trace(LOG_WIRE, "four");
	log_error(LOG_HOST, "five");
	text = written();
	assert_int_equal(count_lines(text), 2);
	assert_non_null(strstr(text, "warn core: one\n"));
	assert_non_null(strstr(text, "debug wire: three\n"));
}

/* Beyond RLIMIT_FSIZE a line is lost, and no SIGXFSZ ends the process. */
static void a_file_may_be_full(void **state)
{
	struct rlimit limit, none;
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	none = (struct rlimit){ (rlim_t)st.st_size, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	log_warn(LOG_CORE, "lost");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_string_equal(written(), "");
}

static void disabled_levels_are_not_evaluated(void **state)
{
	evaluated = 0;
	log_trace(LOG_CORE, "%d", touch());
	assert_int_equal(evaluated, 0);
}

static void errno_survives_and_can_be_printed(void **state)
{
	errno = ENOENT;
	log_warn(LOG_CORE, "file: %m");
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(written(), strerror(ENOENT)));
}

static void long_records_are_cut_to_one_line(void **state)
{
	char big[3000];
	const char *text;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	log_warn(LOG_CORE, "%s", big);
	text = written();
	assert_int_equal(count_lines(text), 1);
	assert_true(strlen(text) <= 1024);
}

static void log_once_logs_once(void **state)
{
	int i;

	for (i = 0; i < 3; i++)
		log_once(LOG_CORE, LOG_WARN, "rare");
	assert_int_equal(count_lines(written()), 1);
}

static void log_limited_is_rate_limited(void **state)
{
	uint64_t stamp = 0;

	assert_true(log_seldom(&stamp));
	assert_false(log_seldom(&stamp));
	stamp -= 1000000000;
	assert_true(log_seldom(&stamp));
}

/* A program that was started without standard error: 0 if its next file stays what it is. */
static int without_standard_error(void)
{
	int fd = memfd_create("log_test", MFD_CLOEXEC);
	struct stat st;

	if (fd != STDERR_FILENO)
		return 1;
	unsetenv("VERBENA_LOG_FILE");
	log_warn(LOG_CORE, "to nobody");
	return fstat(fd, &st) || st.st_size ? 2 : 0;
}

static void no_line_goes_into_another_file(void **state)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		close(STDERR_FILENO);
		execl("/proc/self/exe", "log_test", "without", (char *)NULL);
		_exit(3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_may_be_full),
		cmocka_unit_test(disabled_levels_are_not_evaluated),
		cmocka_unit_test(thresholds_per_module),
		cmocka_unit_test(errno_survives_and_can_be_printed),
		cmocka_unit_test(long_records_are_cut_to_one_line),
		cmocka_unit_test(log_once_logs_once),
		cmocka_unit_test(log_limited_is_rate_limited),
		cmocka_unit_test(no_line_goes_into_another_file),
	};
	char dir[64];
	int failed;

	if (argc > 1)
		return without_standard_error();
	place_make_dir(dir);
	snprintf(path, sizeof(path), "%s/log", dir);
	setenv("VERBENA_LOG", "warn,wire=debug,host=off", 1);
	setenv("VERBENA_LOG_FILE", path, 1);
	log_warn(LOG_CORE, "makes the log read its configuration");
	written();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	place_remove_dir(dir);
	return failed;
}
