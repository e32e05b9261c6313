/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many processes in one private run directory: numbers are unique, the dead are reclaimed, and
 * nothing in the directory can crash anybody.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "host/table.h"
#include "place.h"
#include "util/atomic.h"
#include "util/compiler.h"

static char dir[64];

static int set_up(void **state)
{
	place_make_dir(dir);
	return 0;
}

static int tear_down(void **state)
{
	place_remove_dir(dir);
	return 0;
}

static struct host *join(void)
{
	struct host *h;

	if (host_join(dir, &h))
		abort();
	return h;
}

static unsigned int files_with_prefix(const char *prefix)
{
	char command[128];
	unsigned int n = 99;
	FILE *f;

	snprintf(command, sizeof(command), "ls %s | grep -c ^%s", dir, prefix);
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

	assert_int_equal(host_qpn_alloc(b, &qpn), 0);
	assert_int_equal(host_owner(a, qpn), host_slot(b));
	assert_int_equal(host_owner(b, qpn), host_slot(b));
	host_leave(b);
	assert_int_equal(host_owner(a, qpn), HOST_NO_SLOT);
	assert_false(host_alive(a, 1, peer.incarnation));
	host_leave(a);
}

static void numbers_are_unique_and_come_back_late(void **state)
{
	struct host *h = join();
	static uint8_t seen[1 << 24];
	uint32_t qpn, first;
	unsigned int i;

	for (i = 0; i < 3000; i++) {
		assert_int_equal(host_qpn_alloc(h, &qpn), 0);
		assert_true(qpn > 1 && qpn < 0xffffff);
		assert_false(seen[qpn]++);
	}
	for (i = 0; i < 1 << 24; i++)
		if (seen[i])
			host_qpn_free(h, i);

	/* One at a time, the same number comes back only after all other spare ones. */
	assert_int_equal(host_qpn_alloc(h, &first), 0);
	host_qpn_free(h, first);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(host_qpn_alloc(h, &qpn), 0);
		assert_int_not_equal(qpn, first);
		host_qpn_free(h, qpn);
		host_qpn_free(h, qpn);
	}
	host_leave(h);
}

static void unused_blocks_are_given_back_and_rest(void **state)
{
	struct host *a = join(), *b = join();
	uint32_t qpn[4096];
	unsigned int i, owned = 0;

	for (i = 0; i < ARRAY_SIZE(qpn); i++)
		assert_int_equal(host_qpn_alloc(a, &qpn[i]), 0);
	for (i = 0; i < ARRAY_SIZE(qpn); i++)
		host_qpn_free(a, qpn[i]);
	for (i = 0; i < ARRAY_SIZE(qpn); i += 256)
		owned += host_owner(b, qpn[i]) == host_slot(a);
	assert_in_range(owned, 1, 6);
	host_leave(a);
	host_leave(b);
}

/* Random operations against a set. */
static void numbers_agree_with_an_oracle(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();
	static uint32_t held[5000];
	size_t n = 0;
	int i;

	for (i = 0; i < 60000; i++) {
		bool grow = place_next(&seed) % 8192 < (i / 10000 % 2 ? 3000u : 5200u);
		size_t k;

		if (grow && n < ARRAY_SIZE(held)) {
			assert_int_equal(host_qpn_alloc(h, &held[n++]), 0);
		} else if (n) {
			k = place_next(&seed) % n;
			host_qpn_free(h, held[k]);
			held[k] = held[--n];
		}
	}
	for (i = 0; (size_t)i < n; i++) {
		size_t j;

		for (j = (size_t)i + 1; j < n && i < 200; j++)
			assert_int_not_equal(held[i], held[j]);
		assert_int_equal(host_owner(h, held[i]), host_slot(h));
	}
	host_leave(h);
}

/* Shared with children: who holds which number. */
static uint8_t *taken;

enum { CHILDREN = 12, ROUNDS = 400 };

static void churn(uint64_t seed)
{
	struct host *h = join();
	uint32_t held[64];
	size_t n = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (n < ARRAY_SIZE(held) && place_next(&seed) % 3) {
			if (host_qpn_alloc(h, &held[n]))
				_exit(2);
			if (swap_acq_rel(&taken[held[n++]], 1))
				_exit(3);
		} else if (n) {
			store_release(&taken[held[--n]], 0);
			host_qpn_free(h, held[n]);
		}
	}
	while (n)
		store_release(&taken[held[--n]], 0);
	host_leave(h);
	_exit(0);
}

