/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes on one host, with and without an obstacle to the shared memory between them. In
 * each case every operation must succeed, on the path that the table gives.
 *
 *	argument	the obstacle					the path
 *	PLAIN		none						shared memory
 *	VERSION		segments have another layout version		packets
 *	CORRUPT		segments have no valid magic number		packets
 *	NETNS		segments belong to another network namespace	packets
 *	BLOCKED		directories have the segments' names		packets
 *	PIDNS		one process has a PID namespace of its own	packets
 *	FULL		the file system gets full, at different points	either
 *	FSIZE		no file may be as long as a segment		packets
 *	REFUSED		the kernel refuses process_vm_*			shared memory, copied
 *	HALF		it refuses them to one of the two		shared memory
 *	MIDWAY		it begins to refuse them			shared memory, then copied
 *	UNDUMPABLE	both processes begin to forbid them		shared memory, then copied
 *	DROPPED		and lose the right to the run directory		shared memory, then copied
 *	CPU		none; the target waits in a system call		shared memory; it does
 *									not wake up
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/layout.h"
#include "rc.h"

enum {
	HALF = 160 * 1024,
	BUFFER = 2 * HALF,
	TIMEOUT = 14,
	RETRIES = 7,
	ROUNDS = 20,
	EXIT_SKIP = 77,
};

static const uint32_t sizes[] = { 1, 8, 100, 2048, 5000, 8191, 8192, 65536, HALF };

static void skip(const char *why)
{
	printf("skip: %s: %s\n", why, strerror(errno));
	exit(EXIT_SKIP);
}

/* ---- the segments in the run directory ---- */

typedef int (*segment_fn)(const char *path, int fd);

/* Calls fn() for each segment; returns the sum of its results. */
static int for_each_segment(segment_fn fn)
{
	const char *dir = getenv("VERBENA_DIR");
	struct dirent *entry;
	DIR *d = opendir(dir);
	int sum = 0;

	CHECK(d);
	while ((entry = readdir(d))) {
		size_t len = strlen(entry->d_name);
		char path[512];
		int fd;

		if (len < 4 || strcmp(entry->d_name + len - 4, ".seg") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		fd = open(path, O_RDWR);
		if (fd < 0)
			continue;
		sum += fn(path, fd);
		close(fd);
	}
	closedir(d);
	return sum;
}

static int count_lanes(const char *path, int fd)
{
	struct seg_header h;
	int n = 0;

	if (pread(fd, &h, sizeof(h), 0) != sizeof(h))
		return 0;
	for (size_t i = 0; i < SEG_PEERS / 64; i++)
		n += __builtin_popcountll(h.claimed[i]);
	return n;
}

static void write_word(int fd, size_t offset, uint32_t value)
{
	CHECK(pwrite(fd, &value, sizeof(value), offset) == sizeof(value));
}

static int spoil_version(const char *path, int fd)
{
	write_word(fd, offsetof(struct seg_header, layout), SEG_LAYOUT + 1);
	return 1;
}

static int spoil_magic(const char *path, int fd)
{
	write_word(fd, offsetof(struct seg_header, magic), 0x12345678);
	return 1;
}

static int spoil_netns(const char *path, int fd)
{
	write_word(fd, offsetof(struct seg_header, netns), 0x12345678);
	return 1;
}

static void occupy_names(void)
{
	for (int slot = 0; slot < 8; slot++) {
		char path[512];

		snprintf(path, sizeof(path), "%s/s%04d.seg", getenv("VERBENA_DIR"), slot);
		CHECK(mkdir(path, 0700) == 0);
	}
}

/* ---- the obstacles ---- */

/* From here on process_vm_readv and process_vm_writev fail with EPERM, in all threads. */
static void refuse_attach(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog))
		skip("no seccomp filters");
}

/* From here on only root may access this process's memory. */
static void forbid_attach(void)
{
	CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

/* As if both processes had dropped the privileges with which they made the directory. */
static void drop_rights(void)
{
	CHECK(chmod(getenv("VERBENA_DIR"), 0) == 0);
	forbid_attach();
}

static void limit_file_size(void)
{
	struct rlimit limit = { 16 << 20, 16 << 20 };

	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		skip(path);
	close(fd);
}

static void enter_namespaces(int flags)
{
	unsigned int uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | flags))
		skip("no user namespaces");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
}

static void small_run_dir(unsigned int kib)
{
	char options[64];

	snprintf(options, sizeof(options), "size=%uk,mode=0700", kib);
	if (mount("verbena", getenv("VERBENA_DIR"), "tmpfs", 0, options))
		skip("mount");
}

/* ---- traffic ---- */

static void fill(char *p, uint32_t len, unsigned int salt)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (char)(i * 7 + i / 251 + salt);
}

static void expect_pattern(const char *p, uint32_t len, unsigned int salt)
{
	for (uint32_t i = 0; i < len; i++)
		CHECK(p[i] == (char)(i * 7 + i / 251 + salt));
}

