/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program posts requests and at once deregisters their region or destroys their QP. The requests
 * must still arrive, with the bytes that the buffer held when they were posted. A peer that never
 * answers must not delay the teardown.
 *
 *	teardown_test DEREG|DESTROY|FAIL|LAST|ARRIVED|SILENT [transport]
 *
 *	DEREG	ibv_dereg_mr() after each request
 *	DESTROY	ibv_destroy_qp() after each request
 *	FAIL	the QP moves to ERR when the ACK of its request has arrived: the request must
 *		complete successfully and not be flushed. There is no progress thread, so nothing
 *		processes the ACK before. Local only: nothing but a lane delivers an ACK to a
 *		process that does not poll.
 *	LAST	a fenced WRITE has left when the READ before it completes, though an ACK of the QP
 *		is delayed: the program may never poll again. Without a progress thread; by wire
 *		only, since a lane delays nothing.
 *	ARRIVED	a QP is destroyed, another reset, when a SEND has arrived that nobody has taken: an
 *		adapter has, so it succeeds. Without a progress thread.
 *	SILENT	1,500 QPs whose peer does not exist: deregistered and destroyed at once
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
#include "util/compiler.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

enum {
	SIZE = 1 << 20,
	ROUNDS = 10,
	REQUESTS = 4,
	SILENT_QPS = 1500,
	READ_LEN = 8,
	WRITE_LEN = 1024,
	UNUSED_QPN = 0x123456, /* no QP of this run directory has this number */
	TIMEOUT = 14,
	RETRIES = 7,
};

static const uint32_t lengths[] = { 4, 1024, 65536, SIZE };

static uint8_t pattern(int round, int request)
{
	return 1 + (round * REQUESTS + request) % 0x7f;
}

static struct ibv_mr *register_buffer(struct rc *rc)
{
	struct ibv_mr *mr = ibv_reg_mr(rc->pd, rc->buf, rc->size, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	return mr;
}

static void post(struct rc *rc, const struct ibv_mr *mr, enum ibv_wr_opcode opcode, uint32_t len,
		 const struct rc_addr *peer)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { peer->addr, peer->rkey },
	};

	CHECK_EQ(ibv_post_send(rc->qp, &wr, &bad), 0);
}

/* After deregistration the program may reuse the buffer. */
static void dereg_and_overwrite(struct rc *rc, struct ibv_mr *mr)
{
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	memset(rc->buf, 0xee, rc->size);
}

static void send_and_dereg(struct rc *rc, int sock, const struct rc_addr *peer, uint32_t len,
			   int round)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE };
	enum ibv_wr_opcode opcode = opcodes[round % 2];

	for (int i = 0; i < REQUESTS; i++) {
		struct ibv_mr *mr = register_buffer(rc);

		memset(rc->buf, pattern(round, i), len);
		post(rc, mr, opcode, len, peer);
		dereg_and_overwrite(rc, mr);
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
		/* A WRITE raises no completion at the peer: this byte tells it to check. */
		CHECK(write(sock, "w", 1) == 1);
		CHECK(read(sock, &(char){ 0 }, 1) == 1);
	}
}

static void send_and_destroy(struct rc *rc, const struct rc_addr *peer, uint32_t len, int round)
{
	struct ibv_mr *mr = register_buffer(rc);

	memset(rc->buf, pattern(round, 0), len);
	post(rc, mr, IBV_WR_SEND, len, peer);
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
	rc->qp = NULL;
	dereg_and_overwrite(rc, mr);
}

static void expect_bytes(const struct rc *rc, uint32_t len, uint8_t value)
{
	for (uint32_t i = 0; i < len; i++)
		CHECK_EQ((uint8_t)rc->buf[i], value);
}

static void receive(struct rc *rc, int sock, bool dereg_only, uint32_t len, int round)
{
	bool receives = !dereg_only || round % 2 == 0;

	for (int i = 0; i < (dereg_only ? REQUESTS : 1); i++) {
		char c;

		if (receives) {
			struct ibv_wc wc = rc_wait(rc);

			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.byte_len, len);
		}
		if (dereg_only)
			CHECK(read(sock, &c, 1) == 1);
		expect_bytes(rc, len, pattern(round, i));
		if (receives && i + 1 < REQUESTS)
			rc_post_recv(rc, rc->qp, i);
		if (dereg_only)
			CHECK(write(sock, "g", 1) == 1);
	}
}

/* Runs one side, with a new connection for each round. */
static void run(int sock, bool sends, bool dereg_only)
{
	struct ibv_qp *first;
	struct rc rc;

	rc_open(&rc, SIZE);
	first = rc.qp;
	for (unsigned int n = 0; n < ARRAY_SIZE(lengths); n++) {
		for (int round = 0; round < ROUNDS; round++) {
			struct rc_addr peer;

			rc.qp = rc_new_qp(&rc);
			if (!sends)
				rc_post_recv(&rc, rc.qp, 0);
			rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
			if (!sends)
				receive(&rc, sock, dereg_only, lengths[n], round);
			else if (dereg_only)
				send_and_dereg(&rc, sock, &peer, lengths[n], round);
			else
				send_and_destroy(&rc, &peer, lengths[n], round);
			rc_barrier(sock);
			if (rc.qp)
				CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
		}
	}
	rc.qp = first;
	rc_close(&rc);
}

