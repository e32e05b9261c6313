/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes in one run directory: they find each other, resources of dead ones are
 * reclaimed, and a forked child removes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/dir.h"
#include "host/table.h"
#include "host/exit_mad.h"
#include "host_env.h"
#include "place.h"
#include "util/compiler.h"

static unsigned int files_with_prefix(const char *prefix)
{
	char command[128];
	unsigned int n = 99;
	FILE *f;

	snprintf(command, sizeof(command), "ls %s | grep -c ^%s", run_dir, prefix);
	f = popen(command, "r");
	assert_int_equal(fscanf(f, "%u", &n), 1);
	pclose(f);
	return n;
}

static void two_processes_see_each_other(void **state)
{
	struct host *a = join(), *b = join();
	struct host_peer peer;
	uint32_t qpn;

	assert_true(host_shared(a) && host_shared(b));
	assert_int_not_equal(host_slot(a), host_slot(b));
	assert_true(host_incarnation(a) != host_incarnation(b));
	assert_true(host_peer(a, host_slot(b), &peer));
	assert_true(peer.incarnation == host_incarnation(b));
	assert_int_equal(peer.pid, getpid());
	assert_true(host_alive(a, host_slot(b), peer.incarnation));
	assert_false(host_alive(a, host_slot(b), peer.incarnation + 1));

	assert_int_equal(host_qpn_alloc(b, 0, &qpn), 0);
	assert_int_equal(host_owner(a, qpn), host_slot(b));
	assert_int_equal(host_owner(b, qpn), host_slot(b));
	host_leave(b);
	assert_int_equal(host_owner(a, qpn), HOST_NO_SLOT);
	assert_false(host_alive(a, 1, peer.incarnation));
	host_leave(a);
}

/* A table that cannot be read proves nobody's death. */
static void an_unreadable_process_may_be_alive(void **state)
{
	struct host *a = join(), *b = join();
	const uint64_t incarnation = host_incarnation(b);
	const int slot = host_slot(b);
	char table[96];

	snprintf(table, sizeof(table), "%s/table", run_dir);
	assert_int_equal(truncate(table, 0), 0);
	assert_int_equal(host_liveness(a, slot, incarnation), HOST_UNKNOWN);
	assert_false(host_alive(a, slot, incarnation));
	host_leave(b);
	host_leave(a);
}

/*
 * A process closes its file of exit MADs while it still holds its slot: no process waits for it,
 * and it is found dead later.
 */
static void an_exiting_process_is_checked_again(void **state)
{
	struct host *a = join(), *b = join();
	uint8_t mad[HOST_MAD_LEN] = { 1 };
	int fd = host_exit_mad_watch(a), dirfd = open(run_dir, O_RDONLY | O_DIRECTORY);
	char name[32];

	assert_true(fd >= 0 && dirfd >= 0);
	assert_int_equal(host_exit_mad_write(b, 0, &some_path, mad), 0);
	host_file_name(host_slot(b), "exit-mads", name);
	close(openat(dirfd, name, O_WRONLY));
	assert_false(host_exit_mad_news(a, fd));
	assert_true(host_exit_mad_dying(a));
	host_exit_mad_look_again(a, false);
	assert_true(host_exit_mad_dying(a));
	host_leave(b);
	host_exit_mad_look_again(a, false);
	assert_false(host_exit_mad_dying(a));
	close(dirfd);
	close(fd);
	host_leave(a);
}

/*
 * More events than the kernel queues; no two in a row are equal, since the kernel would merge them.
 */
static void overflow(int dirfd)
{
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
	unsigned int max;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &max), 1);
	fclose(f);
	for (unsigned int i = 0; i <= max; i++)
		close(openat(dirfd, i % 2 ? "odd" : "even", O_WRONLY | O_CREAT, 0600));
	unlinkat(dirfd, "odd", 0);
	unlinkat(dirfd, "even", 0);
}

