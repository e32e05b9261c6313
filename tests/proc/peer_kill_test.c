/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer is killed in the middle of a transfer; or it is stopped or starved of CPU time, and lives.
 *
 *	argument	the survivor
 *	SEND		sends
 *	WRITE		writes
 *	READ		reads
 *	RESPOND		receives
 *	CLONED		writes; a child of the peer that the library does not know of (a raw
 *			clone) holds the peer's descriptors and outlives it
 *	STOPPED		sends to a peer that is stopped, continued, stopped again and killed: no
 *			request fails before the kill
 *	STARVED		sends to a peer that runs only now and then: no request fails
 *	DEAF		sends to a peer that runs but has reset its QP
 *
 * A second argument is the transport.
 *
 * When a requester's peer is killed, the oldest request must fail with RETRY_EXC_ERR, all others
 * and the receives must be flushed, and the QP must be in ERR. A receiver gets no error; its
 * receives are flushed when it moves the QP to ERR. In each case the survivor must be able to
 * destroy all its objects and close the device.
 */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "fork_settled.h"
#include "rc.h"

enum {
	SIZE = 65536,
	BEFORE_KILL = 50, /* completions after which the peer is killed */
	RECVS = 8,
	SEND_DEPTH = 16,
	TIMEOUT = 8, /* 4.096 us * 2^8: about 1 ms */
	RETRIES = 5,
	RECV_ID = 1000000,
	HOGS = 3,
	STARVED_SENDS = 6,
	STOPPED_MS = 500, /* many times as long as the retries of TIMEOUT take */
};

static void exchange(int sock, const struct rc_addr *mine, struct rc_addr *theirs)
{
	CHECK(write(sock, mine, sizeof(*mine)) == sizeof(*mine));
	CHECK(read(sock, theirs, sizeof(*theirs)) == sizeof(*theirs));
}

static void connect_pair(struct rc *rc, int sock, struct rc_addr *peer)
{
	struct rc_addr mine = rc_address(rc, rc->qp);
	char ready = 'R';

	for (int i = 0; i < RECVS; i++)
		rc_post_recv(rc, rc->qp, RECV_ID);
	exchange(sock, &mine, peer);
	rc_connect(rc, rc->qp, peer, TIMEOUT, RETRIES);
	CHECK(write(sock, &ready, 1) == 1);
	CHECK(read(sock, &ready, 1) == 1);
}

/* Keeps SEND_DEPTH requests outstanding until the process is killed. */
static void request_for_ever(struct rc *rc, const struct rc_addr *peer)
{
	for (int i = 0; i < SEND_DEPTH; i++)
		CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, i) == 0);
	for (;;) {
		CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
		CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, 0) == 0);
	}
}

static void respond_for_ever(struct rc *rc)
{
	for (;;) {
		CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
		rc_post_recv(rc, rc->qp, RECV_ID);
	}
}

static void pin_to_first_cpu(void)
{
	cpu_set_t mine, one;

	CHECK(sched_getaffinity(0, sizeof(mine), &mine) == 0);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		if (CPU_ISSET(i, &mine) && sched_setaffinity(0, sizeof(one), &one) == 0)
			return;
	}
}

static void reset_qp(struct rc *rc, int sock)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	char done = 'D';

	CHECK(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE) == 0);
	CHECK(write(sock, &done, 1) == 1);
	for (;;)
		pause();
}

/* The child ends with the survivor, which holds the only other write end of the pipe. */
static void clone_descriptor_holder(const int *life)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	char none;

	CHECK(pid >= 0);
	if (pid)
		return;
	close(life[1]);
	CHECK(read(life[0], &none, 1) == 0);
	_exit(0);
}

static void run_victim(int sock, bool requests, bool starves, bool resets, const int *life)
{
	struct rc_addr peer;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (starves) {
		pin_to_first_cpu();
		CHECK(setpriority(PRIO_PROCESS, 0, 19) == 0);
	}
	rc_open(&rc, SIZE);
	connect_pair(&rc, sock, &peer);
	if (life)
		clone_descriptor_holder(life);
	if (resets)
		reset_qp(&rc, sock);
	if (requests)
		request_for_ever(&rc, &peer);
	respond_for_ever(&rc);
}

