/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage: fault_peer TIMEOUT.  Two processes that run with the faults of $VERBENA_FAULTS: the
 * parent sends to the child, a message at a time, and two in the third round, so that the loss of
 * the first one shows. Both register regions. Failed calls are repeated. The child compares the
 * data. TIMEOUT is that of ibv_modify_qp(); with 0, a busy machine changes nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../proc/rc.h"

enum {
	LEN = 200,
	ROUNDS = 50,
	MESSAGES = ROUNDS + 1,
	TWO = 2,	/* the round of two messages */
	REGIONS = 12,
	RETRIES = 7,
};

static void register_regions(struct rc *rc)
{
	for (int i = 0; i < REGIONS; i++) {
		struct ibv_mr *mr;

		do
			mr = ibv_reg_mr(rc->pd, rc->buf, LEN, 0);
		while (!mr && errno == ENOMEM);
		CHECK(mr);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
}

/* Fills it with bytes that differ in each message. */
static void fill(char *data, int number)
{
	for (int i = 0; i < LEN; i++)
		data[i] = (char)(7 * number + i);
}

static struct ibv_sge slot(const struct rc *rc, int number)
{
	return (struct ibv_sge){ (uintptr_t)rc->buf + (size_t)number * LEN, LEN, rc->mr->lkey };
}

static void send_one(struct rc *rc, int number)
{
	struct ibv_sge sge = slot(rc, number);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	int err;

	fill(rc->buf + number * LEN, number);
	do
		err = ibv_post_send(rc->qp, &wr, &bad);
	while (err == EAGAIN);
	CHECK_EQ(err, 0);
}

static void receive(int sock, uint8_t timeout)
{
	struct rc_addr peer;
	char want[LEN];
	struct rc rc;

	rc_open(&rc, MESSAGES * LEN);
	register_regions(&rc);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = slot(&rc, i);
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

		CHECK_EQ(ibv_post_recv(rc.qp, &wr, &bad), 0);
	}
	rc_pair(&rc, sock, &peer, timeout, RETRIES);
	for (int i = 0; i < MESSAGES; i++) {
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		fill(want, i);
		CHECK_MEM(rc.buf + i * LEN, want, LEN);
	}
	rc_barrier(sock);
	rc_close(&rc);
	exit(0);
}

int main(int argc, char **argv)
{
	uint8_t timeout = argc > 1 ? (uint8_t)atoi(argv[1]) : 0;
	int pair[2], status, sent = 0;
	struct rc_addr peer;
	struct rc rc;
	pid_t child;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child = fork();
	CHECK(child >= 0);
	alarm(RC_LIMIT_S);
	if (!child)
		receive(pair[1], timeout);
	close(pair[1]);
	rc_open(&rc, MESSAGES * LEN);
	register_regions(&rc);
	rc_pair(&rc, pair[0], &peer, timeout, RETRIES);
	for (int round = 0; round < ROUNDS; round++) {
		int n = round == TWO ? 2 : 1;

		for (int i = 0; i < n; i++)
			send_one(&rc, sent++);
		for (int i = 0; i < n; i++)
			CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
	}
	rc_barrier(pair[0]);
	rc_close(&rc);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return 0;
}
