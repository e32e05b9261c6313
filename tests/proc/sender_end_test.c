/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender whose QP has ended stores other bytes where the payload was. Its peer, which was stopped
 * until then, receives what was sent, or nothing.
 *
 *	sender_end_test ERR|RESET|DESTROY [imm]		SEND, or WRITE with immediate
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum { SIZE = 65536, SENT = 0x33, LATER = 0x22, POLLS = 1000, TIMEOUT = 14, RETRIES = 7 };

static void receive(int sock)
{
	struct rc_addr peer;
	struct ibv_wc wc;
	struct rc rc;
	char ended;
	int n = 0;

	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_post_recv(&rc, rc.qp, 0);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	memset(rc.buf, 0, SIZE);
	rc_post_recv(&rc, rc.qp, 1);
	child_send(sock, "r", 1);
	child_recv(sock, &ended, 1);
	for (int i = 0; i < POLLS && n == 0; i++)
		n = ibv_poll_cq(rc.cq, 1, &wc);
	CHECK(n >= 0);
	for (int i = 0; n > 0 && i < SIZE; i++)
		CHECK_EQ(rc.buf[i], SENT);
	rc_close(&rc);
}

static void end_qp(struct rc *rc, const char *how)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	if (strcmp(how, "DESTROY") == 0) {
		CHECK(ibv_destroy_qp(rc->qp) == 0);
		rc->qp = rc_new_qp(rc);
		return;
	}
	if (strcmp(how, "RESET") == 0)
		attr.qp_state = IBV_QPS_RESET;
	CHECK(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE) == 0);
	if (attr.qp_state == IBV_QPS_ERR) {
		wc = rc_wait(rc);
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
}

int main(int argc, char **argv)
{
	bool imm = argc > 2 && strcmp(argv[2], "imm") == 0;
	enum ibv_wr_opcode opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
	struct child receiver = child_fork(receive);
	struct rc_addr peer;
	struct rc rc;
	char ready;

	CHECK(argc > 1);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_pair(&rc, receiver.sock, &peer, TIMEOUT, RETRIES);
	CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, 8, &peer, 0) == 0);
	CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
	child_recv(receiver.sock, &ready, 1);
	child_stop(receiver.pid);
	memset(rc.buf, SENT, SIZE);
	CHECK(rc_post_send(&rc, rc.qp, opcode, SIZE, &peer, 1) == 0);
	end_qp(&rc, argv[1]);
	memset(rc.buf, LATER, SIZE);
	child_send(receiver.sock, "e", 1);
	CHECK(kill(receiver.pid, SIGCONT) == 0);
	child_join(&receiver);
	rc_close(&rc);
	return 0;
}