static void many_processes_never_share_a_number(void **state)
{
	uint64_t seed = place_seed();
	int i, status;

	taken = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		     -1, 0);
	assert_true(taken != MAP_FAILED);
	for (i = 0; i < CHILDREN; i++)
		if (fork() == 0)
			churn(seed + (uint64_t)i);
	for (i = 0; i < CHILDREN; i++) {
		wait(&status);
		assert_int_equal(status, 0);
	}
	munmap(taken, 1 << 24);
}

/* Joins, works and leaves over and over until it is killed. */
static void live_dangerously(void)
{
	for (;;) {
		struct host *h = join();
		uint32_t qpn;
		int i;

		for (i = 0; i < 600; i++)
			if (host_qpn_alloc(h, &qpn))
				_exit(1);
		host_leave(h);
	}
}

static void the_killed_are_reclaimed(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();
	struct table t;
	int round, slot, fd, status;
	uint32_t i, blocks = 0;

	for (round = 0; round < 30; round++) {
		pid_t pid = fork();

		if (!pid)
			live_dangerously();
		usleep((useconds_t)(place_next(&seed) % 3000));
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		if (round % 3 == 0)
			host_janitor(h);
	}
	host_janitor(h);
	assert_int_equal(host_janitor(h), 0);

	/* Nothing of the dead is left: no slot, no block, no file. */
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

static void a_dead_owner_is_found_by_asking(void **state)
{
	struct host *h = join();
	uint32_t qpn;
	int out[2];
	int status;

	assert_int_equal(pipe(out), 0);
	if (fork() == 0) {
		struct host *child = join();

		host_forget(h);
		if (host_qpn_alloc(child, &qpn) || write(out[1], &qpn, sizeof(qpn)) < 0)
			_exit(1);
		_exit(0);
	}
	wait(&status);
	assert_int_equal(status, 0);
	assert_int_equal(read(out[0], &qpn, sizeof(qpn)), sizeof(qpn));
	assert_int_equal(host_owner(h, qpn), HOST_NO_SLOT);
	assert_int_equal(host_janitor(h), 0);
	close(out[0]);
	close(out[1]);
	host_leave(h);
}

static void a_forked_child_leaves_the_parents_alone(void **state)
{
	struct host *h = join(), *other = join();
	uint32_t qpn;
	int status;

	assert_int_equal(host_qpn_alloc(h, &qpn), 0);
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

static void write_table(const void *buf, size_t len, off_t at)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/table", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && pwrite(fd, buf, len, at) == (ssize_t)len);
	close(fd);
}

static void cut_table(off_t size)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/table", dir);
	assert_int_equal(truncate(path, size), 0);
}

/* Everything once, in whatever state the table is. */
static void exercise(struct host *h)
{
	struct net_steer map[64];
	struct net_path path = { 0 };
	struct host_peer peer;
	uint32_t qpn;
	int i;

	for (i = 0; i < 300; i++)
		if (host_qpn_alloc(h, &qpn) == 0 && i % 2)
			host_qpn_free(h, qpn);
	for (i = 0; i < 64; i++) {
		qpn = (uint32_t)i * 262143;
		host_owner(h, qpn);
		host_hand(h, qpn, &path, "x", 1);
		host_peer(h, i * 17, &peer);
		host_ring(h, i * 17, 1);
	}
	host_publish_wire(h, 4791, (int32_t[2]){ 0, 0 });
	assert_in_range(host_steer_map(h, map, ARRAY_SIZE(map)), 0, ARRAY_SIZE(map));
	host_janitor(h);
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
		/* Nobody lives: it is made anew. */
		write_table(noise, sizeof(noise), 0);
		a = join();
		assert_true(host_shared(a));
		exercise(a);
		/* Somebody lives: what is behind the header is noise under the feet of both. */
		b = join();
		write_table(noise, sizeof(noise) - 4096, 4096);
		exercise(a);
		exercise(b);
		/* The header, too: a newcomer stays private. */
		write_table(noise, 4096, 0);
		host_leave(b);
		b = join();
		assert_false(host_shared(b));
		exercise(b);
		cut_table(0);
		exercise(a);
		host_leave(a);
		host_leave(b);
	}
}

static void a_short_table_is_made_anew(void **state)
{
	struct host *h = join();

	host_leave(h);
	cut_table(5000);
	h = join();
	assert_true(host_shared(h));
	exercise(h);
	host_leave(h);
}

