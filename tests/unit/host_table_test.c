/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table that all processes map: neither its contents nor changes of its file may crash or hang
 * a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/steer.h"
#include "host/table.h"
#include "host_env.h"
#include "left_out.h"
#include "place.h"
#include "util/compiler.h"

static void write_table(const void *buf, size_t len, off_t at)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/table", run_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && pwrite(fd, buf, len, at) == (ssize_t)len);
	close(fd);
}

static void truncate_table(off_t size)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/table", run_dir);
	assert_int_equal(truncate(path, size), 0);
}

/* Calls every function once, whatever the contents of the table. */
static void exercise(struct host *h)
{
	struct net_steer map[64];
	struct net_path path = { 0 };
	struct host_peer peer;
	uint32_t qpn;
	int i;

	for (i = 0; i < 300; i++)
		if (host_qpn_alloc(h, 0, &qpn) == 0 && i % 2)
			host_qpn_free(h, qpn);
	for (i = 0; i < 64; i++) {
		qpn = (uint32_t)i * 262143;
		host_owner(h, qpn);
		host_hand(h, qpn, &path, "x", 1, 1);
		host_peer(h, i * 17, &peer);
		host_ring(h, i * 17, 1);
	}
	host_publish_wire(h, 4791, &(struct host_steer){ .at = { { 0, 0 } } });
	assert_in_range(host_steer_map(h, map, ARRAY_SIZE(map)), 0, ARRAY_SIZE(map));
	host_reap(h);
}

static void garbage_is_survived(void **state)
{
	static uint8_t noise[TABLE_SIZE];
	uint64_t seed = place_seed();
	int round;
	size_t i;

	for (round = 0; round < 4; round++) {
		struct host *a, *b;

		for (i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)place_next(&seed);
		/* No live process uses the table: it is recreated. */
		write_table(noise, sizeof(noise), 0);
		a = join();
		assert_true(host_shared(a));
		exercise(a);
		/* A live process uses it: everything after the header is corrupted under both. */
		b = join();
		write_table(noise, sizeof(noise) - 4096, 4096);
		exercise(a);
		exercise(b);
		/* The header as well: a new process uses another directory. */
		write_table(noise, 4096, 0);
		host_leave(b);
		b = join();
		assert_false(is_here(b));
		exercise(b);
		truncate_table(0);
		exercise(a);
		host_leave(a);
		host_leave(b);
	}
}

static void a_short_table_is_recreated(void **state)
{
	struct host *h = join();

	host_leave(h);
	truncate_table(5000);
	h = join();
	assert_true(host_shared(h));
	exercise(h);
	host_leave(h);
}

/* A process of another version uses the table, which is visible only by a lock on the file. */
static int live_in_other_version(void)
{
	struct table_header other = { TABLE_MAGIC, TABLE_VERSION + 1, 1, 1, 1, 1, 0 };
	struct flock life = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1234567, .l_len = 1
	};
	char path[96];
	int fd;

	write_table(&other, sizeof(other), 0);
	snprintf(path, sizeof(path), "%s/table", run_dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &life), 0);
	return fd;
}

static void a_used_table_of_another_version_is_kept(void **state)
{
	int fd = live_in_other_version();
	struct table_header now;
	struct host *h = join();

	assert_false(is_here(h));
	exercise(h);
	assert_int_equal(pread(fd, &now, sizeof(now), 0), sizeof(now));
	assert_int_equal(now.version, TABLE_VERSION + 1);
	host_leave(h);
	close(fd);
}

