/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations need no CPU of the peer. RDMA WRITE, READ and atomics must complete while
 * the process that owns the memory is stopped, and their effects must be there when it continues.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum {
	SIZE = 4096,
	COUNTER_AT = 0, /* atomics add here */
	TEXT_AT = 64,
	ROUNDS = 100,
	TIMEOUT = 14,
	RETRIES = 7,
};

static const char text[] = "written while its owner slept";

static void connect_pair(struct rc *rc, int sock, struct rc_addr *peer)
{
	struct rc_addr mine = rc_address(rc, rc->qp);
	char ready = 'R';

	CHECK(write(sock, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(sock, peer, sizeof(*peer)) == sizeof(*peer));
	rc_connect(rc, rc->qp, peer, TIMEOUT, RETRIES);
	CHECK(write(sock, &ready, 1) == 1);
	CHECK(read(sock, &ready, 1) == 1);
}

/* Owns the memory and waits until the requester is done; then checks the memory. */
static int run_owner(int sock)
{
	struct rc_addr peer;
	uint64_t counter;
	struct rc rc;
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rc_open(&rc, SIZE);
	connect_pair(&rc, sock, &peer);
	CHECK(read(sock, &go, 1) == 1);
	memcpy(&counter, rc.buf + COUNTER_AT, sizeof(counter));
	CHECK_EQ(counter, 2 * ROUNDS);
	CHECK(strcmp(rc.buf + TEXT_AT, text) == 0);
	rc_close(&rc);
	return 0;
}

static void request(struct rc *rc, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len,
		    const struct rc_addr *peer)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rc->buf + offset,
		.length = len,
		.lkey = rc->mr->lkey,
	};
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = peer->addr + offset;
		wr.wr.atomic.rkey = peer->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = peer->addr + offset;
		wr.wr.rdma.rkey = peer->rkey;
	}
	CHECK_EQ(ibv_post_send(rc->qp, &wr, &bad), 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

static void run_rounds(struct rc *rc, const struct rc_addr *peer)
{
	for (int i = 0; i < ROUNDS; i++) {
		strcpy(rc->buf + TEXT_AT, text);
		request(rc, IBV_WR_RDMA_WRITE, TEXT_AT, sizeof(text), peer);
		memset(rc->buf + TEXT_AT, 0, sizeof(text));
		request(rc, IBV_WR_RDMA_READ, TEXT_AT, sizeof(text), peer);
		CHECK(strcmp(rc->buf + TEXT_AT, text) == 0);
		request(rc, IBV_WR_ATOMIC_FETCH_AND_ADD, COUNTER_AT, sizeof(uint64_t), peer);
	}
}

static bool may_attach(pid_t owner, const struct rc_addr *peer)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)peer->addr, 1 };

	return process_vm_readv(owner, &here, 1, &there, 1, 0) == 1;
}

int main(void)
{
	struct rc_addr peer;
	struct rc rc;
	pid_t owner;
	int sock[2], status;

	alarm(RC_LIMIT_S);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	owner = fork();
	CHECK(owner >= 0);
	if (owner == 0)
		return run_owner(sock[1]);

	rc_open(&rc, SIZE);
	connect_pair(&rc, sock[0], &peer);
	if (!may_attach(owner, &peer))
		SKIP("cross-memory attach is refused here");
	/* The path through shared memory is set up while both processes run. */
	run_rounds(&rc, &peer);
	child_stop(owner);
	run_rounds(&rc, &peer);
	CHECK(kill(owner, SIGCONT) == 0);

	CHECK(write(sock[0], "G", 1) == 1);
	CHECK(waitpid(owner, &status, 0) == owner);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	rc_close(&rc);
	return 0;
}