static void another_version_is_left_alone(void **state)
{
	struct table_header other = { TABLE_MAGIC, TABLE_VERSION + 1, 1, 1, 1, 1, 0 };
	struct host *h;
	uint32_t qpn;

	write_table(&other, sizeof(other), 0);
	h = join();
	assert_false(host_shared(h));
	assert_int_equal(host_slot(h), HOST_NO_SLOT);
	assert_int_equal(host_inbox_fd(h), -1);
	assert_int_equal(host_qpn_alloc(h, &qpn), 0);
	assert_true(host_incarnation(h) != 0);
	exercise(h);
	host_leave(h);
}

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

	chmod(dir, 0750);
	must_be_private();
	chmod(dir, 0700);

	/* A link to one that would be right. */
	snprintf(real, sizeof(real), "%s.real", dir);
	assert_int_equal(rename(dir, real), 0);
	assert_int_equal(symlink(real, dir), 0);
	must_be_private();
	unlink(dir);
	rename(real, dir);

	if (geteuid())
		return;
	assert_int_equal(chown(dir, 4242, 0), 0);
	must_be_private();
	assert_int_equal(chown(dir, 0, 0), 0);
}

static void a_file_in_its_place_is_refused(void **state)
{
	int fd;

	rmdir(dir);
	fd = open(dir, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
	must_be_private();
	close(fd);
	unlink(dir);
	mkdir(dir, 0700);
}

static void a_missing_directory_is_made(void **state)
{
	struct stat st;
	struct host *h;

	rmdir(dir);
	h = join();
	assert_true(host_shared(h));
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	host_leave(h);
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

/* No room for the table: in a file system of one page. */
static void join_in_full_directory(void)
{
	struct host *h;
	uint32_t qpn;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", dir, "tmpfs", 0, "size=64k,mode=0700") < 0)
		_exit(SKIP);
	h = join();
	if (host_shared(h) || host_qpn_alloc(h, &qpn))
		_exit(1);
	host_leave(h);
}

static void a_full_directory_means_private(void **state)
{
	int status = in_child(join_in_full_directory);

	if (status == SKIP)
		skip();
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

static void a_stopped_holder_of_the_lock_does_not_hang_others(void **state)
{
	struct host *h = join(), *b;
	struct table t;
	uint32_t qpn;
	int fd;

	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(table_open(&t, fd), 0);
	assert_int_equal(table_lock(&t), 0);
	b = join();
	assert_false(host_shared(b));
	assert_int_equal(host_qpn_alloc(h, &qpn), EBUSY);
	table_unlock(&t);
	assert_int_equal(host_qpn_alloc(h, &qpn), 0);
	table_close(&t);
	close(fd);
	host_leave(h);
	host_leave(b);
}

static const struct net_path some_path = {
	.src.raw = { 0xfe, 0x80, [15] = 1 },
	.dst.raw = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
	.ifindex = 3,
	.flow_label = 0xabcde,
	.src_port = 0xc123,
	.dst_port = 4791,
	.traffic_class = 0x6b,
	.hop_limit = 63,
	.sl = 5,
};

static void packets_are_handed_over_whole(void **state)
{
	static uint8_t packet[HOST_PACKET_MAX + 1], buf[HOST_PACKET_MAX];
	const size_t lens[] = { 0, 1, 16, 4200, HOST_PACKET_MAX };
	struct host *a = join(), *b = join();
	struct net_path path;
	uint32_t qpn, mine;
	size_t i, len;

	for (i = 0; i < sizeof(packet); i++)
		packet[i] = (uint8_t)(i * 7);
	assert_int_equal(host_qpn_alloc(b, &qpn), 0);
	assert_int_equal(host_qpn_alloc(a, &mine), 0);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		assert_int_equal(host_hand(a, qpn, &some_path, packet, lens[i]), 0);
		assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_PACKET);
		assert_int_equal(len, lens[i]);
		assert_memory_equal(buf, packet, len);
		assert_memory_equal(&path, &some_path, sizeof(path));
	}
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_NOTHING);
	assert_int_equal(host_hand(a, qpn, &some_path, packet, sizeof(packet)), EMSGSIZE);
	assert_int_equal(host_hand(a, mine, &some_path, packet, 1), ENOENT);
	host_leave(b);
	assert_int_equal(host_hand(a, qpn, &some_path, packet, 1), ENOENT);
	host_leave(a);
}

