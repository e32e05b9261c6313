/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who leaves the port leaves a gap, into which the kernel moves the last socket, and who comes then
 * has the place where that was.  If he is stopped, nobody passes on what still comes to him: the
 * others have to find out, because nothing is answered.
 *
 *	SELF	both queue pairs are this process's
 *	PEER	packets are for another process, which has nothing to send
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	SIZE = 4096,
	TIMEOUT = 14,
	RETRIES = 7,
};

struct process {
	pid_t pid;
	int sock;
};

/* Opens its socket, and closes it, on order. */
static void be_socket_owner(int sock)
{
	struct rc rc;

	rc_meet(sock);
	rc_open(&rc, SIZE);
	rc_meet(sock);
	rc_meet(sock);
	rc_close(&rc);
}

/* Its progress thread answers. */
static void be_peer(int sock)
{
	struct rc_addr addr;
	struct rc rc;

	rc_meet(sock);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &addr, TIMEOUT, RETRIES);
	rc_meet(sock);
	rc_close(&rc);
}

/* Before this process opens anything: a child is to have nothing of it. */
static void start(struct process *p, void (*be)(int sock))
{
	int sock[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	p->pid = fork();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		close(sock[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(RC_LIMIT_S);
		be(sock[1]);
		_exit(0);
	}
	close(sock[1]);
	p->sock = sock[0];
}

static void come(struct process *p)
{
	rc_meet(p->sock);
	rc_meet(p->sock);
}

static void leave(struct process *p)
{
	int status;

	rc_meet(p->sock);
	CHECK(waitpid(p->pid, &status, 0) == p->pid);
	CHECK(status == 0);
}

static void stop(struct process *p)
{
	CHECK(kill(p->pid, SIGSTOP) == 0);
	CHECK(waitpid(p->pid, NULL, WUNTRACED) == p->pid);
}

static void write_once(struct rc *rc, const struct rc_addr *to)
{
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_RDMA_WRITE, 64, to, 1) == 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

int main(int argc, char **argv)
{
	bool self = argc > 1 && strcmp(argv[1], "SELF") == 0;
	struct process early, late, peer;
	struct ibv_qp *second = NULL;
	struct rc_addr to;
	struct rc rc;

	setenv("VERBENA_TRANSPORT", "udp", 1);
	alarm(RC_LIMIT_S);
	start(&early, be_socket_owner);
	start(&late, be_socket_owner);
	if (self) {
		struct rc_addr from;

		come(&early);
		rc_open(&rc, SIZE);
		second = rc_new_qp(&rc);
		from = rc_address(&rc, rc.qp);
		to = rc_address(&rc, second);
		rc_connect(&rc, rc.qp, &to, TIMEOUT, RETRIES);
		rc_connect(&rc, second, &from, TIMEOUT, RETRIES);
	} else {
		start(&peer, be_peer);
		rc_open(&rc, SIZE);
		come(&early);
		rc_meet(peer.sock);
		rc_pair(&rc, peer.sock, &to, TIMEOUT, RETRIES);
	}
	write_once(&rc, &to);
	leave(&early);
	come(&late);
	stop(&late);
	write_once(&rc, &to);

	CHECK(kill(late.pid, SIGKILL) == 0);
	CHECK(waitpid(late.pid, NULL, 0) == late.pid);
	if (self)
		CHECK(ibv_destroy_qp(second) == 0);
	else
		leave(&peer);
	rc_close(&rc);
	return 0;
}
