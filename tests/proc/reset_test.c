/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP that is reset and connected again, with PSNs that it had before, receives nothing that was
 * sent to it before: such a message has arrived while it could not receive, and a device has
 * dropped it. The processes have no progress threads, so what comes waits until they poll.
 *
 *	reset_test BOTH TYPE [udp]	both ends are reset
 *	reset_test LATE TYPE [udp]	the sender is reset later, and sends in between
 *	reset_test ONE TYPE [udp]	the sender is not reset, but waits (UC, UD)
 *
 * Nor does a sender that is not reset write to the memory of a connection with other PSNs.
 *
 *	reset_test WRITE RC [udp]
 *
 * A receiver that is not reset gets what a sender sends that was (UC, not by UDP, where a packet
 * with a PSN of before counts as a duplicate).
 *
 *	reset_test SENDER UC
 *
 * TYPE: RC, UC, UD.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum {
	OLD = 5,	/* messages of the first connection */
	LEN = 512,
	QKEY = 0x1234,
	GRH = sizeof(struct ibv_grh),
	SIZE = OLD * LEN,
	POLLS = 10,
	OTHER_PSN = 1000,
	NEXT_PSN = 1,	/* behind the first message, so that PSNs do not tell old from new */
	TIMEOUT = 14,
	RETRIES = 7,
};

struct end {
	struct rc rc;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct rc_addr peer;
	int sock;
};

static enum ibv_qp_type type;
static bool late, sender_is_reset, receiver_is_reset;

static struct ibv_qp *new_qp(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = type,
		.cap = { .max_send_wr = RC_DEPTH, .max_recv_wr = RC_DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	return qp;
}

static void reset(struct end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), 0);
}

static void to_init(struct end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
}

static void to_rts(struct end *e, uint32_t psn)
{
	int rtr_mask = IBV_QP_STATE, rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	struct ibv_qp_attr rtr = rc_rtr_attr(&e->rc, &e->peer), rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = TIMEOUT, .retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
	};

	rtr.rq_psn = psn;
	if (type != IBV_QPT_UD)
		rtr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC) {
		rtr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC;
	}
	CHECK_EQ(ibv_modify_qp(e->qp, &rtr, rtr_mask), 0);
	CHECK_EQ(ibv_modify_qp(e->qp, &rts, rts_mask), 0);
}

static void open_end(struct end *e, int sock)
{
	struct rc_addr own;

	alarm(RC_LIMIT_S);
	rc_open(&e->rc, SIZE);
	e->sock = sock;
	e->qp = new_qp(&e->rc);
	own = rc_address(&e->rc, e->qp);
	child_send(sock, &own, sizeof(own));
	child_recv(sock, &e->peer, sizeof(e->peer));
	if (type == IBV_QPT_UD) {
		struct ibv_qp_attr attr = rc_rtr_attr(&e->rc, &e->peer);

		e->ah = ibv_create_ah(e->rc.pd, &attr.ah_attr);
		CHECK(e->ah);
	}
	to_init(e);
	to_rts(e, 0);
	rc_barrier(sock);
}

static void close_end(struct end *e)
{
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	if (e->ah)
		CHECK_EQ(ibv_destroy_ah(e->ah), 0);
	rc_close(&e->rc);
}

static void post_send(struct end *e, int value, int flags)
{
	struct ibv_sge sge = { (uintptr_t)e->rc.buf, LEN - GRH, e->rc.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = flags,
	};

	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = e->ah;
		wr.wr.ud.remote_qpn = e->peer.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	memset(e->rc.buf, value, LEN);
	CHECK_EQ(ibv_post_send(e->qp, &wr, &bad), 0);
}

static void post_receives(struct end *e)
{
	for (int i = 0; i < OLD; i++) {
		struct ibv_sge sge = { (uintptr_t)e->rc.buf + i * LEN, LEN, e->rc.mr->lkey };
		struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		CHECK_EQ(ibv_post_recv(e->qp, &wr, &bad), 0);
	}
}

/*
 * Those of RC are not complete. What the wire has brought to the wrong process of the two is handed
 * over by the polls.
 */
static void send_old(struct end *e)
{
	struct ibv_wc wc;

	for (int i = 0; i < OLD; i++)
		post_send(e, 1 + i, i == OLD - 1 && type != IBV_QPT_RC ? IBV_SEND_SIGNALED : 0);
	if (type != IBV_QPT_RC)
		CHECK_EQ(rc_wait(&e->rc).status, IBV_WC_SUCCESS);
	for (int i = 0; i < POLLS; i++)
		CHECK_EQ(ibv_poll_cq(e->rc.cq, 1, &wc), 0);
}