static void a_full_inbox_is_told_and_does_not_block(void **state)
{
	struct host *a = join(), *b = join();
	struct net_path path;
	static uint8_t buf[HOST_PACKET_MAX];
	unsigned int sent = 0, got = 0;
	uint32_t qpn;
	size_t len;
	int err = 0;

	assert_int_equal(host_qpn_alloc(b, &qpn), 0);
	while (!err && sent < 100000) {
		err = host_hand(a, qpn, &some_path, buf, 100);
		sent += !err;
	}
	assert_int_equal(err, EAGAIN);
	assert_int_equal(host_hand(a, qpn, &some_path, buf, 100), EAGAIN);
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	while (host_inbox_recv(b, &path, buf, &len) != HOST_NOTHING)
		got++;
	assert_int_equal(got, sent);
	assert_int_equal(host_hand(a, qpn, &some_path, buf, 100), 0);
	host_leave(a);
	host_leave(b);
}

static void messages_arrive_whole_and_in_order(void **state)
{
	static uint8_t big[HOST_PACKET_MAX], buf[HOST_PACKET_MAX];
	struct host *a = join(), *b = join();
	const struct iovec parts[] = { { (void *)"one", 3 }, { NULL, 0 }, { (void *)"two", 3 }, { big, 1000 } };
	const struct iovec too_long[] = { { big, sizeof(big) }, { (void *)"x", 1 } };
	uint64_t to = host_incarnation(b);
	int slot = host_slot(b);
	struct net_path path;
	size_t len;

	assert_int_equal(host_tell(a, slot, to, parts, 4), 0);
	assert_int_equal(host_tell(a, slot, to, parts, 1), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_MESSAGE);
	assert_int_equal(len, 1006);
	assert_memory_equal(buf, "onetwo", 6);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_MESSAGE);
	assert_int_equal(len, 3);
	assert_int_equal(host_tell(a, slot, to, too_long, 1), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_MESSAGE);
	assert_int_equal(len, sizeof(big));
	assert_int_equal(host_tell(a, slot, to, too_long, 2), EMSGSIZE);
	assert_int_equal(host_tell(a, slot, to + 1, parts, 1), ENOENT);
	host_leave(b);
	assert_int_equal(host_tell(a, slot, to, parts, 1), ENOENT);
	host_leave(a);
}

/* A number that has a block for itself moves from process to process, and with it whom packets are handed to. */
static void a_number_alone_can_be_taken_over(void **state)
{
	struct host *a = join(), *b = join(), *c = join();
	static uint8_t buf[HOST_PACKET_MAX];
	struct net_path path;
	uint32_t qpn, other;
	size_t len;

	assert_int_equal(host_qpn_alloc_alone(a, &qpn), 0);
	assert_int_equal(host_qpn_alloc_alone(a, &other), 0);
	assert_int_not_equal(qpn >> HOST_BLOCK_BITS, other >> HOST_BLOCK_BITS);
	assert_int_equal(host_owner(c, qpn), host_slot(a));
	assert_int_equal(host_qpn_take(b, qpn, host_slot(c)), EINVAL);
	assert_int_equal(host_qpn_take(b, qpn, host_slot(a)), 0);
	assert_true(host_qpn_mine(b, qpn));
	assert_false(host_qpn_mine(a, qpn));
	host_qpn_free(a, qpn);
	assert_int_equal(host_owner(a, qpn), host_slot(b));
	assert_int_equal(host_owner(b, qpn), host_slot(b));
	assert_int_equal(host_hand(c, qpn, &some_path, buf, 8), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_PACKET);
	/* And back, while the first owner has not let go of it. */
	assert_int_equal(host_qpn_take(a, qpn, host_slot(b)), 0);
	assert_int_equal(host_owner(b, qpn), host_slot(a));
	assert_int_equal(host_qpn_take(b, qpn, host_slot(a)), 0);
	assert_int_equal(host_owner(a, qpn), host_slot(b));
	host_qpn_free(b, qpn);
	assert_int_equal(host_owner(c, qpn), HOST_NO_SLOT);
	host_leave(a);
	assert_int_equal(host_owner(c, other), HOST_NO_SLOT);
	host_leave(b);
	host_leave(c);
}

/* A mark is there while anybody has it. */
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

static void doorbells_wake(void **state)
{
	struct host *a = join(), *b = join();
	struct pollfd p = { .fd = host_inbox_fd(b), .events = POLLIN };
	struct net_path path;
	static uint8_t buf[HOST_PACKET_MAX];
	size_t len;

	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b) + 1), ENOENT);
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_DOORBELL);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_NOTHING);
	host_leave(a);
	host_leave(b);
}

