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
 *	STOPPED_EXITED
 *		and then the responder's process exits.
 *	STOPPED_RESET
 *		because the requester's process is stopped; the QP is reset, which waits until it
 *		continues.
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

/* Polls until the other end has its completion. */
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

/* A SEND by the RC connection. One that has not found its peer yet would not fill the lane. */
static void meet(struct xrc *x, int sock, const struct rc_addr *peer, bool requests)
{
	if (requests) {
		poll_until_complete(x, sock);
		rc_post_recv(&x->rc, x->rc.qp, 0);
		return;
	}
	CHECK_EQ(rc_post_send(&x->rc, x->rc.qp, IBV_WR_SEND, 1, peer, 0), 0);
	CHECK_EQ(rc_wait(&x->rc).status, IBV_WC_SUCCESS);
	child_send(sock, "C", 1);
}

/* An RC connection, and the child's XRC initiator with the parent's target. */
static void open_both(struct xrc *x, int sock, struct rc_addr *peer, bool requests)
{
	alarm(RC_LIMIT_S);
	xrc_open(x, -1, O_CREAT);
	for (int i = 0; i < RC_DEPTH; i++)
		rc_post_recv(&x->rc, x->rc.qp, i);
	rc_pair(&x->rc, sock, peer, NO_TIMEOUT, RETRIES);
	meet(x, sock, peer, requests);
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

/* responder_exits: with the last WRITE, so that it is not told of its completion. */
static void request(int sock, uint8_t timeout, void (*wait)(struct xrc *x, int sock, uint64_t i),
		    bool responder_exits)
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
		if (i == WRITES && responder_exits)
			return;
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
	request(sock, NO_TIMEOUT, wait_at_once, false);
}

/* Empties the lane and lets a timeout pass, when it is told to. */
static void wait_in_rounds(struct xrc *x, int sock, uint64_t i)
{
	struct ibv_wc wc;
	char go;

	for (int round = 0; i == WRITES && round < ROUNDS; round++) {
		child_recv(sock, &go, 1);
		usleep(PAUSE_MS * 1000);
		while (ibv_poll_cq(x->rc.cq, 1, &wc)) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.opcode, IBV_WC_RECV);	/* not the WRITE */
		}
		child_send(sock, "R", 1);
	}
	wait_write(x, i);
}

static void patient_requester(int sock)
{
	request(sock, TIMEOUT, wait_in_rounds, false);
}

/* Lets the child post its next WRITE, and does not poll before it has. */
static void expect_post(int sock)
{
	char posted;

	child_send(sock, "G", 1);
	child_recv(sock, &posted, 1);
	CHECK_EQ(posted, 'P');
}

static void open_responder(struct xrc *x, int sock, struct rc_addr *peer)
{
	struct target requests;

	open_both(x, sock, peer, false);
	exchange(x, sock, &requests, NO_TIMEOUT);
	expect_post(sock);
	poll_until_complete(x, sock);
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

/* state: ") T ", stopped, or ") S ", asleep */
static void await_state(pid_t pid, const char *state)
{
	char name[32], line[128] = "";
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	while (!strstr(line, state)) {
		fd = open(name, O_RDONLY);
		CHECK(fd >= 0 && read(fd, line, sizeof(line) - 1) > 0);
		close(fd);
	}
}

static void stop_process(pid_t pid)
{
	CHECK(kill(pid, SIGSTOP) == 0);
	await_state(pid, ") T ");
}

static void destroy_target(struct xrc *x)
{
	CHECK(ibv_destroy_qp(x->qp) == 0);
	x->qp = NULL;
}

/* The second WRITE is executed, and its ACK waits for room. */
static void stop_requester(struct xrc *x, int sock, pid_t requester)
{
	volatile char *written;
	struct rc_addr peer;
	struct ibv_wc wc;

	open_responder(x, sock, &peer);
	written = xrc_buffer(x, 0);
	expect_post(sock);
	stop_process(requester);
	fill_lane(x, &peer, RC_DEPTH);
	for (int i = 0; i < POLLS || *written != WRITES; i++)
		CHECK_EQ(ibv_poll_cq(x->rc.cq, 1, &wc), 0);
}

static void stopped(bool destroyed)
{
	struct child child = child_fork(stopped_requester);
	struct xrc x;

	stop_requester(&x, child.sock, child.pid);
	if (destroyed)
		destroy_target(&x);
	CHECK(kill(child.pid, SIGCONT) == 0);
	end_both(&x, &child);
}

/* Continues the requester once its parent sleeps, as it does while it waits for room. */
static void wake_in_reset(pid_t requester)
{
	pid_t waker = fork();

	CHECK(waker >= 0);
	if (waker)
		return;
	await_state(getppid(), ") S ");
	_exit(kill(requester, SIGCONT));
}

static void reset(void)
{
	struct child child = child_fork(stopped_requester);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct xrc x;

	stop_requester(&x, child.sock, child.pid);
	wake_in_reset(child.pid);
	CHECK_EQ(ibv_modify_qp(x.qp, &attr, IBV_QP_STATE), 0);
	CHECK(kill(child.pid, SIGCONT) == 0);
	end_both(&x, &child);
}

static int waker_pipe[2];

/* Continues the requester once exit() has begun in its parent. */
static void start_waker(pid_t requester)
{
	char byte;
	pid_t waker;

	CHECK(pipe(waker_pipe) == 0);
	waker = fork();
	CHECK(waker >= 0);
	if (waker)
		return;
	close(waker_pipe[1]);
	CHECK(read(waker_pipe[0], &byte, 1) >= 0);
	_exit(kill(requester, SIGCONT));
}

static void wake(void)
{
	close(waker_pipe[1]);
}

static void exiting_responder(int sock)
{
	struct xrc x;

	start_waker(getppid());
	stop_requester(&x, sock, getppid());
	destroy_target(&x);
	CHECK(atexit(wake) == 0);
}

static void exited(void)
{
	struct child child = child_fork(exiting_responder);

	request(child.sock, NO_TIMEOUT, wait_at_once, true);
	child_join(&child);
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
	struct child child = child_fork(patient_requester);
	struct rc_addr peer;
	struct xrc x;
	char round;

	open_responder(&x, child.sock, &peer);
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
	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	destroyed = strstr(argv[1], "DESTROYED");
	if (!strcmp(argv[1], "STOPPED_EXITED"))
		exited();
	else if (!strcmp(argv[1], "STOPPED_RESET"))
		reset();
	else if (!strncmp(argv[1], "STOPPED", strlen("STOPPED")))
		stopped(destroyed);
	else
		shared(destroyed);
	return 0;
}
