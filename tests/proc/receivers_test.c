/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes with four receive sockets each share a UDP port, and some of them are killed. The
 * kernel fills the gaps in the port's socket group with other sockets, so packets arrive at wrong
 * sockets until the processes detect it. The live processes must stay reachable.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	PEERS = 5,
	KILLED = 2, /* the first ones: later sockets fill their gaps */
	WRITES = 300,
	SIZE = 4096,
	TIMEOUT = 14,
	RETRIES = 7,
};

static struct peer {
	pid_t pid;
	int sock;
	struct rc rc;
	struct rc_addr addr;
} peer[PEERS];

/* Its progress thread executes the WRITEs. */
static void run_peer(int sock)
{
	struct rc_addr addr;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &addr, TIMEOUT, RETRIES);
	rc_barrier(sock);
	rc_close(&rc);
	_exit(0);
}

static void start(struct peer *p)
{
	int sock[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	p->pid = fork();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		close(sock[0]);
		run_peer(sock[1]);
	}
	close(sock[1]);
	p->sock = sock[0];
}

static void write_to(struct peer *p, int n)
{
	for (int i = 0; i < n; i++) {
		CHECK(rc_post_send(&p->rc, p->rc.qp, IBV_WR_RDMA_WRITE, 64, &p->addr, 1) == 0);
		CHECK(rc_wait(&p->rc).status == IBV_WC_SUCCESS);
	}
}

int main(void)
{
	int status;

	setenv("VERBENA_TRANSPORT", "udp", 1);
	setenv("VERBENA_RECEIVERS", "4", 1);
	alarm(RC_LIMIT_S);
	/* Fork before this process opens the device, so that no child inherits its descriptors. */
	for (int i = 0; i < PEERS; i++)
		start(&peer[i]);
	for (struct peer *p = peer; p < peer + PEERS; p++) {
		rc_open(&p->rc, SIZE);
		rc_pair(&p->rc, p->sock, &p->addr, TIMEOUT, RETRIES);
	}
	for (int i = 0; i < WRITES; i++)
		for (int k = 0; k < PEERS; k++)
			write_to(&peer[k], 1);
	for (int i = 0; i < KILLED; i++) {
		kill(peer[i].pid, SIGKILL);
		CHECK(waitpid(peer[i].pid, &status, 0) == peer[i].pid);
		for (int k = i + 1; k < PEERS; k++)
			write_to(&peer[k], WRITES);
	}
	for (int k = KILLED; k < PEERS; k++) {
		rc_barrier(peer[k].sock);
		CHECK(waitpid(peer[k].pid, &status, 0) == peer[k].pid);
		CHECK(status == 0);
	}
	for (int k = 0; k < PEERS; k++)
		rc_close(&peer[k].rc);
	return 0;
}