static void expect_success(struct rc *rc, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = rc_wait(rc);

	if (wc.status != IBV_WC_SUCCESS)
		printf("%s (vendor 0x%x)\n", ibv_wc_status_str(wc.status), wc.vendor_err);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == opcode);
}

/* Writes a pattern to the second half of the peer's buffer and reads it back. */
static void write_and_read(struct rc *rc, const struct rc_addr *peer, uint32_t len,
			   unsigned int salt)
{
	struct rc_addr there = *peer;

	there.addr += HALF;
	fill(rc->buf, len, salt);
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_RDMA_WRITE, len, &there, 1) == 0);
	expect_success(rc, IBV_WC_RDMA_WRITE);
	memset(rc->buf, 0, len);
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_RDMA_READ, len, &there, 2) == 0);
	expect_success(rc, IBV_WC_RDMA_READ);
	expect_pattern(rc->buf, len, salt);
}

/* Posts requests of all lengths at once: some are in flight when the kernel refuses the first. */
static void send_all_sizes(struct rc *rc, int sock, const struct rc_addr *peer)
{
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };

	fill(rc->buf, HALF, 1);
	rc_barrier(sock); /* the receives are posted */
	for (int i = 0; i < N; i++)
		CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, sizes[N - 1 - i], peer, i) == 0);
	for (int i = 0; i < N; i++)
		expect_success(rc, IBV_WC_SEND);
	rc_barrier(sock);
}

static void receive_all_sizes(struct rc *rc, int sock)
{
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };

	for (int i = 0; i < N; i++)
		rc_post_recv(rc, rc->qp, i);
	rc_barrier(sock);
	for (int i = 0; i < N; i++) {
		struct ibv_wc wc = rc_wait(rc);

		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
		CHECK(wc.wr_id == (uint64_t)i && wc.byte_len == sizes[N - 1 - i]);
	}
	expect_pattern(rc->buf, HALF, 1);
	rc_barrier(sock);
}

static void request(struct rc *rc, int sock, const struct rc_addr *peer, void (*midway)(void))
{
	uint64_t count = 0;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint32_t len = sizes[round % (sizeof(sizes) / sizeof(sizes[0]))];

		if (round == ROUNDS / 2 && midway)
			midway();
		if (round == ROUNDS / 2)
			send_all_sizes(rc, sock, peer);
		write_and_read(rc, peer, len, round);
		fill(rc->buf, len, round + 100);
		rc_barrier(sock); /* the receive is posted */
		CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, len, peer, 3) == 0);
		expect_success(rc, IBV_WC_SEND);
		rc_barrier(sock); /* and checked */
		CHECK(rc_post_fetch_add(rc, rc->qp, 3, peer, 4) == 0);
		expect_success(rc, IBV_WC_FETCH_ADD);
		memcpy(&count, rc->buf, sizeof(count));
		CHECK(count == 0);
	}
}

static void respond(struct rc *rc, int sock, void (*midway)(void))
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint32_t len = sizes[round % (sizeof(sizes) / sizeof(sizes[0]))];
		uint64_t count = 0;

		if (round == ROUNDS / 2 && midway)
			midway();
		if (round == ROUNDS / 2)
			receive_all_sizes(rc, sock);
		rc_post_recv(rc, rc->qp, round);
		rc_barrier(sock);
		expect_success(rc, IBV_WC_RECV);
		expect_pattern(rc->buf, len, round + 100);
		memcpy(rc->buf, &count, sizeof(count));
		rc_barrier(sock);
	}
}

struct scenario {
	const char *name;
	segment_fn spoil;     /* applied to all segments before another process maps them */
	int lanes;            /* lanes are: 1 used, 0 not used, -1 either */
	bool refuse[2];       /* process_vm_* fail at the responder, the requester */
	void (*midway)(void); /* both call it in the middle */
};

static void run_side(const struct scenario *scenario, int sock, bool requests)
{
	struct rc_addr peer;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	if (scenario->refuse[requests])
		refuse_attach();
	rc_open(&rc, BUFFER);
	rc_barrier(sock);
	if (requests && scenario->spoil)
		CHECK(for_each_segment(scenario->spoil) > 0);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	if (requests)
		request(&rc, sock, &peer, scenario->midway);
	else
		respond(&rc, sock, scenario->midway);
	rc_barrier(sock);
	if (requests && scenario->lanes >= 0)
		CHECK((for_each_segment(count_lanes) > 0) == scenario->lanes);
	rc_barrier(sock);
	rc_close(&rc);
}

