/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests without a completion, between two processes of a host. The sender does not read the
 * progress word for them, so whatever depends on their end must see to it:
 *
 *	ERROR	moved to ERR, the QP flushes none of those that were executed
 *	OVERRUN	nor if its receive CQ overruns
 *	SQD	the send queue drains
 *	DIRECT	a WRITE and an atomic behind them run, once they are complete
 *	CREDITS	the sender learns of new receives
 *
 * There are neither ACK timeouts, nor progress threads, nor UDP.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rc.h"
#include "child.h"

enum {
	SIZE = 64,
	MESSAGES = 40,
	RECEIVES = 2,		/* that the receiver posts at a time, in CREDITS */
	SIGNALED_EACH = 20,	/* in CREDITS */
	LAST = 1000,
	ADD = 7,
};

static const char *what;
static struct ibv_cq *recv_cq;	/* in OVERRUN */

static bool is(const char *name)
{
	return strcmp(what, name) == 0;
}

static void post(struct rc *rc, int id, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, SIZE, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1,
					.opcode = IBV_WR_SEND, .send_flags = flags };

	CHECK_EQ(ibv_post_send(rc->qp, &wr, &bad), 0);
}

static void receiver(int sock)
{
	int ahead = is("CREDITS") ? RECEIVES : MESSAGES;
	struct rc_addr peer;
	struct rc rc;
	char done = 'D';

	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	for (int i = 0; i < ahead; i++)
		rc_post_recv(&rc, rc.qp, i);
	rc_pair(&rc, sock, &peer, 0, 0);
	for (int i = 0; i < MESSAGES; i++) {
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		if (is("CREDITS"))
			rc_post_recv(&rc, rc.qp, i);
	}
	child_send(sock, &done, 1);
	for (;;)
		pause();
}

static void expect_nothing(struct rc *rc)
{
	struct ibv_wc wc;

	for (int i = 0; i < 100; i++)
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
}

static void move(struct rc *rc, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = 1 };

	CHECK_EQ(ibv_modify_qp(rc->qp, &attr,
			       IBV_QP_STATE | (state == IBV_QPS_SQD ? IBV_QP_EN_SQD_ASYNC_NOTIFY
								    : 0)), 0);
}

static void expect_drained(struct rc *rc)
{
	struct pollfd fd = { .fd = rc->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	struct ibv_wc wc;

	while (poll(&fd, 1, 0) == 0)
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
	CHECK_EQ(ibv_get_async_event(rc->ctx, &event), 0);
	CHECK_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
	ibv_ack_async_event(&event);
}

static void expect(struct rc *rc, uint64_t id)
{
	struct ibv_wc wc = rc_wait(rc);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, id);
}

/* All are executed then. Requests may wait for the lane, so this polls. */
static void wait_for_receiver(struct rc *rc, int sock)
{
	struct ibv_wc wc;
	char done;

	while (recv(sock, &done, 1, MSG_DONTWAIT) != 1) {
		CHECK_EQ(errno, EAGAIN);
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
	}
}

static struct ibv_qp *new_sender(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq, .recv_cq = recv_cq, .qp_type = IBV_QPT_RC,
		.cap = { MESSAGES, 1, 1, 1, 0 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS), 0);
	return qp;
}

/* Two QPs of this process overrun the CQ: what the peer sends would bring its ACK along. */
static void overrun(struct rc *rc)
{
	struct ibv_cq *own = rc->cq;
	struct ibv_async_event event;
	struct rc_addr addr[2];
	struct ibv_qp *qp[2];
	struct ibv_wc wc;

	rc->cq = recv_cq;
	for (int i = 0; i < 2; i++) {
		qp[i] = rc_new_quiet_qp(rc);
		addr[i] = rc_address(rc, qp[i]);
	}
	rc->cq = own;
	for (int i = 0; i < 2; i++)
		rc_connect(rc, qp[i], &addr[!i], 0, 0);
	for (int i = 0; i <= recv_cq->cqe; i++) {
		rc_post_recv(rc, qp[1], i);
		CHECK_EQ(rc_post_send(rc, qp[0], IBV_WR_SEND, SIZE, &addr[1], i), 0);
	}
	do {
		struct pollfd fd = { .fd = rc->ctx->async_fd, .events = POLLIN };

		while (poll(&fd, 1, 0) == 0)
			CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
		CHECK_EQ(ibv_get_async_event(rc->ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_QP_FATAL || event.element.qp != rc->qp);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
}

static void end(struct rc *rc, int sock, const struct rc_addr *peer)
{
	if (is("DIRECT")) {
		CHECK_EQ(rc_post_send(rc, rc->qp, IBV_WR_RDMA_WRITE, SIZE, peer, LAST), 0);
		CHECK_EQ(rc_post_fetch_add(rc, rc->qp, ADD, peer, LAST + 1), 0);
		expect(rc, LAST);
		expect(rc, LAST + 1);
	}
	wait_for_receiver(rc, sock);
	if (is("SQD")) {
		move(rc, IBV_QPS_SQD);
		expect_drained(rc);
	}
	if (is("ERROR"))
		move(rc, IBV_QPS_ERR);
	if (is("OVERRUN"))
		overrun(rc);
	expect_nothing(rc);
}

static void send_all(struct rc *rc)
{
	for (int i = 0; i < MESSAGES; i++) {
		bool signaled = is("CREDITS") && (i + 1) % SIGNALED_EACH == 0;

		post(rc, i, signaled ? IBV_SEND_SIGNALED : 0);
		if (signaled)
			expect(rc, i);
	}
}

int main(int argc, char **argv)
{
	struct child child;
	struct rc_addr peer;
	struct rc rc;

	what = argc > 1 ? argv[1] : "ERROR";
	alarm(RC_LIMIT_S);
	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	child = child_fork(receiver);
	rc_open(&rc, SIZE);
	CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	if (is("OVERRUN"))
		recv_cq = ibv_create_cq(rc.ctx, 1, NULL, NULL, 0);
	rc.qp = recv_cq ? new_sender(&rc) : rc_new_quiet_qp(&rc);
	rc_pair(&rc, child.sock, &peer, 0, 0);
	send_all(&rc);
	end(&rc, child.sock, &peer);
	child_kill(&child);
	rc_close(&rc);
	return 0;
}