static void kill_victim(pid_t victim)
{
	int status;

	CHECK(kill(victim, SIGKILL) == 0);
	CHECK(waitpid(victim, &status, 0) == victim);
	/* It must not have ended before. */
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* After the first error each outstanding work request must be flushed, exactly once. */
static void expect_flush(struct rc *rc, int sends, int recvs)
{
	while (sends + recvs > 0) {
		struct ibv_wc wc = rc_wait(rc);

		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
		if (wc.wr_id == RECV_ID)
			recvs--;
		else
			sends--;
		CHECK(sends >= 0 && recvs >= 0);
	}
}

static void survive_as_requester(struct rc *rc, enum ibv_wr_opcode opcode,
				 const struct rc_addr *peer, pid_t victim)
{
	uint64_t posted = 0, completed = 0;
	struct ibv_wc wc;

	for (;;) {
		while (posted - completed < SEND_DEPTH)
			CHECK(rc_post_send(rc, rc->qp, opcode, SIZE, peer, posted++) == 0);
		wc = rc_wait(rc);
		CHECK(wc.wr_id == completed);
		completed++;
		if (wc.status != IBV_WC_SUCCESS)
			break;
		if (completed == BEFORE_KILL)
			kill_victim(victim);
	}
	printf("request %d of %d failed: %s\n", (int)completed, (int)posted,
	       ibv_wc_status_str(wc.status));
	CHECK(completed > BEFORE_KILL);
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
	expect_flush(rc, (int)(posted - completed), RECVS);
	CHECK(rc_state(rc->qp) == IBV_QPS_ERR);

	/* A QP in ERR accepts work and flushes it. */
	CHECK(rc_post_send(rc, rc->qp, opcode, SIZE, peer, 1) == 0);
	rc_post_recv(rc, rc->qp, RECV_ID);
	expect_flush(rc, 1, 1);
}

/* A stopped process keeps its sockets and memory but sends no answers. */
static void survive_stop(struct rc *rc, const struct rc_addr *peer, pid_t victim)
{
	int left = SEND_DEPTH;
	uint64_t until;
	struct ibv_wc wc;

	CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, 0) == 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	child_stop(victim);
	for (int i = 0; i < SEND_DEPTH; i++)
		CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, i) == 0);
	for (until = ms_now() + STOPPED_MS; ms_now() < until;) {
		if (ibv_poll_cq(rc->cq, 1, &wc) == 0)
			continue;
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		left--;
	}
	CHECK(left > 0);
	CHECK(kill(victim, SIGCONT) == 0);
	for (; left > 0; left--)
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	child_stop(victim);
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, 0) == 0);
	kill_victim(victim);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_RETRY_EXC_ERR);
	expect_flush(rc, 0, RECVS);
}

static void survive_reset(struct rc *rc, int sock, const struct rc_addr *peer, pid_t victim)
{
	char done;

	CHECK(read(sock, &done, 1) == 1);
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, 0) == 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_RETRY_EXC_ERR);
	expect_flush(rc, 0, RECVS);
	kill_victim(victim);
}

static void survive_as_responder(struct rc *rc, pid_t victim)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int posted = RECVS;
	struct ibv_wc wc;

	for (int i = 0; i < BEFORE_KILL; i++) {
		CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
		rc_post_recv(rc, rc->qp, RECV_ID);
	}
	kill_victim(victim);
	CHECK(rc_state(rc->qp) == IBV_QPS_RTS);
	CHECK(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE) == 0);
	/* Messages that had arrived in full before that are received, not flushed. */
	while (posted > 0) {
		wc = rc_wait(rc);
		CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR);
		posted--;
	}
	CHECK(ibv_poll_cq(rc->cq, 1, &wc) == 0);
}

static pid_t start_hog(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to_first_cpu();
	for (;;)
		;
}

/* The busy loops leave the peer a few per mille of its CPU. */
static void survive_starvation(struct rc *rc, const struct rc_addr *peer)
{
	pid_t hog[HOGS];

	for (int i = 0; i < HOGS; i++)
		hog[i] = start_hog();
	for (int i = 0; i < STARVED_SENDS; i++) {
		struct ibv_wc wc;

		CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, SIZE, peer, i) == 0);
		wc = rc_wait(rc);
		if (wc.status != IBV_WC_SUCCESS)
			printf("message %d: %s\n", i, ibv_wc_status_str(wc.status));
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
	for (int i = 0; i < HOGS; i++)
		CHECK(kill(hog[i], SIGKILL) == 0 && waitpid(hog[i], NULL, 0) == hog[i]);
}

static enum ibv_wr_opcode opcode_of(const char *what)
{
	if (strcmp(what, "WRITE") == 0)
		return IBV_WR_RDMA_WRITE;
	if (strcmp(what, "CLONED") == 0)
		return IBV_WR_RDMA_WRITE;
	return strcmp(what, "READ") == 0 ? IBV_WR_RDMA_READ : IBV_WR_SEND;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "WRITE";
	bool respond = strcmp(what, "RESPOND") == 0, starved = strcmp(what, "STARVED") == 0;
	bool stopped = strcmp(what, "STOPPED") == 0, resets = strcmp(what, "DEAF") == 0;
	bool cloned = strcmp(what, "CLONED") == 0;
	enum ibv_wr_opcode opcode = opcode_of(what);
	struct rc_addr peer;
	struct rc rc;
	pid_t victim;
	int sock[2], life[2];

	alarm(RC_LIMIT_S);
	if (argc > 2)
		CHECK(setenv("VERBENA_TRANSPORT", argv[2], 1) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0 && pipe(life) == 0);
	/* Before either side has touched the library. */
	victim = fork_settled();
	CHECK(victim >= 0);
	if (victim == 0) {
		close(sock[0]);
		run_victim(sock[1], respond, starved, resets, cloned ? life : NULL);
	}
	close(sock[1]);

	rc_open(&rc, SIZE);
	connect_pair(&rc, sock[0], &peer);
	if (respond)
		survive_as_responder(&rc, victim);
	else if (starved)
		survive_starvation(&rc, &peer);
	else if (stopped)
		survive_stop(&rc, &peer, victim);
	else if (resets)
		survive_reset(&rc, sock[0], &peer, victim);
	else
		survive_as_requester(&rc, opcode, &peer, victim);
	rc_close(&rc);
	if (starved)
		kill(victim, SIGKILL);
	return 0;
}