static void dead_processes_are_found_despite_lost_events(void **state)
{
	struct host *a = join();
	uint8_t mad[HOST_MAD_LEN] = { 1 };
	int fd = host_exit_mad_watch(a), dirfd = open(run_dir, O_RDONLY | O_DIRECTORY), status;
	pid_t pid;

	assert_true(fd >= 0 && dirfd >= 0);
	overflow(dirfd);
	pid = fork();
	if (!pid)
		_exit(host_exit_mad_write(join(), 0, &some_path, mad));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(files_with_prefix("exit-mads"), 0);
	assert_true(host_exit_mad_news(a, fd));
	assert_int_equal(files_with_prefix("exit-mads"), 1);
	close(dirfd);
	close(fd);
	host_leave(a);
}

enum { EXIT_MADS = 3 };

static time_t clock_step;	/* of the wall clock */

time_t time(time_t *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec + clock_step;
	return now.tv_sec + clock_step;
}

static unsigned int mads_sent;

static bool send_all(void *arg, const struct net_path *path, const uint8_t mad[HOST_MAD_LEN])
{
	assert_int_equal(mad[0], 1);
	mads_sent++;
	return true;
}

/* There is room for one MAD only. */
static bool send_first(void *arg, const struct net_path *path, const uint8_t mad[HOST_MAD_LEN])
{
	return !mads_sent && send_all(arg, path, mad);
}

static void die_with_exit_mads(void)
{
	struct host *h = join();
	uint8_t mad[HOST_MAD_LEN] = { 1 };

	for (uint32_t i = 0; i < EXIT_MADS; i++)
		if (host_exit_mad_write(h, i, &some_path, mad))
			_exit(1);
	_exit(0);
}

static void die_during_execution(void)
{
	struct host *h = join();

	_exit(host_exit_mad_execute(h, send_first, NULL) || mads_sent != 1);
}

static void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		fn();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void pending_exit_mads_outlive_their_sender(void **state)
{
	struct host *a = join(), *b = join();

	mads_sent = 0;
	in_child(die_with_exit_mads);
	assert_int_equal(host_reap(b), 1);
	in_child(die_during_execution);
	assert_int_equal(host_reap(b), 1);
	assert_false(host_exit_mad_execute(a, send_first, NULL));
	assert_int_equal(mads_sent, 1);
	/* only one process executes the file */
	assert_true(host_exit_mad_execute(b, send_all, NULL));
	assert_int_equal(mads_sent, 1);
	host_leave(a);
	mads_sent = 0;
	assert_true(host_exit_mad_execute(b, send_all, NULL));
	assert_int_equal(mads_sent, EXIT_MADS);
	assert_int_equal(files_with_prefix("exit-mads"), 0);
	host_leave(b);
}

