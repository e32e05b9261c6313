/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that polls an empty CQ makes no system call if all QPs of its process are connected to
 * processes of this host by memory, or are UD QPs that exchange nothing with other hosts. Another
 * process counts the calls with ptrace.
 *
 *	poll_syscalls_test BEFORE	before any message
 *	poll_syscalls_test AFTER	after messages in both directions
 *	poll_syscalls_test DATAGRAMS	after datagrams in both directions, too
 *	poll_syscalls_test FAR		after these and one by UDP: most polls make one
 *	poll_syscalls_test WIRE		not counted: meanwhile, a process that only uses UDP sends
 *					to another QP, which must receive
 *	poll_syscalls_test EXIT		the same, and the receiver exits at once, without closing
 *					anything: the sender still gets its completion
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "left_out.h"
#include "rc.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	SIZE = 4096,
	TIMEOUT = 14,
	RETRIES = 7,
	QKEY = 0x1234,
	ROUND = 20000,		/* empty polls between two marks */
	QUIET_ROUNDS = 5,	/* in a row, without a call, are enough */
	BUSY_ROUND = ROUND / 4,	/* calls */
	MARK = SYS_getpgid,	/* nothing else makes this call */
	SYSCALL_STOP = SIGTRAP | 0x80,	/* PTRACE_O_TRACESYSGOOD */
};

enum history { BEFORE, AFTER, DATAGRAMS, FAR };

/*
 * Made if another thread ran on this CPU, or if this thread had none for so long that the progress
 * thread took over.
 */
static const int of_schedulers[] = { SYS_sched_yield, SYS_write, SYS_futex };

static void begin_child(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
}

static void send_one(struct rc *rc)
{
	static const struct rc_addr none;

	CHECK_EQ(rc_post_send(rc, rc->qp, IBV_WR_SEND, 8, &none, 0), 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

static void receive_one(struct rc *rc)
{
	struct ibv_wc wc = rc_wait(rc);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
}

/* As rc_pair(), but the traced process connects before its peer is in RTR. */
static void pair_in_turn(struct rc *rc, int sock, bool first)
{
	struct rc_addr own = rc_address(rc, rc->qp), peer;

	CHECK(write(sock, &own, sizeof(own)) == sizeof(own));
	CHECK(read(sock, &peer, sizeof(peer)) == sizeof(peer));
	for (int turn = 0; turn < 2; turn++) {
		if (first == (turn == 0))
			rc_connect(rc, rc->qp, &peer, TIMEOUT, RETRIES);
		rc_barrier(sock);
	}
}

struct datagrams {
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t peer;
};

static void open_datagrams(struct datagrams *d, struct rc *rc, int sock)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq, .recv_cq = rc->cq, .qp_type = IBV_QPT_UD,
		.cap = { 1, 1, 1, 1, 0 }, .sq_sig_all = 1,
	};
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh.dgid = rc->gid,
		.grh.sgid_index = (uint8_t)rc->gid_index, .grh.hop_limit = 1,
	};
	struct ibv_qp_attr attr = { .port_num = 1, .qkey = QKEY };

	d->qp = ibv_create_qp(rc->pd, &init);
	d->ah = ibv_create_ah(rc->pd, &ah);
	CHECK(d->qp && d->ah);
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(d->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_QKEY), 0);
	rc_post_recv(rc, d->qp, 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(d->qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(d->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	CHECK(write(sock, &d->qp->qp_num, sizeof(d->peer)) == sizeof(d->peer));
	CHECK(read(sock, &d->peer, sizeof(d->peer)) == sizeof(d->peer));
}

static void send_datagram(struct datagrams *d, struct rc *rc)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, 8, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.wr.ud = { d->ah, d->peer, QKEY },
	};

	CHECK_EQ(ibv_post_send(d->qp, &wr, &bad), 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

/* In a process that has no shared memory. */
static void open_far(struct rc *rc)
{
	begin_child();
	CHECK_EQ(setenv("VERBENA_TRANSPORT", "udp", 1), 0);
	rc_open(rc, SIZE);
}

static void run_far_datagram(int sock)
{
	struct datagrams d;
	struct rc rc;
	char go;

	open_far(&rc);
	open_datagrams(&d, &rc, sock);
	CHECK(read(sock, &go, 1) == 1);
	send_datagram(&d, &rc);
	CHECK(read(sock, &go, 1) == 0);
	exit(0);
}

static void close_datagrams(struct datagrams *d)
{
	CHECK_EQ(ibv_destroy_qp(d->qp), 0);
	CHECK_EQ(ibv_destroy_ah(d->ah), 0);
}

/* Runs until the other end of the socket is closed. */
static void run_peer(int sock, bool sends, bool datagrams)
{
	struct datagrams d;
	struct rc rc;
	char end;

	begin_child();
	rc_open(&rc, SIZE);
	rc_post_recv(&rc, rc.qp, 0);
	pair_in_turn(&rc, sock, false);
	if (sends) {
		receive_one(&rc);
		send_one(&rc);
	}
	if (datagrams) {
		open_datagrams(&d, &rc, sock);
		receive_one(&rc);
		send_datagram(&d, &rc);
	}
	CHECK(read(sock, &end, 1) == 0);
	if (datagrams)
		close_datagrams(&d);
	rc_close(&rc);
	exit(0);
}

static pid_t start_peer(int *sock, bool sends, bool datagrams)
{
	int pair[2];
	pid_t pid;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(pair[0]);
		run_peer(pair[1], sends, datagrams);
	}
	close(pair[1]);
	*sock = pair[0];
	return pid;
}

static void stop_peer(pid_t pid, int sock)
{
	int status;

	close(sock);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void open_near(struct rc *rc, int sock, bool exchange)
{
	rc_open(rc, SIZE);
	rc_post_recv(rc, rc->qp, 0);
	pair_in_turn(rc, sock, true);
	if (exchange) {
		send_one(rc);
		receive_one(rc);
	}
}

/* ---- BEFORE, AFTER ---- */

static void poll_empty(struct rc *rc, int n)
{
	struct ibv_wc wc;

	while (n--)
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
}

static bool *as_expected;	/* atomic; shared with the tracer, which sets it */

static int traced(enum history history)
{
	struct datagrams d, from_far;
	struct child far;
	struct rc rc;
	pid_t pid;
	int sock;

	begin_child();
	if (history == FAR)
		far = child_fork(run_far_datagram);
	pid = start_peer(&sock, history >= AFTER, history >= DATAGRAMS);
	open_near(&rc, sock, history >= AFTER);
	if (history >= DATAGRAMS) {
		open_datagrams(&d, &rc, sock);
		send_datagram(&d, &rc);
		receive_one(&rc);
	}
	if (history == FAR) {
		open_datagrams(&from_far, &rc, far.sock);
		CHECK(write(far.sock, "G", 1) == 1);
		receive_one(&rc);
	}
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return 1;
	raise(SIGSTOP);
	while (!load_relaxed(as_expected)) {
		syscall(MARK, 0);
		poll_empty(&rc, ROUND);
	}
	if (history == FAR)
		close_datagrams(&from_far);
	if (history >= DATAGRAMS)
		close_datagrams(&d);
	rc_close(&rc);
	stop_peer(pid, sock);
	if (history == FAR)
		stop_peer(far.pid, far.sock);	/* the near peer had inherited the socket */
	return 0;
}

static bool is_of_scheduler(uint64_t nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_schedulers); i++)
		if ((uint64_t)of_schedulers[i] == nr)
			return true;
	return false;
}