static int wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status))
		printf("ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_pair(const struct scenario *scenario)
{
	int sock[2], first, second;
	pid_t a, b;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	fflush(NULL);
	a = fork();
	if (a == 0) {
		close(sock[0]);
		run_side(scenario, sock[1], false);
		exit(0);
	}
	if (strcmp(scenario->name, "PIDNS") == 0) {
		enter_namespaces(CLONE_NEWPID);
		fflush(NULL);
	}
	b = fork();
	if (b == 0) {
		close(sock[1]);
		run_side(scenario, sock[0], true);
		exit(0);
	}
	close(sock[0]);
	close(sock[1]);
	CHECK(a > 0 && b > 0);
	second = wait_for(b);
	first = wait_for(a);
	return second ? second : first;
}

/*
 * The sizes leave no room for the first segment, the second one, the keys or a lane. Two processes
 * cannot share a UDP port without the host's table (docs/HOST.md), so the smallest size has room
 * for that and for the files that describe the devices.
 */
static int run_full(const struct scenario *scenario)
{
	for (unsigned int kib = 1500; kib < 4600; kib += 150) {
		pid_t pid;
		int status;

		fflush(NULL);
		pid = fork();
		if (pid == 0) {
			enter_namespaces(CLONE_NEWNS);
			small_run_dir(kib);
			exit(run_pair(scenario));
		}
		status = wait_for(pid);
		if (status) {
			printf("%u KiB\n", kib);
			return status;
		}
	}
	return 0;
}

/* ---- CPU: the target does not wake up ---- */

struct usage {
	unsigned long switches, ticks;
};

static struct usage usage_of(pid_t pid)
{
	struct usage u = { 0 };
	char path[64], line[512];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	CHECK(tasks);
	while ((entry = readdir(tasks))) {
		unsigned long n, user, system;
		char name[512];
		FILE *f;

		snprintf(name, sizeof(name), "%s/%s/status", path, entry->d_name);
		f = entry->d_name[0] == '.' ? NULL : fopen(name, "r");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				u.switches += n;
		if (f)
			fclose(f);
		snprintf(name, sizeof(name), "%s/%s/stat", path, entry->d_name);
		f = entry->d_name[0] == '.' ? NULL : fopen(name, "r");
		if (f && fgets(line, sizeof(line), f) &&
		    sscanf(strrchr(line, ')') + 1,
			   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			   &system) == 2)
			u.ticks += user + system;
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return u;
}

static void run_one_sided(struct rc *rc, const struct rc_addr *peer, int n)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	for (int i = 0; i < n; i++) {
		if (i % 3 == 2)
			CHECK(rc_post_fetch_add(rc, rc->qp, 1, peer, i) == 0);
		else
			CHECK(rc_post_send(rc, rc->qp, ops[i % 3], 64, peer, i) == 0);
		CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
	}
}

static int run_idle_target(void)
{
	/*
	 * A wake-up for every thousandth operation would be 150 switches. Other causes of wake-ups,
	 * such as an address that changes, are rare.
	 */
	enum { FEW = 300, MANY = 150000, SWITCHES = 10, TICKS = 2 };
	struct usage before, after;
	struct rc_addr peer;
	struct rc rc;
	int sock[2];
	pid_t target;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	target = fork();
	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		rc_open(&rc, BUFFER);
		rc_pair(&rc, sock[1], &peer, TIMEOUT, RETRIES);
		rc_barrier(sock[1]); /* the requester is done */
		rc_close(&rc);
		exit(0);
	}
	rc_open(&rc, BUFFER);
	rc_pair(&rc, sock[0], &peer, TIMEOUT, RETRIES);
	run_one_sided(&rc, &peer, FEW);
	before = usage_of(target);
	run_one_sided(&rc, &peer, MANY);
	after = usage_of(target);
	printf("%d operations: %lu switches, %lu ticks at the target\n", MANY,
	       after.switches - before.switches, after.ticks - before.ticks);
	CHECK(after.switches - before.switches <= SWITCHES);
	CHECK(after.ticks - before.ticks <= TICKS);
	rc_barrier(sock[0]);
	rc_close(&rc);
	return wait_for(target);
}

static const struct scenario scenarios[] = {
	{ "PLAIN", NULL, 1, { false, false } },
	{ "VERSION", spoil_version, 0, { false, false } },
	{ "CORRUPT", spoil_magic, 0, { false, false } },
	{ "NETNS", spoil_netns, 0, { false, false } },
	{ "BLOCKED", NULL, 0, { false, false } },
	{ "PIDNS", NULL, 0, { false, false } },
	{ "FULL", NULL, -1, { false, false } },
	{ "FSIZE", NULL, 0, { false, false } },
	{ "REFUSED", NULL, 1, { true, true } },
	{ "HALF", NULL, 1, { false, true } },
	{ "MIDWAY", NULL, 1, { false, false }, refuse_attach },
	{ "UNDUMPABLE", NULL, 1, { false, false }, forbid_attach },
	{ "DROPPED", NULL, -1, { false, false }, drop_rights },
};

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "PLAIN";
	int status = 2;

	alarm(RC_LIMIT_S);
	if (strcmp(what, "CPU") == 0)
		return run_idle_target();
	if (strcmp(what, "BLOCKED") == 0)
		occupy_names();
	if (strcmp(what, "FSIZE") == 0)
		limit_file_size();
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (strcmp(what, scenarios[i].name) == 0)
			status = strcmp(what, "FULL") == 0 ? run_full(&scenarios[i])
							   : run_pair(&scenarios[i]);
	if (strcmp(what, "DROPPED") == 0)
		CHECK(chmod(getenv("VERBENA_DIR"), 0700) == 0);
	if (status == 1)
		printf("%s failed\n", what);
	return status;
}
