/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process calls exec while a local peer writes to its memory. The new program has memory of its
 * own at the same address. No WRITE may change it: the next one must fail with RETRY_EXC_ERR.
 *
 * The region is a section of this program at a fixed address (meson.build), so it is mapped again
 * before the new program executes its first instruction. The writer traces the target and writes
 * while the target is stopped there, which is as early as possible. A child of the target that the
 * library does not know of (a raw clone) keeps the target's file locks, so the host's table still
 * lists the process as alive. Only the check before each access protects the new program.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum {
	SIZE = 1 << 20,
	FILL = 0x3c, /* not zero, so that the section has bytes in the file */
	LEN = 65536,
	ROUNDS = 20,
	TIMEOUT = 8,
	RETRIES = 1,
	WRITES_BEFORE = 20,
	CANNOT_TRACE = 7,
	FIND_MS = 20, /* longer than the library's interval between two look-ups of a peer */
};

__attribute__((section(".target"))) static volatile unsigned char target[SIZE] = {
	[0 ... SIZE - 1] = FILL,
};

/* The new program: waits until the writer is done and checks that the section is unchanged. */
static int check_section(int sock)
{
	char end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	CHECK(read(sock, &end, 1) == 1);
	for (int i = 0; i < SIZE; i++)
		CHECK_EQ(target[i], FILL);
	return 0;
}

/* The child holds all descriptors of its parent until that exits. */
static void clone_lock_holder(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);

	CHECK(pid >= 0);
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* Until the writer accesses this process's memory directly; its first WRITEs may be packets. */
static void poll_until_found(struct rc *rc, int sock)
{
	struct ibv_wc wc;
	char found;

	while (recv(sock, &found, 1, MSG_DONTWAIT) != 1)
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
}

static void run_target(int sock, const char *self, bool without_progress)
{
	struct rc_addr own, peer;
	char number[16];
	struct ibv_mr *mr;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (without_progress)
		setenv("VERBENA_PROGRESS", "none", 1);
	rc_open(&rc, LEN);
	mr = ibv_reg_mr(rc.pd, (void *)target, SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	own = rc_address(&rc, rc.qp);
	own.addr = (uintptr_t)target;
	own.rkey = mr->rkey;
	CHECK(write(sock, &own, sizeof(own)) == sizeof(own));
	CHECK(read(sock, &peer, sizeof(peer)) == sizeof(peer));
	rc_connect(&rc, rc.qp, &peer, TIMEOUT, RETRIES);
	rc_barrier(sock);
	poll_until_found(&rc, sock);
	clone_lock_holder();
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		exit(CANNOT_TRACE);
	raise(SIGSTOP);
	snprintf(number, sizeof(number), "%d", sock);
	execl(self, self, number, NULL);
	CHECK(!"exec");
}

static enum ibv_wc_status write_once(struct rc *rc, const struct rc_addr *peer)
{
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_RDMA_WRITE, LEN, peer, 0) == 0);
	return rc_wait(rc).status;
}

/* Writes until the library has looked up the peer's process and accesses its memory directly. */
static void write_until_found(struct rc *rc, const struct rc_addr *peer, int sock)
{
	uint64_t until = ms_now() + FIND_MS;

	do
		CHECK_EQ(write_once(rc, peer), IBV_WC_SUCCESS);
	while (ms_now() < until);
	CHECK_EQ(write_once(rc, peer), IBV_WC_SUCCESS);
	CHECK(write(sock, "f", 1) == 1);
}

/* Continues the target until exec has stopped it before the new program's first instruction. */
static void continue_to_exec(pid_t pid)
{
	int status;

	CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8));
}

/*
 * A target without a progress thread stands for one whose thread has not run yet. Only the first
 * round can have one: later targets inherit the settings that this process has read by then.
 */
static void run_round(const char *self, bool without_progress)
{
	struct rc_addr peer;
	int sock[2], status;
	struct rc rc;
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		run_target(sock[1], self, without_progress);
	close(sock[1]);
	rc_open(&rc, LEN);
	memset(rc.buf, 0x5a, LEN);
	rc_pair(&rc, sock[0], &peer, TIMEOUT, RETRIES);
	write_until_found(&rc, &peer, sock[0]);
	CHECK(waitpid(pid, &status, WUNTRACED) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_TRACE)
		SKIP("ptrace is refused here");
	CHECK(WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) == 0);
	for (int i = 0; i < WRITES_BEFORE; i++)
		CHECK_EQ(write_once(&rc, &peer), IBV_WC_SUCCESS);
	continue_to_exec(pid);
	CHECK_EQ(write_once(&rc, &peer), IBV_WC_RETRY_EXC_ERR);
	CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
	CHECK(write(sock[0], "e", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(sock[0]);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return check_section(atoi(argv[1]));
	alarm(RC_LIMIT_S);
	for (int i = 0; i < ROUNDS; i++)
		run_round(argv[0], i == 0);
	return 0;
}