/* A process without a descriptor left leaves them to others. */
static void exit_mads_outlive_a_lack_of_descriptors(void **state)
{
	struct host *h = join();
	struct rlimit was, few;
	int next;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (rlim_t left = 0; left < 4; left++) {
		mads_sent = 0;
		in_child(die_with_exit_mads);
		assert_int_equal(host_reap(h), 1);
		next = fcntl(0, F_DUPFD, 0);
		close(next);
		few = (struct rlimit){ (rlim_t)next + left, was.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		host_exit_mad_execute(h, send_all, NULL);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		assert_true(host_exit_mad_execute(h, send_all, NULL));
		assert_int_equal(mads_sent, EXIT_MADS);
	}
	host_leave(h);
}

/* The file of exit MADs was last written then: so was that of a process with a long connection. */
static void make_old(const char *name)
{
	const struct timespec times[2] = { 0 };
	int dirfd = open(run_dir, O_RDONLY | O_DIRECTORY);

	assert_int_equal(utimensat(dirfd, name, times, 0), 0);
	close(dirfd);
}

static void die_after_days(void)
{
	struct host *h = join();
	uint8_t mad[HOST_MAD_LEN] = { 1 };
	char name[32];

	host_file_name(host_slot(h), "exit-mads", name);
	if (host_exit_mad_write(h, 0, &some_path, mad))
		_exit(1);
	make_old(name);
	_exit(0);
}

/* The clock is set before they are executed. Nobody executes those of another network. */
static void exit_mads_of_a_long_life_are_executed(void **state)
{
	static const char foreign[] = "exit-mads.ffffffffffffffff.0000000000000001";
	struct host *h = join();
	int dirfd = open(run_dir, O_RDONLY | O_DIRECTORY);

	close(openat(dirfd, foreign, O_WRONLY | O_CREAT, 0600));
	make_old(foreign);
	mads_sent = 0;
	in_child(die_after_days);
	assert_int_equal(host_reap(h), 1);
	assert_true(host_exit_mad_execute(h, send_all, NULL));
	assert_int_equal(mads_sent, 1);
	assert_int_equal(faccessat(dirfd, foreign, F_OK, 0), 0);
	in_child(die_after_days);
	clock_step = 7200;
	assert_int_equal(host_reap(h), 1);
	assert_true(host_exit_mad_execute(h, send_all, NULL));
	clock_step = 0;
	assert_int_equal(mads_sent, 2);
	assert_int_equal(faccessat(dirfd, foreign, F_OK, 0), -1);
	close(dirfd);
	host_leave(h);
}

/* While it is set, the host that each close() finds. */
static struct host *forked_at_close;

/*
 * At once the program may open a file of that number, and another thread fork: the child, which
 * closes what is the parent's, must leave it open.
 */
int close(int fd)
{
	struct host *h = forked_at_close;
	int ret = (int)syscall(SYS_close, fd), status;
	pid_t pid;

	if (!h)
		return ret;
	forked_at_close = NULL;
	assert_int_equal(dup2(STDERR_FILENO, fd), fd);
	pid = fork();
	if (!pid) {
		host_forget(h);
		_exit(fcntl(fd, F_GETFD) < 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	syscall(SYS_close, fd);
	forked_at_close = h;
	return ret;
}

static void a_fork_while_exit_mads_are_sent_closes_no_file(void **state)
{
	struct host *h = join();

	in_child(die_with_exit_mads);
	assert_int_equal(host_reap(h), 1);
	mads_sent = 0;
	forked_at_close = h;
	assert_true(host_exit_mad_execute(h, send_all, NULL));
	forked_at_close = NULL;
	assert_int_equal(mads_sent, EXIT_MADS);
	host_leave(h);
}

enum { MANY_MADS = 500, CLEARED_EVERY = 5 };

/* Later records move the mapping of the earlier ones; each is written twice. */
static void die_with_many_exit_mads(void)
{
	struct host *h = join();
	uint8_t mad[HOST_MAD_LEN] = { 2 };

	for (uint32_t i = 0; i < MANY_MADS; i++)
		if (host_exit_mad_write(h, i, &some_path, mad))
			_exit(1);
	mad[0] = 1;
	for (uint32_t i = 0; i < MANY_MADS; i++)
		if (host_exit_mad_write(h, i, &some_path, i % CLEARED_EVERY ? mad : NULL))
			_exit(1);
	_exit(host_exit_mad_write(h, UINT32_MAX, &some_path, mad) != ENOSPC);
}

static void the_latest_exit_mads_are_executed(void **state)
{
	struct host *h = join();

	mads_sent = 0;
	in_child(die_with_many_exit_mads);
	assert_int_equal(host_reap(h), 1);
	assert_true(host_exit_mad_execute(h, send_all, NULL));
	assert_int_equal(mads_sent, MANY_MADS - MANY_MADS / CLEARED_EVERY);
	host_leave(h);
}

/* Each MAD has one value in all bytes. Writes until it is killed. */
static void rewrite_exit_mads_forever(void)
{
	struct host *h = join();
	uint8_t mad[HOST_MAD_LEN];

	for (uint32_t i = 0;; i++) {
		memset(mad, 1 + (int)(i % 200), sizeof(mad));
		if (host_exit_mad_write(h, i % EXIT_MADS, &some_path, i % 7 ? mad : NULL))
			_exit(1);
	}
}

static bool expect_whole(void *arg, const struct net_path *path, const uint8_t mad[HOST_MAD_LEN])
{
	for (unsigned int i = 0; i < HOST_MAD_LEN; i++)
		assert_int_equal(mad[i], mad[0]);
	assert_memory_equal(&path->src, &some_path.src, sizeof(path->src));
	assert_memory_equal(&path->dst, &some_path.dst, sizeof(path->dst));
	return true;
}

static void a_killed_process_leaves_whole_exit_mads(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();

	for (int round = 0; round < 30; round++) {
		pid_t pid = fork();

		if (!pid)
			rewrite_exit_mads_forever();
		usleep((useconds_t)(place_next(&seed) % 5000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		host_reap(h);
		assert_true(host_exit_mad_execute(h, expect_whole, NULL));
	}
	host_leave(h);
}

/* Joins, allocates and leaves in a loop until it is killed. */
static void join_and_leave_forever(void)
{
	for (;;) {
		struct host *h = join();
		uint32_t qpn;
		int i;

		for (i = 0; i < 600; i++)
			if (host_qpn_alloc(h, 0, &qpn))
				_exit(1);
		host_leave(h);
	}
}

static void killed_processes_are_reclaimed(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();
	struct table t;
	int round, slot, fd, status;
	uint32_t i, blocks = 0;

	for (round = 0; round < 30; round++) {
		pid_t pid = fork();

		if (!pid)
			join_and_leave_forever();
		usleep((useconds_t)(place_next(&seed) % 3000));
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		if (round % 3 == 0)
			host_reap(h);
	}
	host_reap(h);
	assert_int_equal(host_reap(h), 0);

	/* Nothing of the dead processes is left: no slot, no block, no file. */
	fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(table_open(&t, fd), 0);
	for (slot = 0; slot < HOST_SLOTS; slot++) {
		struct table_slot s;

		table_read_slot(&t, slot, &s);
		assert_int_equal(s.incarnation != 0, slot == host_slot(h));
	}
	for (i = 0; i < HOST_BLOCKS; i++)
		blocks += table_owner_of(&t, i) != HOST_NO_SLOT;
	assert_int_equal(blocks, 0);
	table_close(&t);
	close(fd);
	assert_int_equal(files_with_prefix("s"), 1);
	host_leave(h);
}

static void a_dead_owner_is_found_on_request(void **state)
{
	struct host *h = join();
	uint32_t qpn;
	int out[2];
	int status;

	assert_int_equal(pipe(out), 0);
	if (fork() == 0) {
		struct host *child = join();

		host_forget(h);
		if (host_qpn_alloc(child, 0, &qpn) || write(out[1], &qpn, sizeof(qpn)) < 0)
			_exit(1);
		_exit(0);
	}
	wait(&status);
	assert_int_equal(status, 0);
	assert_int_equal(read(out[0], &qpn, sizeof(qpn)), sizeof(qpn));
	assert_int_equal(host_owner(h, qpn), HOST_NO_SLOT);
	assert_int_equal(host_reap(h), 0);
	close(out[0]);
	close(out[1]);
	host_leave(h);
}

static void a_forked_child_leaves_the_parents_alone(void **state)
{
	struct host *h = join(), *other = join();
	uint32_t qpn;
	int status;

	assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
	if (fork() == 0) {
		host_forget(h);
		host_forget(other);
		_exit(0);
	}
	wait(&status);
	assert_int_equal(host_owner(other, qpn), host_slot(h));
	assert_int_equal(host_ring(other, host_slot(h), host_incarnation(h)), 0);
	host_leave(h);
	host_leave(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(two_processes_see_each_other),
		IN_DIR(an_unreadable_process_may_be_alive),
		IN_DIR(an_exiting_process_is_checked_again),
		IN_DIR(dead_processes_are_found_despite_lost_events),
		IN_DIR(pending_exit_mads_outlive_their_sender),
		IN_DIR(exit_mads_outlive_a_lack_of_descriptors),
		IN_DIR(exit_mads_of_a_long_life_are_executed),
		IN_DIR(a_fork_while_exit_mads_are_sent_closes_no_file),
		IN_DIR(the_latest_exit_mads_are_executed),
		IN_DIR(a_killed_process_leaves_whole_exit_mads),
		IN_DIR(killed_processes_are_reclaimed),
		IN_DIR(a_dead_owner_is_found_on_request),
		IN_DIR(a_forked_child_leaves_the_parents_alone),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
