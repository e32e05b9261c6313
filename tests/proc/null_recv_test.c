/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message from another process arrives in a receive whose middle SGE is a null MR. The bytes for
 * the null MR must be dropped; all others must arrive. The receiver pulls a large payload from the
 * sender's memory, and a null MR has no address to pull to.
 *
 *	null_recv_test [TRANSPORT]
 */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"

enum {
	BEFORE = 1000,
	DROPPED = 60001,
	AFTER = 40000,
	SIZE = BEFORE + DROPPED + AFTER,
	SHORTER = BEFORE + DROPPED / 2, /* ends within the null region */
	UNTOUCHED = 0xee,
	MESSAGES = 20, /* the first ones are not pulled: the peer is not looked up yet */
	TIMEOUT = 14,
	RETRIES = 7,
};

static unsigned char pattern(int i)
{
	return (unsigned char)(i * 7 + i / 256);
}

static int length_of(int message)
{
	return message % 2 ? SHORTER : SIZE;
}

static void run_sender(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rc_open(&rc, SIZE);
	for (int i = 0; i < SIZE; i++)
		rc.buf[i] = (char)pattern(i);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < MESSAGES; i++) {
		rc_barrier(sock);
		CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, length_of(i), &peer, i) == 0);
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
	}
	rc_barrier(sock);
	rc_close(&rc);
	exit(0);
}

/* Replaces the QP of rc_open(), whose receives have one SGE. */
static void use_three_sges(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 3 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	CHECK(ibv_destroy_qp(rc->qp) == 0);
	rc->qp = ibv_create_qp(rc->pd, &init);
	CHECK(rc->qp);
	CHECK(ibv_modify_qp(rc->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
}

/* Receives and checks one message of len bytes. */
static void receive(struct rc *rc, struct ibv_mr *null, int sock, int len)
{
	struct ibv_sge sge[] = {
		{ (uintptr_t)rc->buf, BEFORE, rc->mr->lkey },
		{ 0, DROPPED, null->lkey },
		{ (uintptr_t)rc->buf + BEFORE, AFTER, rc->mr->lkey },
	};
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = 3 }, *bad;
	int after = len > BEFORE + DROPPED ? len - BEFORE - DROPPED : 0;
	struct ibv_wc wc;

	memset(rc->buf, UNTOUCHED, SIZE);
	CHECK(ibv_post_recv(rc->qp, &wr, &bad) == 0);
	rc_barrier(sock);
	wc = rc_wait(rc);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, len);
	for (int i = 0; i < BEFORE; i++)
		CHECK_EQ((unsigned char)rc->buf[i], pattern(i));
	for (int i = 0; i < after; i++)
		CHECK_EQ((unsigned char)rc->buf[BEFORE + i], pattern(BEFORE + DROPPED + i));
	for (int i = BEFORE + after; i < SIZE; i++)
		CHECK_EQ((unsigned char)rc->buf[i], UNTOUCHED);
}

int main(int argc, char **argv)
{
	struct rc_addr peer;
	struct ibv_mr *null;
	int sock[2], status;
	struct rc rc;
	pid_t pid;

	alarm(RC_LIMIT_S);
	if (argc > 1)
		CHECK(setenv("VERBENA_TRANSPORT", argv[1], 1) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		run_sender(sock[1]);
	rc_open(&rc, SIZE);
	use_three_sges(&rc);
	null = ibv_alloc_null_mr(rc.pd);
	CHECK(null);
	rc_pair(&rc, sock[0], &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < MESSAGES; i++)
		receive(&rc, null, sock[0], length_of(i));
	rc_barrier(sock[0]);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(ibv_dereg_mr(null) == 0);
	rc_close(&rc);
	return 0;
}
