/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process learns its place among the sockets of the port from a probe, and until then the kernel
 * spreads its packets over all of them. A QP that others may send to has been settled: though the
 * reply to the probe was not read when the device was opened, each datagram arrives. Nobody else
 * passes one on, as no process has a progress thread and only the receiver polls.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "next_syscall.h"
#include "rc.h"

enum {
	SIZE = 4096,
	LEN = 64,
	BYSTANDERS = 2,
	QPS = 16, /* of each end: a datagram's source port, and so its place, is that of its QP */
	QKEY = 0x11111111,
};

static bool withheld; /* no packet can be read */

/* Replaces that of the C library. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
	va_list args;
	long ret;

	if (withheld && number == SYS_recvmmsg) {
		errno = EAGAIN;
		return -1;
	}
	va_start(args, number);
	ret = next_syscall(number, args);
	va_end(args);
	return ret;
}

static struct ibv_qp *new_ud_qp(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq,
		.recv_cq = rc->cq,
		.qp_type = IBV_QPT_UD,
		.cap = { QPS, QPS, 1, 1, 0 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

static void stand_by(int sock)
{
	struct rc rc;

	rc_open(&rc, SIZE);
	rc_barrier(sock);
	rc_barrier(sock);
	rc_close(&rc);
}

static void receive(int sock)
{
	struct ibv_qp *qp[QPS];
	uint32_t qpn[QPS];
	struct rc rc;

	withheld = true;
	rc_open(&rc, SIZE);
	withheld = false;
	for (int i = 0; i < QPS; i++) {
		qp[i] = new_ud_qp(&rc);
		qpn[i] = qp[i]->qp_num;
		rc_post_recv(&rc, qp[i], i);
	}
	child_send(sock, qpn, sizeof(qpn));
	rc_barrier(sock);
	for (int i = 0; i < QPS; i++)
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
	for (int i = 0; i < QPS; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	rc_barrier(sock);
	rc_close(&rc);
}

static void send_datagram(struct rc *rc, struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, LEN, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY },
	};

	CHECK_EQ(ibv_post_send(qp, &wr, &bad), 0);
}

static void send_to(int sock)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_qp *qp[QPS];
	uint32_t qpn[QPS];
	struct ibv_ah *ah;
	struct rc rc;

	rc_open(&rc, SIZE);
	attr.grh.dgid = rc.gid;
	attr.grh.sgid_index = rc.gid_index;
	attr.grh.hop_limit = 64;
	ah = ibv_create_ah(rc.pd, &attr);
	CHECK(ah);
	for (int i = 0; i < QPS; i++)
		qp[i] = new_ud_qp(&rc);
	child_recv(sock, qpn, sizeof(qpn));
	for (int i = 0; i < QPS; i++)
		send_datagram(&rc, qp[i], ah, qpn[i]);
	rc_barrier(sock);
	rc_barrier(sock);
	for (int i = 0; i < QPS; i++)
		CHECK_EQ(ibv_destroy_qp(qp[i]), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	rc_close(&rc);
}

int main(void)
{
	struct child bystander[BYSTANDERS], receiver;

	alarm(RC_LIMIT_S);
	CHECK(setenv("VERBENA_TRANSPORT", "udp", 1) == 0);
	CHECK(setenv("VERBENA_PROGRESS", "none", 1) == 0);
	CHECK(setenv("VERBENA_DEVICES", "lo", 1) == 0);
	for (int i = 0; i < BYSTANDERS; i++) {
		bystander[i] = child_fork(stand_by);
		rc_barrier(bystander[i].sock);
	}
	receiver = child_fork(receive);
	send_to(receiver.sock);
	child_join(&receiver);
	for (int i = 0; i < BYSTANDERS; i++) {
		rc_barrier(bystander[i].sock);
		child_join(&bystander[i]);
	}
	return 0;
}
