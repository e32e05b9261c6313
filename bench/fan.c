/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process sends to many hosts, each a process in a network namespace of its own (bridged.py).
 *
 *	fan SIZE COUNT QPS DIR NETNS NETNS...	COUNT WRITEs of SIZE bytes, on QPS queue pairs in
 *						turn, from a process in the first namespace to those
 *						in the others, which have QPS / hosts each
 *
 * DIR gets a run directory for each host. Neighbouring queue pairs lead to different hosts, and the
 * targets sleep. Prints of the sender: queue pairs connected per second; resident bytes for each of
 * them; nanoseconds per message that passed; nanoseconds per message of its CPU time.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum {
	WINDOW = 16,	/* requests in flight, all queue pairs together */
	HOSTS_MAX = 256,
	QPS_MAX = 20000,
	LIMIT_S = 240,
};

static struct side side;
static struct ibv_qp *qp[QPS_MAX];
static struct address peer[QPS_MAX];
static int sock[HOSTS_MAX];
static size_t size;
static long count;
static int qps, hosts;

/* One of the two clocks: what passes, or what this process uses of the CPUs. */
static double clock_s(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static long resident(void)
{
	long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
		fail("/proc/self/statm");
	fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

static void send_all(int fd, const void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);

		if (n <= 0)
			fail("writing to the peer");
		done += n;
	}
}

static void receive_all(int fd, void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = read(fd, (char *)data + done, len - done);

		if (n <= 0)
			fail("reading from the peer");
		done += n;
	}
}

/* Becomes a host: its namespace, its run directory, and its device. */
static void begin(const char *netns, const char *dir, int host)
{
	char path[4096];
	int fd = open(netns, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(netns);
	close(fd);
	snprintf(path, sizeof(path), "%s/%d", dir, host);
	if (mkdir(path, 0700))
		fail(path);
	setenv("VERBENA_DIR", path, 1);
	side.opt = (struct options){ .ib_port = 1, .gid_index = -1 };
	open_device(&side);
	create_objects(&side, size);
}

static struct address own_address(int i)
{
	return (struct address){
		.addr = (uintptr_t)side.buf, .rkey = side.mr->rkey, .qpn = qp[i]->qp_num,
		.lid = side.port.lid, .gid = side.gid,
	};
}

static void connect_one(int i)
{
	move_to_rtr(&side, qp[i], &peer[i]);
	move_to_rts(qp[i]);
}

/* The queue pairs i with i % hosts == host are those to one host. */
static void send_addresses(int host)
{
	for (int i = host; i < qps; i += hosts) {
		struct address own = own_address(i);

		send_all(sock[host], &own, sizeof(own));
	}
}

static void receive_addresses(int host)
{
	for (int i = host; i < qps; i += hosts)
		receive_all(sock[host], &peer[i], sizeof(peer[i]));
}

static void synchronise(int host)
{
	char c = 'x';

	send_all(sock[host], &c, 1);
	receive_all(sock[host], &c, 1);
}

static void target(const char *netns, const char *dir, int host)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin(netns, dir, host);
	for (int i = host; i < qps; i += hosts)
		qp[i] = create_qp(&side, NULL);
	send_addresses(host);
	receive_addresses(host);
	for (int i = host; i < qps; i += hosts)
		connect_one(i);
	synchronise(host);
	receive_all(sock[host], &c, 1);	/* the sender has finished */
	_exit(0);
}

static void start_targets(char **netns, const char *dir)
{
	for (int host = 0; host < hosts; host++) {
		int both[2];
		pid_t child;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both))
			fail("socketpair");
		child = fork();
		if (child < 0)
			fail("fork");
		sock[host] = both[child == 0];
		if (child == 0)
			target(netns[host], dir, host);
		close(both[1]);
	}
}

static int completions(void)
{
	struct ibv_wc wc[WINDOW];
	int n = ibv_poll_cq(side.cq, WINDOW, wc);

	if (n < 0)
		fail("ibv_poll_cq");
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "%s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
	return n;
}

/* Each queue pair is used at least once before anything is measured. */
static void request(long n)
{
	long posted = 0;

	for (long done = 0; done < n; done += completions())
		for (; posted < n && posted < done + WINDOW; posted++)
			post_request(&side, qp[posted % qps], IBV_WR_RDMA_WRITE, size,
				     &peer[posted % qps]);
}

int main(int argc, char **argv)
{
	double started, connected, passed, used;
	long before, memory;

	if (argc < 7 || argc - 6 > HOSTS_MAX)
		return 2;
	size = strtoul(argv[1], NULL, 0);
	count = strtol(argv[2], NULL, 0);
	qps = atoi(argv[3]);
	hosts = argc - 6;
	if (size == 0 || count <= 0 || qps < hosts || qps > QPS_MAX)
		return 2;
	alarm(LIMIT_S);
	start_targets(argv + 6, argv[4]);
	begin(argv[5], argv[4], hosts);
	for (int host = 0; host < hosts; host++)
		receive_addresses(host);

	before = resident();
	started = clock_s(CLOCK_MONOTONIC);
	for (int i = 0; i < qps; i++) {
		qp[i] = create_qp(&side, NULL);
		connect_one(i);
	}
	connected = clock_s(CLOCK_MONOTONIC) - started;
	for (int host = 0; host < hosts; host++)
		send_addresses(host);
	for (int host = 0; host < hosts; host++)
		synchronise(host);
	request(qps);
	memory = resident() - before;

	used = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	started = clock_s(CLOCK_MONOTONIC);
	request(count);
	passed = clock_s(CLOCK_MONOTONIC) - started;
	used = clock_s(CLOCK_PROCESS_CPUTIME_ID) - used;
	printf("%.0f %ld %.0f %.0f\n", qps / connected, memory / qps, passed / count * 1e9,
	       used / count * 1e9);
	for (int host = 0; host < hosts; host++)
		close(sock[host]);
	return 0;
}
