/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An idle process uses no CPU: with an open context, a connected QP that has been busy, and a thread that waits for its next completion
 * event, no thread wakes up.
 *
 *	idle_test [TRANSPORT]
 *
 * Counts wake-ups (context switches in /proc/self/task), not time.  A wake-up may have a cause
 * outside, say an address that changes, so one quiet window out of several is enough; a library
 * that ticks never has one.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"

enum {
	WINDOWS = 10,
	MESSAGES = 300,		/* before it is idle, so many that waits for them are known to be short */
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

static struct rc rc;

/* Takes completions, two for each message, asleep between them. */
static void *consume(void *arg)
{
	int left = 2 * (MESSAGES + 1);
	struct ibv_cq *from;
	struct ibv_wc wc;
	void *context;

	while (left) {
		int n = ibv_poll_cq(rc.cq, 1, &wc);

		CHECK(n >= 0);
		if (!n) {
			CHECK(ibv_req_notify_cq(rc.cq, 0) == 0);
			n = ibv_poll_cq(rc.cq, 1, &wc);
		}
		if (!n) {
			CHECK(ibv_get_cq_event(rc.channel, &from, &context) == 0);
			ibv_ack_cq_events(from, 1);
		} else {
			CHECK(wc.status == IBV_WC_SUCCESS);
			__atomic_sub_fetch((int *)arg, 1, __ATOMIC_RELEASE);
			left--;
		}
	}
	return NULL;
}

/* One message from a to b. Returns when both have their completions. */
static void work(struct ibv_qp *a, struct ibv_qp *b, int *missing)
{
	struct rc_addr to = rc_address(&rc, b);

	__atomic_store_n(missing, 2, __ATOMIC_RELAXED);
	rc_post_recv(&rc, b, 1);
	CHECK(rc_post_send(&rc, a, IBV_WR_SEND, 100, &to, 2) == 0);
	while (__atomic_load_n(missing, __ATOMIC_ACQUIRE))
		sched_yield();
}

int main(int argc, char **argv)
{
	struct rc_addr addr_a, addr_b;
	unsigned long seen = 1;
	int threads, missing;
	pthread_t consumer;
	struct ibv_qp *b;

	alarm(RC_LIMIT_S);
	if (argc > 1)
		CHECK(setenv("VERBENA_TRANSPORT", argv[1], 1) == 0);
	rc_open(&rc, 4096);
	b = rc_new_qp(&rc);
	addr_a = rc_address(&rc, rc.qp);
	addr_b = rc_address(&rc, b);
	rc_connect(&rc, rc.qp, &addr_b, 14, 7);
	rc_connect(&rc, b, &addr_a, 14, 7);
	CHECK(pthread_create(&consumer, NULL, consume, &missing) == 0);
	for (int i = 0; i < MESSAGES; i++)
		work(rc.qp, b, &missing);

	for (int i = 0; i < WINDOWS && seen; i++) {
		seen = window(&threads);
		printf("%d threads, %lu wake-ups in a second\n", threads, seen);
	}
	CHECK(seen == 0);

	work(rc.qp, b, &missing);
	CHECK(pthread_join(consumer, NULL) == 0);
	CHECK(ibv_destroy_qp(b) == 0);
	rc_close(&rc);
	return 0;
}