/* Polls until the other end tells to go on: there may be ACKs to send, or packets to hand over. */
static void poll_until_told(struct end *e)
{
	struct pollfd p = { .fd = e->sock, .events = POLLIN };
	struct ibv_wc wc;
	char byte;

	while (poll(&p, 1, 0) == 0)
		CHECK_EQ(ibv_poll_cq(e->rc.cq, 1, &wc), 0);
	child_recv(e->sock, &byte, 1);
}

static void tell(struct end *e)
{
	child_send(e->sock, "", 1);
}

static void send_one(struct end *e, int value)
{
	post_send(e, value, IBV_SEND_SIGNALED);
	CHECK_EQ(rc_wait(&e->rc).status, IBV_WC_SUCCESS);
}

/* The next message is the one with this value. */
static void expect(struct end *e, int value)
{
	struct ibv_wc wc = rc_wait(&e->rc);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(e->rc.buf[wc.wr_id * LEN + LEN - GRH - 1], value);
}

static void sender(int sock)
{
	struct end e = { 0 };

	open_end(&e, sock);
	rc_barrier(sock);
	send_one(&e, 50);
	tell(&e);
	poll_until_told(&e);
	if (late)
		rc_barrier(sock);
	send_old(&e);
	if (sender_is_reset)
		reset(&e);
	rc_barrier(sock);
	if (sender_is_reset) {
		to_init(&e);
		to_rts(&e, receiver_is_reset ? NEXT_PSN : 0);
	}
	rc_barrier(sock);
	send_one(&e, 100);
	tell(&e);
	poll_until_told(&e);
	close_end(&e);
}

static void take_old(struct end *e)
{
	post_receives(e);
	for (int i = 0; i < OLD; i++)
		expect(e, 1 + i);
}

static void receiver(int sock)
{
	struct end e = { 0 };

	open_end(&e, sock);
	post_receives(&e);
	rc_barrier(sock);
	expect(&e, 50);
	poll_until_told(&e);
	tell(&e);
	if (late) {
		reset(&e);
		rc_barrier(sock);
	}
	rc_barrier(sock);
	if (!receiver_is_reset) {
		take_old(&e);
	} else {
		if (!late)
			reset(&e);
		to_init(&e);
		to_rts(&e, NEXT_PSN);
	}
	post_receives(&e);
	rc_barrier(sock);
	expect(&e, 100);
	poll_until_told(&e);
	tell(&e);
	close_end(&e);
}

static enum ibv_wc_status write_value(struct end *e, int value)
{
	memset(e->rc.buf, value, LEN);
	CHECK_EQ(rc_post_send(&e->rc, e->qp, IBV_WR_RDMA_WRITE, LEN, &e->peer, 0), 0);
	return rc_wait(&e->rc).status;
}

static void writer(int sock)
{
	struct end e = { 0 };

	open_end(&e, sock);
	CHECK_EQ(write_value(&e, 1), IBV_WC_SUCCESS);
	tell(&e);
	poll_until_told(&e);
	CHECK_EQ(write_value(&e, 2), IBV_WC_RETRY_EXC_ERR);
	tell(&e);
	poll_until_told(&e);
	close_end(&e);
}

static void target(int sock)
{
	struct end e = { 0 };

	open_end(&e, sock);
	poll_until_told(&e);
	CHECK_EQ(e.rc.buf[LEN - 1], 1);
	reset(&e);
	to_init(&e);
	to_rts(&e, OTHER_PSN);
	tell(&e);
	poll_until_told(&e);
	CHECK_EQ(e.rc.buf[LEN - 1], 1);
	tell(&e);
	close_end(&e);
}

int main(int argc, char **argv)
{
	struct child c;
	bool writes;

	CHECK(argc > 2);
	late = !strcmp(argv[1], "LATE");
	sender_is_reset = strcmp(argv[1], "ONE") != 0;
	receiver_is_reset = strcmp(argv[1], "SENDER") != 0;
	type = !strcmp(argv[2], "RC") ? IBV_QPT_RC :
	       !strcmp(argv[2], "UC") ? IBV_QPT_UC : IBV_QPT_UD;
	CHECK_EQ(setenv("VERBENA_PROGRESS", "none", 1), 0);
	CHECK_EQ(setenv("VERBENA_TRANSPORT", argc > 3 ? argv[3] : "local", 1), 0);
	writes = !strcmp(argv[1], "WRITE");
	c = child_fork(writes ? target : receiver);
	if (writes)
		writer(c.sock);
	else
		sender(c.sock);
	child_join(&c);
	return 0;
}