static void move_to_error(int sock, bool sends)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct rc_addr peer;
	struct rc rc;

	CHECK(setenv("VERBENA_PROGRESS", "none", 1) == 0);
	rc_open(&rc, 4096);
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_qp *first = rc.qp;

		rc.qp = rc_new_qp(&rc);
		for (int i = 0; i < 2 && !sends; i++)
			rc_post_recv(&rc, rc.qp, i);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		if (sends) {
			/* The first message sets up the lane, which may need polls. */
			for (int i = 0; i < 2; i++) {
				if (i)
					CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
				CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, 64, &peer, round),
					 0);
			}
			rc_barrier(sock);
			CHECK_EQ(ibv_modify_qp(rc.qp, &error, IBV_QP_STATE), 0);
			CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		} else {
			CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
			CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		}
		/* Destroying the receiver's QP sends its ACK, if it was delayed. */
		CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
		if (!sends)
			rc_barrier(sock);
		rc.qp = first;
	}
	rc_close(&rc);
}

static void end_qp(struct ibv_qp *qp, bool by_reset)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	if (by_reset)
		CHECK_EQ(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	else
		CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void send_two(struct rc *rc, int sock, const struct rc_addr *peer)
{
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rc_post_send(rc, rc->qp, IBV_WR_SEND, 64, peer, i), 0);
		if (i)
			rc_barrier(sock);
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
		rc_tell(sock);
		rc_barrier(sock);
	}
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
}

/* The first message sets up the lane. */
static void take_one(struct rc *rc, int sock, bool by_reset)
{
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	rc_poll_until_told(rc, sock);
	rc_barrier(sock);
	rc_barrier(sock);
	end_qp(rc->qp, by_reset);
	rc_poll_until_told(rc, sock);
	rc_barrier(sock);
	if (by_reset)
		CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
}

static void end_both(int sock, bool sends)
{
	struct ibv_qp *first;
	struct rc_addr peer;
	struct rc rc;

	CHECK(setenv("VERBENA_PROGRESS", "none", 1) == 0);
	/* A process that closes another device first changes where packets arrive. */
	CHECK(setenv("VERBENA_DEVICES", "lo", 1) == 0);
	rc_open(&rc, 4096);
	first = rc.qp;
	for (int round = 0; round < 2; round++) {
		rc.qp = rc_new_qp(&rc);
		for (int i = 0; i < 2 && !sends; i++)
			rc_post_recv(&rc, rc.qp, i);
		rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
		if (sends)
			send_two(&rc, sock, &peer);
		else
			take_one(&rc, sock, round);
	}
	rc.qp = first;
	rc_close(&rc);
}

static uint64_t payload_sent(const struct rc *rc)
{
	char text[32];

	CHECK(ibv_read_sysfs_file(rc->ctx->device->ibdev_path, "ports/1/counters/port_xmit_data",
				  text, sizeof(text)) > 0);
	return strtoull(text, NULL, 10) * 4;
}

static void post_read_and_fenced_write(struct rc *rc, const struct rc_addr *peer)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, READ_LEN, rc->mr->lkey };
	struct ibv_sge from = { (uintptr_t)rc->buf, WRITE_LEN, rc->mr->lkey };
	struct ibv_send_wr *bad, write = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_FENCE,
		.sg_list = &from,
		.num_sge = 1,
		.wr.rdma = { peer->addr, peer->rkey },
	};
	struct ibv_send_wr read = {
		.next = &write,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { peer->addr, peer->rkey },
	};

	CHECK_EQ(ibv_post_send(rc->qp, &read, &bad), 0);
}

static void post_last(int sock, bool sends)
{
	struct rc_addr peer;
	uint64_t before;
	struct rc rc;

	if (sends)
		CHECK(setenv("VERBENA_PROGRESS", "none", 1) == 0);
	rc_open(&rc, WRITE_LEN);
	rc_post_recv(&rc, rc.qp, 0);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	if (sends) {
		CHECK_EQ(rc_wait(&rc).opcode, IBV_WC_RECV);
		before = payload_sent(&rc);
		post_read_and_fenced_write(&rc, &peer);
		CHECK_EQ(rc_wait(&rc).opcode, IBV_WC_RDMA_READ);
		CHECK(payload_sent(&rc) - before >= WRITE_LEN);
	} else {
		CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, READ_LEN, &peer, 0), 0);
	}
	rc_barrier(sock);
	rc_close(&rc);
}

static void run_role(int sock, bool sends, const char *mode)
{
	if (strcmp(mode, "FAIL") == 0)
		move_to_error(sock, sends);
	else if (strcmp(mode, "LAST") == 0)
		post_last(sock, sends);
	else if (strcmp(mode, "ARRIVED") == 0)
		end_both(sock, sends);
	else
		run(sock, sends, strcmp(mode, "DEREG") == 0);
}

static void run_pair(const char *mode)
{
	int sock[2], status;
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_role(sock[1], false, mode);
		exit(0);
	}
	run_role(sock[0], true, mode);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* If the teardown waited for the retries of each QP, the test would exceed its time limit. */
static void run_silent(void)
{
	struct rc_addr unused;
	struct ibv_qp *first;
	struct rc rc;

	rc_open(&rc, 4096);
	unused = rc_address(&rc, rc.qp);
	unused.qpn = UNUSED_QPN;
	first = rc.qp;
	for (int i = 0; i < SILENT_QPS; i++) {
		struct ibv_mr *mr = register_buffer(&rc);

		rc.qp = rc_new_qp(&rc);
		rc_connect(&rc, rc.qp, &unused, TIMEOUT, RETRIES);
		post(&rc, mr, IBV_WR_SEND, 64, &unused);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	}
	rc.qp = first;
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	alarm(RC_LIMIT_S);
	CHECK(argc >= 2);
	if (argc > 2)
		CHECK(setenv("VERBENA_TRANSPORT", argv[2], 1) == 0);
	if (strcmp(argv[1], "SILENT") == 0)
		run_silent();
	else
		run_pair(argv[1]);
	return 0;
}