static void noise_in_the_inbox_is_garbage(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	static uint8_t noise[12000], buf[HOST_PACKET_MAX];
	const size_t lens[] = { 0, 1, 63, 64, 65, 9000, 9280, 9281, 12000 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct net_path path;
	char name[32];
	size_t i, j, len;

	host_file_name(host_slot(h), "sock", name);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", dir, name);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		for (j = 0; j < sizeof(noise); j++)
			noise[j] = (uint8_t)place_next(&seed);
		/* Half of them with the right magic. */
		if (i % 2)
			memcpy(noise, "\x31\x42\x52\x56", 4);
		assert_int_equal(sendto(fd, noise, lens[i], 0, (struct sockaddr *)&sun, sizeof(sun)),
				 lens[i]);
		assert_int_equal(host_inbox_recv(h, &path, buf, &len), HOST_GARBAGE);
	}
	close(fd);
	host_leave(h);
}

static void a_long_directory_name_works(void **state)
{
	char longer[256];
	struct host *a, *b;

	snprintf(longer, sizeof(longer), "%s/%0120d", dir, 7);
	assert_int_equal(host_join(longer, &a), 0);
	assert_int_equal(host_join(longer, &b), 0);
	assert_true(host_shared(a) && host_shared(b));
	assert_int_equal(host_ring(a, host_slot(b), host_incarnation(b)), 0);
	host_leave(a);
	host_leave(b);
	place_remove_dir(longer);
}

static void steering_map_has_those_of_the_same_port(void **state)
{
	struct host *h[3] = { join(), join(), join() };
	struct net_steer map[16];
	uint32_t qpn[3];
	size_t n, i;

	for (i = 0; i < 3; i++)
		assert_int_equal(host_qpn_alloc(h[i], &qpn[i]), 0);
	assert_int_equal(host_steer_map(h[0], map, ARRAY_SIZE(map)), 0);
	host_publish_wire(h[0], 4791, (int32_t[2]){ 5, -1 });
	host_publish_wire(h[1], 4791, (int32_t[2]){ 6, 2 });
	host_publish_wire(h[2], 4792, (int32_t[2]){ 7, 7 });
	n = host_steer_map(h[0], map, ARRAY_SIZE(map));
	assert_int_equal(n, 2);
	assert_true(map[0].block < map[1].block);
	for (i = 0; i < n; i++) {
		bool first = map[i].block == qpn[0] >> 8;

		assert_int_equal(map[i].block, qpn[!first] >> 8);
		assert_int_equal(map[i].index[0], first ? 5 : 6);
		assert_int_equal(map[i].index[1], first ? -1 : 2);
	}
	assert_int_equal(host_steer_map(h[0], map, 1), 1);
	for (i = 0; i < 3; i++)
		host_leave(h[i]);
}

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(two_processes_see_each_other),
		IN_DIR(numbers_are_unique_and_come_back_late),
		IN_DIR(unused_blocks_are_given_back_and_rest),
		IN_DIR(numbers_agree_with_an_oracle),
		IN_DIR(many_processes_never_share_a_number),
		IN_DIR(the_killed_are_reclaimed),
		IN_DIR(a_dead_owner_is_found_by_asking),
		IN_DIR(a_forked_child_leaves_the_parents_alone),
		IN_DIR(garbage_is_survived),
		IN_DIR(a_short_table_is_made_anew),
		IN_DIR(another_version_is_left_alone),
		IN_DIR(a_directory_others_can_use_is_refused),
		IN_DIR(a_file_in_its_place_is_refused),
		IN_DIR(a_missing_directory_is_made),
		IN_DIR(a_full_directory_means_private),
		IN_DIR(a_file_size_limit_does_not_kill),
		IN_DIR(a_stopped_holder_of_the_lock_does_not_hang_others),
		IN_DIR(packets_are_handed_over_whole),
		IN_DIR(a_full_inbox_is_told_and_does_not_block),
		IN_DIR(doorbells_wake),
		IN_DIR(messages_arrive_whole_and_in_order),
		IN_DIR(marks_end_with_their_last_holder),
		IN_DIR(a_number_alone_can_be_taken_over),
		IN_DIR(noise_in_the_inbox_is_garbage),
		IN_DIR(a_long_directory_name_works),
		IN_DIR(steering_map_has_those_of_the_same_port),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