static void an_unused_table_of_another_version_is_replaced(void **state)
{
	int fd = live_in_other_version(), left;
	char path[96];
	struct host *h;

	snprintf(path, sizeof(path), "%s/s0345.sock", run_dir);
	left = open(path, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
	close(fd);
	h = join();
	assert_true(is_here(h));
	assert_int_not_equal(access(path, F_OK), 0);
	exercise(h);
	host_leave(h);
	close(left);
}

static int in_child(void (*body)(void))
{
	int status;

	fflush(stdout);
	if (fork() == 0) {
		body();
		_exit(0);
	}
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

enum { SKIP = 77 };

/* No room for the table: a file system of one page. */
static void join_in_full_directory(void)
{
	struct host *h;
	uint32_t qpn;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", run_dir, "tmpfs", 0, "size=64k,mode=0700") < 0)
		_exit(SKIP);
	h = join();
	if (is_here(h) || host_qpn_alloc(h, 0, &qpn))
		_exit(1);
	host_leave(h);
}

static void a_full_directory_is_avoided(void **state)
{
	int status = in_child(join_in_full_directory);

	if (status == SKIP)
		LEAVE_OUT("no mount namespaces");
	assert_int_equal(status, 0);
}

static void join_with_file_limit(void)
{
	const struct rlimit lim = { 4096, 4096 };
	struct host *h;

	setrlimit(RLIMIT_FSIZE, &lim);
	h = join();
	if (host_shared(h))
		_exit(1);
	host_leave(h);
}

static void a_file_size_limit_does_not_kill(void **state)
{
	assert_int_equal(in_child(join_with_file_limit), 0);
}

static void set_holder(const struct table *t, pid_t pid)
{
	int32_t holder = pid;

	assert_int_equal(pwrite(t->fd, &holder, sizeof(holder), 56), sizeof(holder));
}

static void set_pid_namespace(const struct table *t, uint32_t inode)
{
	assert_int_equal(pwrite(t->fd, &inode, sizeof(inode), 60), sizeof(inode));
}

/* As if a raw clone had kept the lock. */
static void hand_to_a_dead_process(const struct table *t)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	set_holder(t, pid);
}

/* Without CPU for long, it must not make others leave the run directory. */
static void a_living_holder_of_the_lock_is_waited_for(void **state)
{
	static const pid_t unknown[] = { 0, -1, INT32_MIN };
	int fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct table t;

	assert_int_equal(table_open(&t, fd), 0);
	assert_int_equal(table_lock(&t), 0);
	assert_int_equal(table_patience(&t), TABLE_LOCK_TIMEOUT);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		set_holder(&t, unknown[i]);
		assert_int_equal(table_patience(&t), TABLE_LOCK_TIMEOUT);
	}
	set_holder(&t, INT32_MAX);
	assert_int_equal(table_patience(&t), TABLE_GONE_TIMEOUT);
	set_pid_namespace(&t, 1);
	assert_int_equal(table_patience(&t), TABLE_LOCK_TIMEOUT);
	table_unlock(&t);
	assert_int_equal(table_lock(&t), 0);
	hand_to_a_dead_process(&t);
	assert_int_equal(table_patience(&t), TABLE_GONE_TIMEOUT);
	table_unlock(&t);
	table_close(&t);
	close(fd);
}

static void use_and_end(void)
{
	host_leave(join());
}

