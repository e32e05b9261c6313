/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to a process of this host that does not take them, because it is stopped.
 *
 *	STOPPED	It has a receive for each, and continues after more than a second. It must get all,
 *		though its lane could not hold them.
 *	IN_TURN	It never continues. The same QP sends to another process in turn, which must get its
 *		datagrams without waiting for each of the others.
 *
 * There is no progress thread and no UDP, so a process that does not poll is as good as stopped.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"
#include "rc.h"

enum {
	DEPTH = 256,
	QKEY = 77,
	GRH = 40,
	DATAGRAMS = 200,	/* more than the slots of a lane; a second for each is too long */
	SMALL = 8,
	LARGE = 1000,		/* few fit into a lane */
	STOPPED_MS = 1500,
};

static struct ibv_qp *new_ud_qp(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq, .recv_cq = rc->cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = { .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

/* ---- receivers ---- */

static void open_receiver(struct rc *rc, int sock)
{
	alarm(RC_LIMIT_S);
	rc_open(rc, GRH + LARGE);
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
	rc->qp = new_ud_qp(rc);
	for (int i = 0; i < DATAGRAMS; i++)
		rc_post_recv(rc, rc->qp, i);
	child_send(sock, &rc->qp->qp_num, sizeof(rc->qp->qp_num));
}

/* Receives all when it is told to. */
static void stopped_receiver(int sock)
{
	struct rc rc;
	char go;

	open_receiver(&rc, sock);
	child_recv(sock, &go, 1);
	for (uint32_t i = 0; i < DATAGRAMS; i++) {
		struct ibv_wc wc = rc_wait(&rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.imm_data, i);
	}
	child_send(sock, &go, 1);
	child_recv(sock, &go, 1);
}

/* Tells of each datagram. */
static void live_receiver(int sock)
{
	struct rc rc;
	char go;

	open_receiver(&rc, sock);
	for (int i = 0; i < DATAGRAMS; i++) {
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
		child_send(sock, "R", 1);
	}
	child_recv(sock, &go, 1);
}

/* ---- the sender ---- */

struct sender {
	struct rc rc;
	struct ibv_ah *ah;
	struct ibv_qp *qp;
	uint32_t open;		/* requests without their completions */
};

static void open_sender(struct sender *s)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 };

	alarm(RC_LIMIT_S);
	rc_open(&s->rc, LARGE);
	ah.grh.dgid = s->rc.gid;
	ah.grh.sgid_index = (uint8_t)s->rc.gid_index;
	s->ah = ibv_create_ah(s->rc.pd, &ah);
	CHECK(s->ah);
	s->qp = new_ud_qp(&s->rc);
}

static void close_sender(struct sender *s)
{
	CHECK_EQ(ibv_destroy_qp(s->qp), 0);
	CHECK_EQ(ibv_destroy_ah(s->ah), 0);
	rc_close(&s->rc);
}

static void send_datagram(struct sender *s, uint32_t qpn, uint32_t len, uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)s->rc.buf, len, s->rc.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = imm,
		.wr.ud = { s->ah, qpn, QKEY },
	};

	CHECK_EQ(ibv_post_send(s->qp, &wr, &bad), 0);
	s->open++;
}

static void take_completions(struct sender *s)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(s->rc.cq, 1, &wc) == 1) {
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		s->open--;
	}
}

static void wait_for(struct sender *s, const struct child *child)
{
	char what;

	while (recv(child->sock, &what, 1, MSG_DONTWAIT) != 1) {
		CHECK_EQ(errno, EAGAIN);
		take_completions(s);
	}
}

static uint32_t number_of(const struct child *child)
{
	uint32_t qpn;

	child_recv(child->sock, &qpn, sizeof(qpn));
	return qpn;
}

static void test_stopped(void)
{
	struct child child = child_fork(stopped_receiver);
	uint32_t qpn = number_of(&child);
	struct sender s = { 0 };
	uint64_t until;

	open_sender(&s);
	for (uint32_t i = 0; i < DATAGRAMS; i++)
		send_datagram(&s, qpn, SMALL, i);
	for (until = ms_now() + STOPPED_MS; ms_now() < until;)
		take_completions(&s);
	child_send(child.sock, "G", 1);
	wait_for(&s, &child);
	while (s.open)
		take_completions(&s);
	child_kill(&child);
	close_sender(&s);
}

static void test_in_turn(void)
{
	struct child stopped = child_fork(stopped_receiver), live = child_fork(live_receiver);
	uint32_t to_stopped = number_of(&stopped), to_live = number_of(&live);
	struct sender s = { 0 };

	open_sender(&s);
	for (uint32_t i = 0; i < DATAGRAMS; i++) {
		send_datagram(&s, to_stopped, LARGE, i);
		send_datagram(&s, to_live, LARGE, i);
		wait_for(&s, &live);
	}
	child_kill(&stopped);
	child_kill(&live);
	close_sender(&s);
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 2);
	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	if (!strcmp(argv[1], "STOPPED"))
		test_stopped();
	else
		test_in_turn();
	return 0;
}
