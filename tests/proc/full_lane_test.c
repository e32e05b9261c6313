/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ACK of an XRC request meets a full lane.
 *
 *	STOPPED	because the requester's process is stopped and much waits for it. It must get the
 *		ACK once it continues, though it sends nothing more and has no timeout.
 *	SHARED	whenever it is tried, because other QPs fill the lane again. The requester's
 *		timeouts pass meanwhile, but must not count.
 *	DESTROYED
 *		and then the QP is destroyed. The requester must get the ACK all the same.
 *	STOPPED_DESTROYED
 *		because the requester's process is stopped, for longer than the QP's end waits.
 *
 * There is no progress thread and no UDP: all happens in polls.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xrc.h"

enum {
	SIZE = 4000,	/* RC_DEPTH SENDs of it do not fit into a lane */
	WRITES = 2,	/* the first one sets up the lane */
	FILLS = 4,	/* that many of them fill it, and the last waits */
	NO_TIMEOUT = 0,
	TIMEOUT = 10,	/* 4.2 ms */
	PAUSE_MS = 10,
	RETRIES = 7,
	ROUNDS = 2 * RETRIES,
	POLLS = 1000,	/* by then the ACK has met the full lane */
};

struct target {
	struct rc_addr addr;
	uint32_t srqn;
};

/* An RC connection, and the child's XRC initiator with the parent's target. */
static void open_both(struct xrc *x, int sock, struct rc_addr *peer, bool requests)
{
	alarm(RC_LIMIT_S);
	xrc_open(x, -1, O_CREAT);
	for (int i = 0; i < RC_DEPTH; i++)
		rc_post_recv(&x->rc, x->rc.qp, i);
	rc_pair(&x->rc, sock, peer, NO_TIMEOUT, RETRIES);
	x->qp = requests ? xrc_send_qp(x) : xrc_recv_qp(x);
}

static void exchange(struct xrc *x, int sock, struct target *peer, uint8_t timeout)
{
	struct target own = { .addr = rc_address(&x->rc, x->qp), .srqn = x->srqn };

	child_send(sock, &own, sizeof(own));
	child_recv(sock, peer, sizeof(*peer));
	rc_connect(&x->rc, x->qp, &peer->addr, timeout, RETRIES);
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

/* Posts a WRITE when it is told to. */
static void write_next(struct xrc *x, int sock, const struct target *to, uint64_t i)
{
	char go;

	child_recv(sock, &go, 1);
	xrc_buffer(x, 0)[0] = (char)i;
	xrc_send(x, IBV_WR_RDMA_WRITE, to->srqn, 0, 1, &to->addr, i, 0);
	child_send(sock, "P", 1);
}

static void request(int sock, uint8_t timeout, void (*wait)(struct xrc *x, int sock, uint64_t i))
{
	struct target target;
	struct rc_addr peer;
	struct xrc x;
	char go;

	open_both(&x, sock, &peer, true);
	exchange(&x, sock, &target, timeout);
	for (uint64_t i = 1; i <= WRITES; i++) {
		write_next(&x, sock, &target, i);
		wait(&x, sock, i);
		child_send(sock, "C", 1);
	}
	child_recv(sock, &go, 1);
}

static void wait_at_once(struct xrc *x, int sock, uint64_t i)
{
	wait_write(x, i);
}

static void stopped_requester(int sock)
{
	request(sock, NO_TIMEOUT, wait_at_once);
}

/* Empties the lane and lets a timeout pass, when it is told to. */
static void wait_in_rounds(struct xrc *x, int sock, uint64_t i)
{
	struct ibv_wc wc;
	char go;

	for (int round = 0; i == WRITES && round < ROUNDS; round++) {
		child_recv(sock, &go, 1);
		usleep(PAUSE_MS * 1000);
		while (ibv_poll_cq(x->rc.cq, 1, &wc))
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		child_send(sock, "R", 1);
	}
	wait_write(x, i);
}

static void patient_requester(int sock)
{
	request(sock, TIMEOUT, wait_in_rounds);
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

static void open_responder(struct xrc *x, void (*requester)(int sock), struct child *child,
			   struct rc_addr *peer)
{
	struct target requests;

	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	*child = child_fork(requester);
	open_both(x, child->sock, peer, false);
	exchange(x, child->sock, &requests, NO_TIMEOUT);
	expect_post(child->sock);
	poll_until_complete(x, child->sock);
}

static void end_both(struct xrc *x, struct child *child)
{
	poll_until_complete(x, child->sock);
	child_kill(child);
	xrc_close(x);
}

static void fill_lane(struct xrc *x, const struct rc_addr *peer, int sends)
{
	for (int i = 0; i < sends; i++)
		CHECK_EQ(rc_post_send(&x->rc, x->rc.qp, IBV_WR_SEND, SIZE, peer, i), 0);
}

static void destroy_target(struct xrc *x)
{
	CHECK(ibv_destroy_qp(x->qp) == 0);
	x->qp = NULL;
}

static void stopped(bool destroyed)
{
	volatile char *written;
	struct child child;
	struct rc_addr peer;
	struct ibv_wc wc;
	struct xrc x;

	open_responder(&x, stopped_requester, &child, &peer);
	written = xrc_buffer(&x, 0);
	expect_post(child.sock);
	child_stop(child.pid);
	fill_lane(&x, &peer, RC_DEPTH);
	for (int i = 0; i < POLLS || *written != WRITES; i++)
		CHECK_EQ(ibv_poll_cq(x.rc.cq, 1, &wc), 0);
	if (destroyed)
		destroy_target(&x);
	CHECK(kill(child.pid, SIGCONT) == 0);
	end_both(&x, &child);
}

/* Takes what the requester has sent, and cannot answer it. */
static void poll_in_vain(struct xrc *x)
{
	struct ibv_wc wc;

	for (int i = 0; i < POLLS; i++)
		if (ibv_poll_cq(x->rc.cq, 1, &wc))
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
}

static void shared(bool destroyed)
{
	struct child child;
	struct rc_addr peer;
	struct xrc x;
	char round;

	open_responder(&x, patient_requester, &child, &peer);
	expect_post(child.sock);
	fill_lane(&x, &peer, FILLS);
	for (int i = 0; i < ROUNDS; i++) {
		poll_in_vain(&x);
		child_send(child.sock, "T", 1);
		child_recv(child.sock, &round, 1);
		CHECK_EQ(round, 'R');
		if (!destroyed || i < ROUNDS - 1)
			fill_lane(&x, &peer, FILLS - 1);
	}
	if (destroyed)
		destroy_target(&x);
	end_both(&x, &child);
}

int main(int argc, char **argv)
{
	bool destroyed;

	CHECK_EQ(argc, 2);
	destroyed = strstr(argv[1], "DESTROYED");
	if (!strncmp(argv[1], "STOPPED", strlen("STOPPED")))
		stopped(destroyed);
	else
		shared(destroyed);
	return 0;
}
