/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XRC calls of OFED, in three processes. A receive QP exists until the last process that is
 * registered for it has unregistered. The creator unregisters first: requests must still arrive.
 * After the receiver has unregistered too, they must fail.
 */
#define VERBENA_LEGACY_XRC

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "rc.h"
#include "child.h"

enum {
	TIMEOUT = 14,
	RETRIES = 7,
	LEN = 3000,
};

static int domain_file;

static void open_all(struct rc *rc, struct ibv_xrc_domain **d)
{
	alarm(RC_LIMIT_S);
	rc_open(rc, 65536);
	*d = ibv_open_xrc_domain(rc->ctx, domain_file, O_CREAT);
	CHECK(*d);
}

static void modify(struct ibv_xrc_domain *d, uint32_t qpn, struct ibv_qp_attr *attr, int mask)
{
	CHECK_EQ(ibv_modify_xrc_rcv_qp(d, qpn, attr, mask), 0);
}

static void connect_receiver(struct rc *rc, struct ibv_xrc_domain *d, uint32_t qpn,
			     const struct rc_addr *peer)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = rc_rtr_attr(rc, peer);

	modify(d, qpn, &init,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(d, qpn, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* Creates and connects the QP, and unregisters when the test says so. */
static void creator(int sock)
{
	struct ibv_qp_init_attr init = { 0 };
	struct ibv_xrc_domain *d;
	struct rc_addr own, peer;
	uint32_t qpn;
	struct rc rc;

	open_all(&rc, &d);
	init.xrc_domain = d;
	CHECK_EQ(ibv_create_xrc_rcv_qp(&init, &qpn), 0);
	own = rc_address(&rc, rc.qp);
	own.qpn = qpn;
	child_send(sock, &own, sizeof(own));
	child_recv(sock, &peer, sizeof(peer));
	connect_receiver(&rc, d, qpn, &peer);
	rc_barrier(sock);
	rc_barrier(sock);
	CHECK_EQ(ibv_unreg_xrc_rcv_qp(d, qpn), 0);
	CHECK_EQ(ibv_unreg_xrc_rcv_qp(d, qpn), EINVAL);
	CHECK_EQ(ibv_close_xrc_domain(d), 0);
	rc_close(&rc);
}

/* Owns the SRQ, registers for the QP and receives two messages. */
static void receiver(int sock)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr init;
	struct ibv_xrc_domain *d;
	struct ibv_recv_wr *bad;
	struct ibv_qp_attr attr;
	struct ibv_srq *srq;
	struct rc rc;
	uint32_t qpn;

	open_all(&rc, &d);
	child_recv(sock, &qpn, sizeof(qpn));
	srq = ibv_create_xrc_srq(rc.pd, d, rc.cq, &srq_attr);
	CHECK(srq);
	for (uint64_t i = 0; i < 4; i++) {
		struct ibv_sge sge = { (uintptr_t)rc.buf, LEN, rc.mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	CHECK_EQ(ibv_reg_xrc_rcv_qp(d, qpn ^ 1), EINVAL);
	CHECK_EQ(ibv_reg_xrc_rcv_qp(d, qpn), 0);
	CHECK_EQ(ibv_query_xrc_rcv_qp(d, qpn, &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_RTR);
	CHECK(init.xrc_domain == d);
	child_send(sock, &srq->xrc_srq_num, sizeof(srq->xrc_srq_num));
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_wc wc = rc_wait(&rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.byte_len, LEN);
		CHECK_EQ(wc.qp_num, qpn);
		rc_barrier(sock);
	}
	CHECK_EQ(ibv_close_xrc_domain(d), EBUSY);
	CHECK_EQ(ibv_unreg_xrc_rcv_qp(d, qpn), 0);
	rc_barrier(sock);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrc_domain(d), 0);
	rc_close(&rc);
}

static void send_one(struct rc *rc, struct ibv_qp *qp, uint32_t srqn, enum ibv_wc_status expected)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, LEN, rc->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .xrc_remote_srq_num = srqn }, *bad;

	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
	CHECK_EQ(rc_wait(rc).status, expected);
}

static struct ibv_qp *new_sender(struct rc *rc, struct ibv_xrc_domain *d)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq,
		.qp_type = IBV_QPT_XRC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp;

	init.xrc_domain = d;
	qp = ibv_create_qp(rc->pd, &init);
	CHECK(qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_ACCESS_FLAGS), 0);
	return qp;
}

int main(int argc, char **argv)
{
	char name[] = "/tmp/verbena-xrc-XXXXXX";
	struct child creating, receiving;
	struct rc_addr own, peer;
	struct ibv_xrc_domain *d;
	struct ibv_qp *qp;
	uint32_t srqn;
	struct rc rc;

	if (argc > 1)
		setenv("VERBENA_TRANSPORT", argv[1], 1);
	domain_file = mkstemp(name);
	CHECK(domain_file >= 0);
	unlink(name);
	creating = child_fork(creator);
	child_recv(creating.sock, &peer, sizeof(peer));
	receiving = child_fork(receiver);
	open_all(&rc, &d);
	qp = new_sender(&rc, d);
	own = rc_address(&rc, qp);
	child_send(creating.sock, &own, sizeof(own));
	rc_barrier(creating.sock);
	child_send(receiving.sock, &peer.qpn, sizeof(peer.qpn));
	child_recv(receiving.sock, &srqn, sizeof(srqn));
	rc_connect(&rc, qp, &peer, TIMEOUT, RETRIES);
	send_one(&rc, qp, srqn, IBV_WC_SUCCESS);
	rc_barrier(receiving.sock);
	rc_barrier(creating.sock);
	child_join(&creating);
	send_one(&rc, qp, srqn, IBV_WC_SUCCESS);
	rc_barrier(receiving.sock);
	rc_barrier(receiving.sock);
	send_one(&rc, qp, srqn, IBV_WC_RETRY_EXC_ERR);
	child_join(&receiving);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_close_xrc_domain(d), 0);
	rc_close(&rc);
	return 0;
}