/* Stopped, it could not say who it is; the process that had the lock before has ended. */
static void a_holder_without_name_is_waited_for(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = TABLE_LOCK_AT,
			      .l_len = 1 };
	int fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct table t;

	assert_int_equal(table_open(&t, fd), 0);
	assert_int_equal(in_child(use_and_end), 0);
	assert_int_equal(fcntl(t.fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(table_patience(&t), TABLE_LOCK_TIMEOUT);
	table_close(&t);
	close(fd);
}

static void a_lost_lock_does_not_hang_others(void **state)
{
	struct host *h = join(), *b;
	struct table t;
	uint32_t qpn;
	int fd;

	fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(table_open(&t, fd), 0);
	assert_int_equal(table_lock(&t), 0);
	hand_to_a_dead_process(&t);
	b = join();
	assert_false(is_here(b));
	assert_int_equal(host_qpn_alloc(h, 0, &qpn), EBUSY);
	table_unlock(&t);
	assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
	table_close(&t);
	close(fd);
	host_leave(h);
	host_leave(b);
}

/*
 * Steps of a wait since its first check: the time, the lock's turn, and whether the wait is over.
 */
static void a_waiter_waits_while_the_lock_changes_hands(void **state)
{
	enum { TIMEOUT = 100 };
	static const struct {
		uint64_t now, turn;
		bool over;
	} steps[] = {
		{ 1, 7, false },
		{ 101, 7, false },
		{ 102, 8, false },	/* another process has the lock: the time restarts */
		{ 202, 8, false },
		{ 203, 8, true },
		{ 204, 0, false },	/* the table was recreated */
		{ 304, 0, false },
		{ 305, 0, true },
	};
	struct table_wait wait = { .timeout = TIMEOUT };
	uint64_t now = 305;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		assert_int_equal(table_wait_over(&wait, steps[i].turn, steps[i].now),
				 steps[i].over);
	for (; now <= TABLE_WAIT_MAX; now += TIME_WAIT_STEP)
		assert_false(table_wait_over(&wait, now, now));
	assert_false(table_wait_over(&wait, 9, TABLE_WAIT_MAX + 1));
	assert_true(table_wait_over(&wait, 10, TABLE_WAIT_MAX + 2));
}

/* All processes of a user are stopped, as by ^Z; the waiter may be the first that goes on. */
static void a_stopped_waiter_has_not_waited(void **state)
{
	struct table_wait wait = { .timeout = TABLE_LOCK_TIMEOUT };
	uint64_t now = VRB_SECOND;

	assert_false(table_wait_over(&wait, 7, now));
	for (int i = 0; i < 10; i++) {
		now += 2 * TABLE_WAIT_MAX;
		assert_false(table_wait_over(&wait, 7, now));
	}
	for (uint64_t waited = 10 * TIME_WAIT_STEP; waited < TABLE_LOCK_TIMEOUT;
	     waited += TIME_WAIT_STEP) {
		now += TIME_WAIT_STEP;
		assert_false(table_wait_over(&wait, 7, now));
	}
	assert_true(table_wait_over(&wait, 7, now + 1));
}

static uint64_t turn_of(struct table *t)
{
	uint64_t turn;

	assert_int_equal(pread(t->fd, &turn, sizeof(turn), 64), sizeof(turn));
	return turn;
}

/* The turn changes when the lock is taken, and only then. */
static void each_turn_is_counted(void **state)
{
	int dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t turn;
	struct table a, b;

	assert_int_equal(table_open(&a, dir), 0);
	turn = turn_of(&a);
	assert_int_equal(table_open(&b, dir), 0);
	assert_true(turn_of(&a) != turn);
	turn = turn_of(&a);
	assert_int_equal(table_lock(&b), 0);
	assert_true(turn_of(&a) != turn);
	turn = turn_of(&a);
	assert_int_equal(table_lock_within(&a, 0), EBUSY);
	assert_true(turn_of(&a) == turn);
	table_unlock(&b);
	table_close(&a);
	table_close(&b);
	close(dir);
}

/* A mark stays as long as any process holds it. */
static void marks_end_with_their_last_holder(void **state)
{
	struct host *a = join(), *b = join(), *c = join();
	const uint64_t name = UINT64_MAX;

	assert_int_equal(host_mark(a, name, false, false), ENOENT);
	assert_int_equal(host_mark(a, name, true, true), 0);
	assert_int_equal(host_mark(b, name, true, true), EEXIST);
	assert_int_equal(host_mark(b, name, false, false), 0);
	assert_int_equal(host_mark(b, name - 1, false, false), ENOENT);
	host_unmark(a, name);
	assert_int_equal(host_mark(c, name, true, true), EEXIST);
	host_leave(b);
	assert_int_equal(host_mark(c, name, false, false), ENOENT);
	assert_int_equal(host_mark(c, name, true, true), 0);
	host_leave(a);
	host_leave(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(garbage_is_survived),
		IN_DIR(a_short_table_is_recreated),
		IN_DIR(a_used_table_of_another_version_is_kept),
		IN_DIR(an_unused_table_of_another_version_is_replaced),
		IN_DIR(a_full_directory_is_avoided),
		IN_DIR(a_file_size_limit_does_not_kill),
		IN_DIR(a_living_holder_of_the_lock_is_waited_for),
		IN_DIR(a_holder_without_name_is_waited_for),
		IN_DIR(a_lost_lock_does_not_hang_others),
		cmocka_unit_test(a_waiter_waits_while_the_lock_changes_hands),
		cmocka_unit_test(a_stopped_waiter_has_not_waited),
		IN_DIR(each_turn_is_counted),
		IN_DIR(marks_end_with_their_last_holder),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
