/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection churn. Each of four pairs of processes creates 64 connections, sends a message in each
 * direction over every one of them and destroys them, six times. Every message must arrive.
 *
 *	churn_test [TRANSPORT]
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	PAIRS = 4,
	BATCH = 64, /* connections of a pair in a round; 256 of all pairs */
	ROUNDS = 6,
	SIZE = 4096,
	LEN = 2048,
	TIMEOUT = 14,
	RETRIES = 7,
};

static void exchange(int sock, const void *own, void *peer, size_t len)
{
	CHECK(write(sock, own, len) == (ssize_t)len);
	for (size_t got = 0; got < len;) {
		ssize_t n = read(sock, (char *)peer + got, len - got);

		CHECK(n > 0);
		got += (size_t)n;
	}
}

static void run_round(struct rc *rc, int sock)
{
	struct rc_addr own[BATCH], peer[BATCH];
	struct ibv_qp *qp[BATCH];

	for (int i = 0; i < BATCH; i++) {
		qp[i] = rc_new_qp(rc);
		rc_post_recv(rc, qp[i], 0);
		own[i] = rc_address(rc, qp[i]);
	}
	exchange(sock, own, peer, sizeof(own));
	for (int i = 0; i < BATCH; i++)
		rc_connect(rc, qp[i], &peer[i], TIMEOUT, RETRIES);
	rc_barrier(sock);
	for (int i = 0; i < BATCH; i++)
		CHECK(rc_post_send(rc, qp[i], IBV_WR_SEND, LEN, &peer[i], 1) == 0);
	for (int i = 0; i < 2 * BATCH; i++)
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	rc_barrier(sock);
	for (int i = 0; i < BATCH; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
}

static void run_side(int sock)
{
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	for (int i = 0; i < ROUNDS; i++)
		run_round(&rc, sock);
	rc_barrier(sock);
	rc_close(&rc);
	exit(0);
}

int main(int argc, char **argv)
{
	pid_t pid[2 * PAIRS];
	int sock[2], status;

	alarm(RC_LIMIT_S);
	if (argc > 1)
		CHECK(setenv("VERBENA_TRANSPORT", argv[1], 1) == 0);
	for (int i = 0; i < 2 * PAIRS; i++) {
		if (i % 2 == 0)
			CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i] == 0)
			run_side(sock[i % 2]);
		if (i % 2 == 1) {
			close(sock[0]);
			close(sock[1]);
		}
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && WIFEXITED(status) &&
		      !WEXITSTATUS(status));
	printf("%d rounds of %d connections\n", ROUNDS, PAIRS * BATCH);
	return 0;
}
