/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run directory: created if it is missing, refused if others could use it.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_env.h"
#include "left_out.h"
#include "place.h"
#include "util/compiler.h"

/* The host must join in another directory than the requested one. */
static void must_be_elsewhere(void)
{
	struct host *h = join();
	uint32_t qpn;

	assert_false(is_here(h));
	assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
	host_leave(h);
}

/*
 * The host must join twice, in a private directory within the requested one, with the name of the
 * user.
 */
static void must_be_inside(void)
{
	struct host *a = join(), *b = join();
	char inside[128];
	struct stat st;

	snprintf(inside, sizeof(inside), "%s/verbena-%u", run_dir, geteuid());
	assert_true(host_shared(a) && host_shared(b));
	assert_string_equal(host_dir(a), inside);
	assert_true(host_group(a) == host_group(b) && host_group(a));
	assert_int_equal(stat(inside, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	host_leave(a);
	/*
	 * Its name shows that the directory is ours, so the mode that chmod opened to others is
	 * corrected.
	 */
	assert_int_equal(chmod(inside, 0755), 0);
	a = join();
	assert_int_equal(stat(inside, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_string_equal(host_dir(a), host_dir(b));
	host_leave(a);
	host_leave(b);
}

static void a_shared_directory_gets_a_private_one(void **state)
{
	static const mode_t modes[] = { 0750, 0755, 01777 };
	char real[96];
	struct stat st;

	for (unsigned int i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(run_dir, modes[i]), 0);
		must_be_inside();
		assert_int_equal(stat(run_dir, &st), 0);
		assert_int_equal(st.st_mode & 07777, modes[i]);
	}
	chmod(run_dir, 0700);

	/* A link to a directory that would be suitable. */
	snprintf(real, sizeof(real), "%s.real", run_dir);
	assert_int_equal(rename(run_dir, real), 0);
	assert_int_equal(symlink(real, run_dir), 0);
	must_be_inside();
	unlink(run_dir);
	rename(real, run_dir);

	if (geteuid()) {
		left_out(1, "only root can change the owner of a directory");
		return;
	}
	assert_int_equal(chown(run_dir, 4242, 0), 0);
	must_be_inside();
	assert_int_equal(chown(run_dir, 0, 0), 0);
}

/* Only root can set up the following. */
static void skip_unless_root(void)
{
	if (geteuid())
		LEAVE_OUT("only root can create another user's file");
}

static void a_table_of_another_user_is_refused(void **state)
{
	char table[96];
	struct host *h;

	skip_unless_root();
	host_leave(join());
	snprintf(table, sizeof(table), "%s/table", run_dir);
	assert_int_equal(chown(table, 4242, 0), 0);
	must_be_elsewhere();
	assert_int_equal(unlink(table), 0);
	h = join();
	assert_true(host_shared(h));
	host_leave(h);
}

/*
 * The names in /dev/shm and /tmp belong to the first user who creates them. Returns the error; 77:
 * not testable here.
 */
static int join_beside_another_user(void)
{
	char first[64], second[64];
	struct host *h;

	snprintf(first, sizeof(first), "/dev/shm/verbena-%u", geteuid());
	snprintf(second, sizeof(second), "/tmp/verbena-%u", geteuid());
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/dev/shm", "tmpfs", 0, "size=8m,mode=1777") < 0 ||
	    mount("none", "/tmp", "tmpfs", 0, "size=8m,mode=1777") < 0 || mkdir(first, 0700) ||
	    chown(first, 4242, 0))
		return 77;
	if (host_join(NULL, &h) || !host_shared(h) || strcmp(host_dir(h), second))
		return 1;
	host_leave(h);
	if (chown(second, 4242, 0) || host_join(NULL, &h) || host_shared(h))
		return 2;
	host_leave(h);
	return 0;
}

static void a_directory_of_another_user_is_skipped(void **state)
{
	int status;

	skip_unless_root();
	fflush(stdout);
	if (fork() == 0)
		_exit(join_beside_another_user());
	wait(&status);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		LEAVE_OUT("no mount namespaces");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_file_in_its_place_is_refused(void **state)
{
	int fd;

	rmdir(run_dir);
	fd = open(run_dir, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
	must_be_elsewhere();
	close(fd);
	unlink(run_dir);
	mkdir(run_dir, 0700);
}

static void a_missing_directory_is_created(void **state)
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

/* Whatever the umask of the first process, all of them can use what it makes. */
static void a_umask_keeps_nobody_out(void **state)
{
	char inside[96];
	const struct {
		const char *path;
		mode_t mode;	/* of run_dir, in which it is made */
	} rows[] = { { run_dir, 0 }, { inside, 01777 } };
	mode_t before = umask(0177);
	struct stat st;
	struct host *h;

	snprintf(inside, sizeof(inside), "%s/verbena-%u", run_dir, geteuid());
	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		rmdir(run_dir);
		if (rows[i].mode)
			assert_true(!mkdir(run_dir, 0700) && !chmod(run_dir, rows[i].mode));
		h = join();
		assert_true(host_shared(h));
		assert_string_equal(host_dir(h), rows[i].path);
		assert_int_equal(stat(rows[i].path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0700);
		host_leave(h);
		place_remove_dir(rows[i].path);
	}
	umask(before);
}

/* As a user whose rights matter. Returns 0 if both processes meet. */
static int join_with_umask(mode_t mask)
{
	enum { NOBODY = 65534 };
	struct host *a, *b;
	char dir[96];

	snprintf(dir, sizeof(dir), "%s/%03o", run_dir, mask);
	umask(mask);
	if (!geteuid() && (setgid(NOBODY) || setuid(NOBODY)))
		return 1;
	if (host_join(dir, &a) || host_join(dir, &b) || strcmp(host_dir(a), dir) ||
	    strcmp(host_dir(b), dir) || host_ring(a, host_slot(b), host_incarnation(b)))
		return 2;
	host_leave(a);
	host_leave(b);
	place_remove_dir(dir);
	return 0;
}

static void a_umask_keeps_not_even_its_owner_out(void **state)
{
	static const mode_t masks[] = { 0577, 0777 };
	int status;

	assert_int_equal(chmod(run_dir, 01777), 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(masks); i++) {
		fflush(stdout);
		if (fork() == 0)
			_exit(join_with_umask(masks[i]));
		wait(&status);
		assert_int_equal(status, 0);
	}
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
		IN_DIR(a_shared_directory_gets_a_private_one),
		IN_DIR(a_table_of_another_user_is_refused),
		IN_DIR(a_directory_of_another_user_is_skipped),
		IN_DIR(a_file_in_its_place_is_refused),
		IN_DIR(a_missing_directory_is_created),
		IN_DIR(a_umask_keeps_nobody_out),
		IN_DIR(a_umask_keeps_not_even_its_owner_out),
		IN_DIR(a_long_directory_name_works),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
