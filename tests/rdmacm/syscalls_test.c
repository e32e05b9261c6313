/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of a connection in system calls: the calls that a process makes for both ends of one
 * connection, from rdma_create_id() to rdma_destroy_id(), with a queue pair at each end: of its
 * first one, after rdma_listen(), and of later ones. Another process counts them with ptrace. Calls
 * that wait or wake are counted separately, because their number depends on the machine.
 *
 * Time adds calls to a first connection by UDP: an answer that takes long is asked for again, and
 * its packet looked for, with a probe of some 60 calls. So the process runs again if it made many.
 */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/compiler.h"
#include "world.h"

enum {
	WARM_UP = 10,
	CONNECTIONS = 40,
	RUNS = 3,
	CALLS = 1024,			/* system call numbers that are counted */
	SYSCALL_STOP = SIGTRAP | 0x80,	/* PTRACE_O_TRACESYSGOOD */
};

enum phase { FIRST, LATER, PHASES };

static const unsigned int connections[PHASES] = { 1, CONNECTIONS };

/*
 * Upper bounds per connection, of each run, and of the run with the fewest calls of a first one.
 * Measured: 83 and 22.2 with the local transport, 121 (at most 256) and 28.6 with UDP. Before
 * raising a bound, look for a call that can be saved.
 */
static const struct most {
	const char *transport;
	unsigned int calls[PHASES];
	unsigned int fewest;
} most[] = { { "local", { 100, 24 }, 100 }, { "udp", { 600, 32 }, 200 } };

/* Whether and how often these are called depends on the scheduling of threads. */
static const int waits[] = {
	SYS_futex, SYS_ppoll, SYS_recvmmsg, SYS_recvfrom, SYS_read, SYS_write, SYS_sched_yield,
	SYS_clock_nanosleep, SYS_restart_syscall,
#ifdef SYS_poll
	SYS_poll,
#endif
};

/* A system call that nothing else makes marks the beginning and the end of each count. */
enum { MARK = SYS_getpgid };

static void mark(void)
{
	CHECK(syscall(MARK, 0) >= 0);
}

/* All connections share the listener and the channels. */
static void connect_once(const struct pair *ends)
{
	struct pair p = *ends;
	struct rdma_cm_event *e;

	p.id[0] = world_route(p.ch[0], p.listener, LOOPBACK);
	world_qp(p.id[0]);
	CHECK_EQ(rdma_connect(p.id[0], NULL), 0);
	e = world_event(p.ch[1], RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	p.id[1] = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(p.id[1]);
	CHECK_EQ(rdma_accept(p.id[1], NULL), 0);
	world_expect(p.ch[0], RDMA_CM_EVENT_ESTABLISHED);
	world_expect(p.ch[1], RDMA_CM_EVENT_ESTABLISHED);
	pair_disconnect(&p);
	for (int i = 0; i < 2; i++) {
		rdma_destroy_qp(p.id[i]);
		CHECK_EQ(rdma_destroy_id(p.id[i]), 0);
	}
}

static int traced(void)
{
	struct pair ends;

	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return 1;
	raise(SIGSTOP);
	for (int i = 0; i < 2; i++)
		CHECK((ends.ch[i] = rdma_create_event_channel()));
	ends.listener = world_listen(ends.ch[1], RDMA_PS_TCP, LOOPBACK);
	mark();
	connect_once(&ends);
	mark();
	for (int i = 0; i < WARM_UP; i++)
		connect_once(&ends);
	mark();
	for (int i = 0; i < CONNECTIONS; i++)
		connect_once(&ends);
	mark();
	CHECK_EQ(rdma_destroy_id(ends.listener), 0);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(ends.ch[i]);
	return 0;
}

/* ---- The tracing process ---- */

static unsigned int calls[PHASES][CALLS];
static unsigned int marks;

static void count(pid_t tid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (info.entry.nr == MARK)
		marks++;
	else if (marks % 2 && marks / 2 < PHASES && info.entry.nr < CALLS)
		calls[marks / 2][info.entry.nr]++;
}

/* The signal to deliver when a stopped thread continues. */
static int signal_of(int status)
{
	int sig = WSTOPSIG(status);

	return sig == SYSCALL_STOP || sig == SIGTRAP || sig == SIGSTOP ? 0 : sig;
}

/* Traces the process until it ends; returns its status. */
static int follow(pid_t pid)
{
	for (;;) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);

		CHECK(tid > 0);
		if (!WIFSTOPPED(status)) {
			if (tid == pid)
				return status;
			continue;
		}
		if (WSTOPSIG(status) == SYSCALL_STOP)
			count(tid);
		/* fails if another thread is ending the process */
		ptrace(PTRACE_SYSCALL, tid, 0, signal_of(status));
	}
}

static bool is_wait(int nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++)
		if (waits[i] == nr)
			return true;
	return false;
}

static const struct most *bounds(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");

	for (size_t i = 0; transport && i < ARRAY_SIZE(most); i++)
		if (!strcmp(most[i].transport, transport))
			return &most[i];
	return &most[ARRAY_SIZE(most) - 1];
}

/* Returns the calls of all connections, after checking them. */
static unsigned int check_counts(enum phase phase)
{
	unsigned int work = 0, waiting = 0, n = connections[phase];

	for (int nr = 0; nr < CALLS; nr++) {
		*(is_wait(nr) ? &waiting : &work) += calls[phase][nr];
		if (calls[phase][nr] > n / 2)
			printf("call %d%s: %.1f\n", nr, is_wait(nr) ? ", a wait" : "",
			       (double)calls[phase][nr] / n);
	}
	printf("per connection of %u: %.1f calls, and %.1f that wait or wake\n", n,
	       (double)work / n, (double)waiting / n);
	CHECK(work > n);
	CHECK(work <= bounds()->calls[phase] * n);
	return work;
}

/* Returns false if ptrace is not permitted. */
static bool trace_one(void)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	pid_t pid = fork();
	int status;

	memset(calls, 0, sizeof(calls));
	marks = 0;
	CHECK(pid >= 0);
	if (!pid)
		_exit(traced());
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		return false;
	CHECK_EQ(ptrace(PTRACE_SETOPTIONS, pid, 0, options), 0);
	CHECK_EQ(ptrace(PTRACE_SYSCALL, pid, 0, 0), 0);
	status = follow(pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_EQ(marks, 2 * PHASES);
	return true;
}

/* Sanitizers make calls at exit that cannot be traced. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void)
{
	printf("left out: 1: a sanitizer makes system calls of its own\n");
	(void)check_counts;
	(void)trace_one;
	return 0;
}
#else
int main(void)
{
	unsigned int fewest = UINT_MAX;

	for (int run = 0; run < RUNS && fewest > bounds()->fewest; run++) {
		if (!trace_one()) {
			printf("left out: 1: ptrace is not permitted\n");
			return 0;
		}
		fewest = min(fewest, check_counts(FIRST));
		check_counts(LATER);
	}
	CHECK(fewest <= bounds()->fewest);
	return 0;
}
#endif
