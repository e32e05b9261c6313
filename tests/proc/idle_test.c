/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An idle process uses no CPU. It has an open context, a connected QP that was busy before, and a
 * thread that waits for the next completion event. No thread may wake up, and each must wait in a
 * system call that has no time-out.
 *
 *	idle_test [TRANSPORT]
 *
 * Counts wake-ups (context switches in /proc/self/task), not time. A wake-up may have an external
 * cause, such as an address that changes: then the row of windows without wake-ups starts again. A
 * periodic timer that is slower than such a row shows as a time-out of its thread's system call.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "left_out.h"
#include "rc.h"

enum {
	QUIET = 3,      /* windows without a wake-up, in a row */
	WINDOWS = 20,   /* in all, at most */
	MESSAGES = 300, /* before the idle phase: enough to count as busy */
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

/* Sums fn() over all threads but this one; sets *threads to their number. */
static unsigned long sum_of_others(unsigned long (*fn)(const char *tid), int *threads)
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
		sum += fn(entry->d_name);
	}
	closedir(tasks);
	return sum;
}

/* Wake-ups of the other threads while this one sleeps for one second. */
static unsigned long count_wakeups(int *threads)
{
	struct timespec second = { .tv_sec = 1 };
	unsigned long before = sum_of_others(switches_of, threads);

	nanosleep(&second, NULL);
	return sum_of_others(switches_of, threads) - before;
}

/*
 * The argument of a system call, counted from 0, that holds its time-out, and the value for none.
 */
static const struct timeout_arg {
	long call;
	int arg; /* -1: the call has no time-out */
	unsigned long forever;
} timeout_arg[] = {
	{ SYS_ppoll, 2, 0 },
	{ SYS_futex, 3, 0 },
	{ SYS_read, -1, 0 },
#ifdef SYS_poll
	{ SYS_poll, 2, (uint32_t)-1 },
#endif
};

static bool waits_for_ever(long call, const unsigned long arg[6])
{
	for (size_t i = 0; i < sizeof(timeout_arg) / sizeof(timeout_arg[0]); i++) {
		const struct timeout_arg *e = &timeout_arg[i];

		if (e->call == call)
			return e->arg < 0 || arg[e->arg] == e->forever;
	}
	return false;
}

/* Returns 1 if the kernel does not show the thread's system call. */
static unsigned long check_system_call(const char *tid)
{
	char path[64], line[256] = "";
	unsigned long arg[6];
	FILE *file;
	long call;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/syscall", tid);
	file = fopen(path, "r");
	if (!file)
		return 1;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	if (!line[0])
		return 1;
	printf("thread %s: %s", tid, line);
	CHECK(sscanf(line, "%ld %lx %lx %lx %lx %lx %lx", &call, &arg[0], &arg[1], &arg[2], &arg[3],
		     &arg[4], &arg[5]) == 7);
	CHECK(waits_for_ever(call, arg));
	return 0;
}

/* All threads but this one must be in system calls that only an event ends. */
static void check_system_calls(void)
{
	int threads;

	if (sum_of_others(check_system_call, &threads))
		left_out(1, "/proc/self/task/*/syscall cannot be read");
}

static struct rc rc;

/* Takes two completions for each message and waits for events between them. */
static void *consume_completions(void *arg)
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

/* Sends one message from a to b. Returns after both completions. */
static void send_message(struct ibv_qp *a, struct ibv_qp *b, int *missing)
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
	int threads, missing, quiet = 0;
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
	CHECK(pthread_create(&consumer, NULL, consume_completions, &missing) == 0);
	for (int i = 0; i < MESSAGES; i++)
		send_message(rc.qp, b, &missing);

	for (int i = 0; i < WINDOWS && quiet < QUIET; i++) {
		unsigned long seen = count_wakeups(&threads);

		printf("%d threads, %lu wake-ups in a second\n", threads, seen);
		quiet = seen ? 0 : quiet + 1;
	}
	CHECK(quiet == QUIET);
	check_system_calls();

	send_message(rc.qp, b, &missing);
	CHECK(pthread_join(consumer, NULL) == 0);
	CHECK(ibv_destroy_qp(b) == 0);
	rc_close(&rc);
	return 0;
}
