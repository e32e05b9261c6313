/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that closes its UDP socket leaves a gap in the port's socket group. The kernel moves
 * the group's last socket into the gap, and the socket of the next process takes the freed place.
 * If that process is stopped, it does not forward the packets that still arrive at its socket. The
 * sender must detect that from the missing answers and reach the receiver all the same.
 *
 *	SELF	both QPs belong to this process
 *	PEER	the receiver is another process, which sends nothing itself
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

/* Opens its socket and closes it, each when the test says so. */
static void run_socket_owner(int sock)
{
	struct rc rc;

	rc_barrier(sock);
	rc_open(&rc, SIZE);
	rc_barrier(sock);
	rc_barrier(sock);
	rc_close(&rc);
}

/* Its progress thread executes the WRITEs. */
static void run_peer(int sock)
{
	struct rc_addr addr;
	struct rc rc;

	rc_barrier(sock);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &addr, TIMEOUT, RETRIES);
	rc_barrier(sock);
	rc_close(&rc);
}

/* Call before this process opens the device, so that no child inherits its descriptors. */
static void start(struct process *p, void (*fn)(int sock))
{
	int sock[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	p->pid = fork();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		close(sock[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(RC_LIMIT_S);
		fn(sock[1]);
		_exit(0);
	}
	close(sock[1]);
	p->sock = sock[0];
}

static void open_socket(struct process *p)
{
	rc_barrier(p->sock);
	rc_barrier(p->sock);
}

static void close_socket(struct process *p)
{
	int status;

	rc_barrier(p->sock);
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
	struct process first, next, peer;
	struct ibv_qp *other_qp = NULL;
	struct rc_addr to;
	struct rc rc;

	setenv("VERBENA_TRANSPORT", "udp", 1);
	alarm(RC_LIMIT_S);
	start(&first, run_socket_owner);
	start(&next, run_socket_owner);
	if (self) {
		struct rc_addr from;

		open_socket(&first);
		rc_open(&rc, SIZE);
		other_qp = rc_new_qp(&rc);
		from = rc_address(&rc, rc.qp);
		to = rc_address(&rc, other_qp);
		rc_connect(&rc, rc.qp, &to, TIMEOUT, RETRIES);
		rc_connect(&rc, other_qp, &from, TIMEOUT, RETRIES);
	} else {
		start(&peer, run_peer);
		rc_open(&rc, SIZE);
		open_socket(&first);
		rc_barrier(peer.sock);
		rc_pair(&rc, peer.sock, &to, TIMEOUT, RETRIES);
	}
	write_once(&rc, &to);
	close_socket(&first);
	open_socket(&next);
	stop(&next);
	write_once(&rc, &to);

	CHECK(kill(next.pid, SIGKILL) == 0);
	CHECK(waitpid(next.pid, NULL, 0) == next.pid);
	if (self)
		CHECK(ibv_destroy_qp(other_qp) == 0);
	else
		close_socket(&peer);
	rc_close(&rc);
	return 0;
}
