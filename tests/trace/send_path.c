/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SEND of 64 bytes between two processes, and the functions of the library that it passes: the
 * post, the receiver's poll that returns the message, and the sender's poll that returns its
 * completion. scripts/send-path runs this and counts.
 *
 * Polls that return nothing are not recorded: how many there are is chance. The first messages are
 * not recorded either: they look up and map what the later ones use. Of the others a few do more
 * than the message needs, as look whether the peer lives: scripts/send-path takes the shortest of
 * each step.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"
#include "recorder.h"

enum {
	SIZE = 64,
	POSTED = 20,	/* receives */
	WARM_UP = 400,	/* until the locks have their owners (util/lock.h) */
	ROUNDS = WARM_UP + 20,
};

/* An ACK may wait for a next poll: polls until the sender has its completion. */
static void acknowledge(struct rc *rc, int sock)
{
	struct ibv_wc wc;
	char byte;

	do {
		CHECK(ibv_poll_cq(rc->cq, 1, &wc) == 0);
	} while (recv(sock, &byte, 1, MSG_DONTWAIT) != 1);
	CHECK(write(sock, "", 1) == 1);
}

/* Polls until a completion comes and leaves the last poll in the record. */
static void take(struct rc *rc)
{
	struct ibv_wc wc;
	int n;

	do {
		trace_start();
		n = ibv_poll_cq(rc->cq, 1, &wc);
		if (n == 0)
			trace_drop();
	} while (n == 0);
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void keep(const char *step, int round)
{
	if (round >= WARM_UP)
		trace_keep(step, round);
	else
		trace_drop();
}

static void receiver(int sock, FILE *out)
{
	struct rc_addr peer;
	struct rc rc;

	rc_open(&rc, 4096);
	for (int i = 0; i < POSTED; i++)
		rc_post_recv(&rc, rc.qp, i);
	rc_pair(&rc, sock, &peer, 14, 7);
	for (int i = 0; i < ROUNDS; i++) {
		rc_barrier(sock);
		take(&rc);
		keep("receive", i);
		rc_post_recv(&rc, rc.qp, POSTED + i);
		acknowledge(&rc, sock);
	}
	trace_write(out, ibv_get_device_list);
	rc_barrier(sock);
	rc_close(&rc);
}

static void sender(int sock, FILE *out)
{
	struct rc_addr peer;
	struct rc rc;

	rc_open(&rc, 4096);
	rc_pair(&rc, sock, &peer, 14, 7);
	for (int i = 0; i < ROUNDS; i++) {
		trace_start();
		CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, SIZE, &peer, i) == 0);
		keep("post", i);
		rc_barrier(sock);
		take(&rc);
		keep("complete", i);
		rc_barrier(sock);
	}
	rc_barrier(sock); /* the other has written */
	trace_write(out, ibv_get_device_list);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	int sock[2], status;
	FILE *out;
	pid_t pid;

	CHECK(argc == 2);
	out = fopen(argv[1], "a");
	CHECK(out);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	alarm(RC_LIMIT_S);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(RC_LIMIT_S);
		receiver(sock[0], out);
		return 0;
	}
	sender(sock[1], out);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}
