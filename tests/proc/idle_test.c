/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An idle process uses no CPU: with an open context, an armed completion channel and a connected QP
 * that has worked, no thread of the library wakes up.
 *
 * Counts wake-ups (context switches in /proc/self/task), not time.  A wake-up may have a cause
 * outside, say an address that changes, so one quiet window out of several is enough; a library
 * that ticks never has one.
 */
#include <dirent.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"

enum {
	WINDOWS = 10,
	LIMIT_S = 60,
};

static unsigned long switches_of(const char *tid)
{
	char path[64], line[256];
	unsigned long n, sum = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/status", tid);
	status = fopen(path, "r");
	if (!status)
		return 0;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
			sum += n;
	fclose(status);
	return sum;
}

/* Context switches of all threads but this one. */
static unsigned long wakeups(int *threads)
{
	unsigned long sum = 0;
	struct dirent *entry;
	char self[16];
	DIR *tasks;

	snprintf(self, sizeof(self), "%ld", (long)syscall(SYS_gettid));
	tasks = opendir("/proc/self/task");
	CHECK(tasks);
	*threads = 0;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, self) == 0)
			continue;
		++*threads;
		sum += switches_of(entry->d_name);
	}
	closedir(tasks);
	return sum;
}

/* Wake-ups while this thread sleeps one second. */
static unsigned long window(int *threads)
{
	struct timespec second = { .tv_sec = 1 };
	unsigned long before = wakeups(threads);

	nanosleep(&second, NULL);
	return wakeups(threads) - before;
}

/* One message from a to b, so that every timer and socket has been in use. */
static void work(struct rc *rc, struct ibv_qp *a, struct ibv_qp *b)
{
	struct rc_addr to = rc_address(rc, b);

	rc_post_recv(rc, b, 1);
	CHECK(rc_post_send(rc, a, IBV_WR_SEND, 100, &to, 2) == 0);
	CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
	CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
}

int main(void)
{
	struct rc_addr addr_a, addr_b;
	unsigned long seen = 1;
	struct ibv_qp *b;
	int threads;
	struct rc rc;

	alarm(LIMIT_S);
	rc_open(&rc, 4096);
	b = rc_new_qp(&rc);
	addr_a = rc_address(&rc, rc.qp);
	addr_b = rc_address(&rc, b);
	rc_connect(&rc, rc.qp, &addr_b, 14, 7);
	rc_connect(&rc, b, &addr_a, 14, 7);
	work(&rc, rc.qp, b);
	rc_post_recv(&rc, b, 3);
	CHECK(ibv_req_notify_cq(rc.cq, 0) == 0);

	for (int i = 0; i < WINDOWS && seen; i++) {
		seen = window(&threads);
		printf("%d threads of the library, %lu wake-ups in a second\n", threads, seen);
	}
	CHECK(seen == 0);

	CHECK(ibv_destroy_qp(b) == 0);
	rc_close(&rc);
	return 0;
}
