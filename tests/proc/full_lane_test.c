/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ACK of an XRC request meets a full lane, because the requester's process is stopped and much
 * waits for it. It must get the ACK once it continues, though it sends nothing more and has no
 * timeout.
 *
 * There is no progress thread and no UDP: all happens in polls.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "xrc.h"

enum {
	SIZE = 4000,	/* RC_DEPTH SENDs of it do not fit into a lane */
	WRITES = 2,	/* the first one sets up the lane */
	TIMEOUT = 0,
	RETRIES = 7,
	POLLS = 1000,	/* by then the ACK has met the full lane */
};

struct target {
	struct rc_addr addr;
	uint32_t srqn;
};

/* An RC connection, and the child's XRC initiator with the parent's target. */
static void open_both(struct xrc *x, int sock, struct rc_addr *peer, struct target *target)
{
	alarm(RC_LIMIT_S);
	xrc_open(x, -1, O_CREAT);
	for (int i = 0; i < RC_DEPTH; i++)
		rc_post_recv(&x->rc, x->rc.qp, i);
	rc_pair(&x->rc, sock, peer, TIMEOUT, RETRIES);
	x->qp = target ? xrc_send_qp(x) : xrc_recv_qp(x);
}

static void exchange(struct xrc *x, int sock, struct target *peer)
{
	struct target own = { .addr = rc_address(&x->rc, x->qp), .srqn = x->srqn };

	child_send(sock, &own, sizeof(own));
	child_recv(sock, peer, sizeof(*peer));
	rc_connect(&x->rc, x->qp, &peer->addr, TIMEOUT, RETRIES);
	rc_barrier(sock);
}

static void wait_write(struct xrc *x, uint64_t wr_id)
{
	struct ibv_wc wc = rc_wait(&x->rc);

	while (wc.opcode == IBV_WC_RECV)
		wc = rc_wait(&x->rc);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, wr_id);
}

static void requester(int sock)
{
	struct target target;
	struct rc_addr peer;
	struct xrc x;
	char go;

	open_both(&x, sock, &peer, &target);
	exchange(&x, sock, &target);
	for (uint64_t i = 1; i <= WRITES; i++) {
		child_recv(sock, &go, 1);
		xrc_buffer(&x, 0)[0] = (char)i;
		xrc_send(&x, IBV_WR_RDMA_WRITE, target.srqn, 0, 1, &target.addr, i, 0);
		child_send(sock, "P", 1);
		wait_write(&x, i);
		child_send(sock, "C", 1);
	}
	child_recv(sock, &go, 1);
}

/* Lets the child post its next WRITE, and does not poll before it has. */
static void expect_post(int sock)
{
	char posted;

	child_send(sock, "G", 1);
	child_recv(sock, &posted, 1);
	CHECK_EQ(posted, 'P');
}

/* Polls until the child has its completion. */
static void poll_until_complete(struct xrc *x, int sock)
{
	struct ibv_wc wc;
	char got;

	while (recv(sock, &got, 1, MSG_DONTWAIT) != 1) {
		CHECK_EQ(errno, EAGAIN);
		if (ibv_poll_cq(x->rc.cq, 1, &wc))
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	}
	CHECK_EQ(got, 'C');
}

int main(void)
{
	volatile char *written;
	struct target requests;
	struct child child;
	struct rc_addr peer;
	struct ibv_wc wc;
	struct xrc x;

	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	child = child_fork(requester);
	open_both(&x, child.sock, &peer, NULL);
	exchange(&x, child.sock, &requests);
	written = xrc_buffer(&x, 0);
	expect_post(child.sock);
	poll_until_complete(&x, child.sock);
	expect_post(child.sock);
	child_stop(child.pid);
	for (uint64_t i = 0; i < RC_DEPTH; i++)
		CHECK_EQ(rc_post_send(&x.rc, x.rc.qp, IBV_WR_SEND, SIZE, &peer, i), 0);
	for (int i = 0; i < POLLS || *written != WRITES; i++)
		CHECK_EQ(ibv_poll_cq(x.rc.cq, 1, &wc), 0);
	CHECK(kill(child.pid, SIGCONT) == 0);
	poll_until_complete(&x, child.sock);
	child_kill(&child);
	xrc_close(&x);
	return 0;
}
