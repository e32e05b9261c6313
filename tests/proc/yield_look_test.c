/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A poll that yields the CPU looks again for what the peer has sent meanwhile. A program that polls
 * in turn for completions and for the end of the connection (libfabric) loses the completions if
 * it is told of none and then of the end. No progress thread looks instead. Only by lane: when a
 * datagram arrives is the kernel's business.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum { SIZE = 4096, LEN = 8, TIMEOUT = 14, RETRIES = 7, RUN = 1000, RUNS = 1000, PAUSE_US = 1000 };

static int peer_sock;
static bool peer_sends;		/* in the next yield */

/* The peer gets the CPU, and has sent its message before this process has it again. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	char byte = 0;

	if (peer_sends) {
		peer_sends = false;
		child_send(peer_sock, &byte, 1);
		child_recv(peer_sock, &byte, 1);
	}
	return (int)syscall(SYS_sched_yield);
}

static void send_message(struct rc *rc, const struct rc_addr *peer)
{
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_SEND, LEN, peer, 0) == 0);
}

static void run_peer(int sock)
{
	struct rc_addr peer;
	struct rc rc;
	char byte;

	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	send_message(&rc, &peer);
	CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	child_recv(sock, &byte, 1);
	send_message(&rc, &peer);
	child_send(sock, &byte, 1);
	CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	child_send(sock, &byte, 1);
	rc_close(&rc);
}

/* Returns what the poll that yields returns. */
static int poll_until_yield(struct rc *rc)
{
	struct ibv_wc wc;
	int n = 0;

	peer_sends = true;
	for (int i = 0; i < RUN * RUNS && peer_sends; i++) {
		/* to a poller that yields only if others use its CPU, as if they did */
		if (i % RUN == RUN - 1)
			usleep(PAUSE_US);
		n = ibv_poll_cq(rc->cq, 1, &wc);
	}
	if (peer_sends)
		SKIP("no poll yields");
	return n;
}

/* Only polls acknowledge the peer's message. */
static void poll_until_done(struct rc *rc)
{
	struct ibv_wc wc;
	char byte;

	while (recv(peer_sock, &byte, 1, MSG_DONTWAIT) != 1)
		CHECK(ibv_poll_cq(rc->cq, 1, &wc) == 0);
}

int main(void)
{
	struct rc_addr peer;
	struct child c;
	struct rc rc;

	setenv("VERBENA_TRANSPORT", "local", 1);
	setenv("VERBENA_PROGRESS", "none", 1);
	alarm(RC_LIMIT_S);
	c = child_fork(run_peer);
	peer_sock = c.sock;
	rc_open(&rc, SIZE);
	rc_post_recv(&rc, rc.qp, 1);
	rc_post_recv(&rc, rc.qp, 2);
	rc_pair(&rc, c.sock, &peer, TIMEOUT, RETRIES);
	CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	CHECK(poll_until_yield(&rc) == 1);
	poll_until_done(&rc);
	rc_close(&rc);
	child_join(&c);
	return 0;
}
