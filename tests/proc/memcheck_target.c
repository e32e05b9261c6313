/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process whose uninitialised memory a peer writes, by WRITEs and by SENDs, and that then looks
 * at each byte: run under memcheck, which must find nothing.
 *
 *	memcheck_target WRITTEN		the bytes that the peer wrote
 *	memcheck_target UNWRITTEN	one byte more: memcheck must find that
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum {
	SMALL = 8,
	MEDIUM = 64 << 10,
	LARGE = 1 << 20,	/* a SEND of it is copied by both processes */
	SIZE = SMALL + MEDIUM + SMALL + LARGE,
	TIMEOUT = 20,
	RETRIES = 7,
	BYTE = 0x5a,
};

/* The parts of the target's memory, in order: two that are written, two that are received. */
static const uint32_t lengths[] = { SMALL, MEDIUM, SMALL, LARGE };

static void post_receive(struct rc *rc, struct ibv_mr *mr, uint8_t *to, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)to, length, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(rc->qp, &wr, &bad) == 0);
}

static uint32_t count_wrong(const uint8_t *byte, uint32_t n)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < n; i++)
		if (byte[i] != BYTE)
			wrong++;
	return wrong;
}

static void target(int sock, bool unwritten)
{
	uint8_t *memory = malloc(SIZE + 1);
	struct rc_addr at, peer;
	struct ibv_mr *mr;
	struct rc rc;

	CHECK(memory);
	rc_open(&rc, SMALL);
	mr = ibv_reg_mr(rc.pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	post_receive(&rc, mr, memory + SMALL + MEDIUM, SMALL);
	post_receive(&rc, mr, memory + SMALL + MEDIUM + SMALL, LARGE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	at = (struct rc_addr){ .addr = (uintptr_t)memory, .rkey = mr->rkey };
	child_send(sock, &at, sizeof(at));
	for (int i = 0; i < 2; i++)
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	rc_barrier(sock);
	CHECK(count_wrong(memory, SIZE) == 0);
	if (unwritten && memory[SIZE] == BYTE)
		CHECK(write(STDOUT_FILENO, "chance\n", 7) == 7);
	CHECK(ibv_dereg_mr(mr) == 0);
	free(memory);
	rc_close(&rc);
}

static void writer(int sock)
{
	struct rc_addr peer, at;
	struct rc rc;

	rc_open(&rc, LARGE);
	memset(rc.buf, BYTE, LARGE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	child_recv(sock, &at, sizeof(at));
	for (int i = 0; i < 4; i++) {
		CHECK(rc_post_send(&rc, rc.qp, i < 2 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, lengths[i],
				   &at, 0) == 0);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		at.addr += lengths[i];
	}
	rc_barrier(sock);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	struct child c = child_fork(writer);

	target(c.sock, argc > 1 && !strcmp(argv[1], "UNWRITTEN"));
	child_join(&c);
	return 0;
}
