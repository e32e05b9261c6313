/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A READ returns what the memory held before later requests executed. A WRITE or an atomic to the
 * same bytes is posted in one list with the READ and without a fence; the READ must return the old
 * bytes. IBTA requires the fence, but soft RoCE answers in order without it, and programs rely on
 * that.
 *
 *	read_order_test local|udp
 *	read_order_test FULL	process_vm_* is refused, so requests go as packets through a lane,
 *				whose ring the response to a READ does not fit
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
	LEN = 20000, /* of the largest READ: several packets of any MTU */
	ROUNDS = 2000,
	FULL_ROUNDS = 50,
	LAST = 4096, /* bytes that FULL overwrites */
	POLLS = 1000,
	TIMEOUT = 17,
	RETRIES = 7,
	READ_AT = 0, /* offsets in the requester's buffer */
	WRITE_AT = LEN,
	SIZE = 2 * LEN,
};

static void serve(int sock, bool full)
{
	struct rc_addr peer;
	struct ibv_wc wc;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (full)
		CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int round = 0; full && round < FULL_ROUNDS; round++) {
		rc_barrier(sock);
		for (int i = 0; i < POLLS; i++)
			CHECK(ibv_poll_cq(rc.cq, 1, &wc) == 0);
		rc_barrier(sock);
	}
	rc_barrier(sock);
	rc_close(&rc);
}

static struct ibv_sge sge(const struct rc *rc, int at, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)rc->buf + at, len, rc->mr->lkey };
}

/* READs `len` bytes, then writes the last `write` of them; 0: adds to the first 8. */
static void post_read_then_modify(struct rc *rc, const struct rc_addr *peer, uint32_t len,
				  uint32_t write)
{
	struct ibv_sge to = sge(rc, READ_AT, len);
	struct ibv_sge from = sge(rc, WRITE_AT, write ? write : 8);
	struct ibv_send_wr *bad, second = {
		.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &from, .num_sge = 1,
		.wr.rdma = { .remote_addr = peer->addr + len - write, .rkey = peer->rkey },
	};
	struct ibv_send_wr first = {
		.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
		.next = &second, .sg_list = &to, .num_sge = 1,
		.wr.rdma = { .remote_addr = peer->addr, .rkey = peer->rkey },
	};

	if (!write) {
		second.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		second.wr.atomic.remote_addr = peer->addr;
		second.wr.atomic.rkey = peer->rkey;
		second.wr.atomic.compare_add = 0x0101010101010101;
	}
	CHECK(ibv_post_send(rc->qp, &first, &bad) == 0);
}

static void wait_for_both(struct rc *rc)
{
	for (uint64_t i = 1; i <= 2; i++) {
		struct ibv_wc wc = rc_wait(rc);

		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
}

static void expect_old(const struct rc *rc, int round, uint32_t len, uint8_t value)
{
	for (uint32_t i = 0; i < len; i++) {
		if ((uint8_t)rc->buf[READ_AT + i] == value)
			continue;
		printf("round %d: byte %u of %u is %#x, not %#x\n", round, i, len,
		       (uint8_t)rc->buf[READ_AT + i], value);
		CHECK(false);
	}
}

/* Sets all bytes of the target's memory. */
static void set_target(struct rc *rc, const struct rc_addr *peer, uint8_t value)
{
	memset(rc->buf, value, LEN);
	CHECK(rc_post_send(rc, rc->qp, IBV_WR_RDMA_WRITE, LEN, peer, 3) == 0);
	CHECK(rc_wait(rc).status == IBV_WC_SUCCESS);
}

/* Sets the target's memory and both buffers of the requester. */
static void prepare(struct rc *rc, const struct rc_addr *peer, uint8_t value)
{
	set_target(rc, peer, value);
	memset(rc->buf, 0xff, LEN);
	memset(rc->buf + WRITE_AT, 0xee, LEN);
}

static void request(struct rc *rc, const struct rc_addr *peer)
{
	static const uint32_t lens[] = { 8, 100, 4096, LEN };

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t len = lens[round % 4];
		bool atomic = len == 8 && round % 8;

		prepare(rc, peer, round % 200);
		post_read_then_modify(rc, peer, len, atomic ? 0 : len);
		wait_for_both(rc);
		expect_old(rc, round, len, round % 200);
	}
}

/* The target polls while the requester takes nothing out of its lane. */
static void request_full(struct rc *rc, const struct rc_addr *peer, int sock)
{
	for (int round = 0; round < FULL_ROUNDS; round++) {
		prepare(rc, peer, round);
		post_read_then_modify(rc, peer, LEN, LAST);
		rc_barrier(sock);
		rc_barrier(sock);
		wait_for_both(rc);
		expect_old(rc, round, LEN, round);
	}
}

static void run_requester(int sock, bool full)
{
	struct rc_addr peer;
	struct rc rc;

	if (full)
		CHECK(setenv("VERBENA_PROGRESS", "none", 1) == 0);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	if (full)
		request_full(&rc, &peer, sock);
	else
		request(&rc, &peer);
	rc_barrier(sock);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "local";
	bool full = strcmp(what, "FULL") == 0;
	int sock[2], status;
	pid_t child;

	alarm(RC_LIMIT_S);
	CHECK(setenv("VERBENA_TRANSPORT", full ? "local" : what, 1) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		serve(sock[1], full);
		exit(0);
	}
	run_requester(sock[0], full);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
