/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run directory: made if it is missing, refused if others could use it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_env.h"
#include "place.h"

static void must_be_private(void)
{
	struct host *h = join();
	uint32_t qpn;

	assert_false(host_shared(h));
	assert_int_equal(host_qpn_alloc(h, &qpn), 0);
	host_leave(h);
}

static void a_directory_others_can_use_is_refused(void **state)
{
	char real[96];

	chmod(run_dir, 0750);
	must_be_private();
	chmod(run_dir, 0700);

	/* A link to one that would be right. */
	snprintf(real, sizeof(real), "%s.real", run_dir);
	assert_int_equal(rename(run_dir, real), 0);
	assert_int_equal(symlink(real, run_dir), 0);
	must_be_private();
	unlink(run_dir);
	rename(real, run_dir);

	if (geteuid())
		return;
	assert_int_equal(chown(run_dir, 4242, 0), 0);
	must_be_private();
	assert_int_equal(chown(run_dir, 0, 0), 0);
}

static void a_file_in_its_place_is_refused(void **state)
{
	int fd;

	rmdir(run_dir);
	fd = open(run_dir, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
	must_be_private();
	close(fd);
	unlink(run_dir);
	mkdir(run_dir, 0700);
}

static void a_missing_directory_is_made(void **state)
{
	struct stat st;
	struct host *h;

	rmdir(run_dir);
	h = join();
	assert_true(host_shared(h));
	assert_int_equal(stat(run_dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	host_leave(h);
}

static void a_long_directory_name_works(void **state)
{
	char longer[256];
	struct host *a, *b;

	snprintf(longer, sizeof(longer), "%s/%0120d", run_dir, 7);
	assert_int_equal(host_join(longer, &a), 0);
	assert_int_equal(host_join(longer, &b), 0);
	assert_true(host_shared(a) && host_shared(b));
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	host_leave(a);
	host_leave(b);
	place_remove_dir(longer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(a_directory_others_can_use_is_refused),
		IN_DIR(a_file_in_its_place_is_refused),
		IN_DIR(a_missing_directory_is_made),
		IN_DIR(a_long_directory_name_works),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