/* The number of the call that the stopped thread is about to make; UINT64_MAX: none. */
static uint64_t call_of(pid_t tid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return UINT64_MAX;
	return info.entry.nr;
}

/* Traces the process until it ends; returns its status. busy: expects calls, else none. */
static int follow(pid_t pid, bool busy)
{
	unsigned int calls = 1, quiet = 0;
	int status;

	for (;;) {
		uint64_t nr;

		CHECK_EQ(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			return status;
		nr = WSTOPSIG(status) == SYSCALL_STOP ? call_of(pid) : UINT64_MAX;
		if (nr == MARK) {
			quiet = calls ? 0 : quiet + 1;
			if (busy ? calls >= BUSY_ROUND : quiet == QUIET_ROUNDS)
				store_relaxed(as_expected, true);
			calls = 0;
		} else if (nr != UINT64_MAX && !is_of_scheduler(nr)) {
			calls++;
		}
		ptrace(PTRACE_SYSCALL, pid, 0,
		       WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status));
	}
}

static void test_count(enum history history)
{
	pid_t pid;
	int status;

	as_expected = mmap(NULL, sizeof(*as_expected), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(as_expected != MAP_FAILED);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		_exit(traced(history));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFSTOPPED(status)) {
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
		left_out(1, "ptrace is not permitted");
		return;
	}
	CHECK_EQ(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
	CHECK_EQ(ptrace(PTRACE_SYSCALL, pid, 0, 0), 0);
	status = follow(pid, history == FAR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(load_relaxed(as_expected));
}

/* ---- WIRE ---- */

static void run_udp_sender(int sock)
{
	struct rc_addr peer;
	struct rc rc;
	char go;

	open_far(&rc);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	CHECK(read(sock, &go, 1) == 1);
	send_one(&rc);
	CHECK(read(sock, &go, 1) == 0);
	rc_close(&rc);
	exit(0);
}

/* Sockets to a peer that uses memory, and to the UDP sender. closes: else it exits at once. */
static void receive_by_wire(int near, int far, bool closes)
{
	struct ibv_qp *first;
	struct rc_addr peer;
	struct rc rc;

	begin_child();
	open_near(&rc, near, true);
	first = rc.qp;
	rc.qp = rc_new_qp(&rc);
	rc_post_recv(&rc, rc.qp, 0);
	rc_pair(&rc, far, &peer, TIMEOUT, RETRIES);
	poll_empty(&rc, ROUND);
	CHECK(write(far, "G", 1) == 1);
	receive_one(&rc);
	if (!closes)
		exit(0);
	CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	rc.qp = first;
	rc_close(&rc);
}

static void test_wire(bool closes)
{
	int near_sock;
	pid_t near = start_peer(&near_sock, true, false), receiver;
	struct child far = child_fork(run_udp_sender);

	receiver = fork();
	CHECK(receiver >= 0);
	if (!receiver) {
		receive_by_wire(near_sock, far.sock, closes);
		exit(0);
	}
	stop_peer(far.pid, far.sock);
	stop_peer(near, near_sock);
	CHECK(waitpid(receiver, NULL, 0) == receiver);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "WIRE") == 0 || strcmp(what, "EXIT") == 0)
		test_wire(strcmp(what, "WIRE") == 0);
	else if (strcmp(what, "FAR") == 0)
		test_count(FAR);
	else if (strcmp(what, "DATAGRAMS") == 0)
		test_count(DATAGRAMS);
	else
		test_count(strcmp(what, "AFTER") == 0 ? AFTER : BEFORE);
	return 0;
}
