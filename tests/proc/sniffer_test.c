/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sniffer receives what other processes of the user send through shared memory.
 *
 *	(none)	A child writes from one of its QPs to another; no packet is sent, but each sniffer
 *		must receive a packet for each WRITE. Two sniffers start while the traffic flows,
 *		and one of them stops.
 *	XRC	The home of an XRC QP sends the ACK that the owner of the SRQ has built.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/flow_env.h"
#include "xrc_group.h"

enum {
	SLOTS = 64,
	FRAME_SIZE = 8192,
	RC_WRITE_ONLY = 0x0a,
	XRC_ACKNOWLEDGE = 0xb1,
	LEN = 100,
};

/* Writes from one QP to another until the other end of `stop` is closed. */
static void write_until_stopped(int qpn_pipe, int stop)
{
	struct rc_addr addr_a, addr_b;
	struct ibv_qp *b;
	struct rc rc;
	char byte;

	rc_open(&rc, 4096);
	b = rc_new_qp(&rc);
	addr_a = rc_address(&rc, rc.qp);
	addr_b = rc_address(&rc, b);
	rc_connect(&rc, rc.qp, &addr_b, 14, 7);
	rc_connect(&rc, b, &addr_a, 14, 7);
	CHECK(write(qpn_pipe, &b->qp_num, sizeof(b->qp_num)) == sizeof(b->qp_num));
	for (uint64_t i = 0; read(stop, &byte, 1) < 0; i++) {
		CHECK(rc_post_send(&rc, rc.qp, IBV_WR_RDMA_WRITE, LEN, &addr_b, i) == 0);
		CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		usleep(1000);
	}
	CHECK(ibv_destroy_qp(b) == 0);
	rc_close(&rc);
	exit(0);
}

struct sniffer {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_flow *flow;
	uint8_t *frames;
};

static void post(struct sniffer *s, uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)s->frames + slot * FRAME_SIZE, FRAME_SIZE, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(s->qp, &wr, &bad) == 0);
}

static void start_sniffer(struct sniffer *s, struct rc *rc)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { 1, SLOTS, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct spec_list list;

	s->frames = calloc(SLOTS, FRAME_SIZE);
	s->mr = ibv_reg_mr(rc->pd, s->frames, (size_t)SLOTS * FRAME_SIZE, IBV_ACCESS_LOCAL_WRITE);
	s->cq = ibv_create_cq(rc->ctx, 2 * SLOTS, NULL, NULL, 0);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(rc->pd, &init);
	CHECK(s->mr && s->cq && s->qp);
	CHECK(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_PORT) == 0);
	for (unsigned int i = 0; i < SLOTS; i++)
		post(s, i);
	attr.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(s->qp, &attr, IBV_QP_STATE) == 0);
	rule_begin(&list, IBV_FLOW_ATTR_SNIFFER);
	s->flow = ibv_create_flow(s->qp, &list.attr);
	CHECK(s->flow);
}

static void stop_sniffer(struct sniffer *s)
{
	CHECK(ibv_destroy_flow(s->flow) == 0);
	CHECK(ibv_destroy_qp(s->qp) == 0);
	CHECK(ibv_destroy_cq(s->cq) == 0);
	CHECK(ibv_dereg_mr(s->mr) == 0);
	free(s->frames);
}

/* rest: bytes of the packet, from the BTH. */
static bool is(const uint8_t *frame, uint32_t len, uint8_t opcode, uint32_t rest, uint32_t qpn)
{
	const uint8_t *bth = frame + 14 + (get_be16(frame + 12) == 0x0800 ? 20 : 40) + 8;

	return (size_t)(bth + rest - frame) <= len && bth[0] == opcode && get_be24(bth + 5) == qpn;
}

static bool is_write(const uint8_t *frame, uint32_t len, uint32_t qpn)
{
	return is(frame, len, RC_WRITE_ONLY, 28 + LEN, qpn);
}

/* Receives until n WRITEs to the QP have arrived. */
static void expect_writes(struct sniffer *s, unsigned int n, uint32_t qpn)
{
	struct ibv_wc wc;

	while (n) {
		if (ibv_poll_cq(s->cq, 1, &wc) != 1)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS);
		n -= is_write(s->frames + wc.wr_id * FRAME_SIZE, wc.byte_len, qpn);
		post(s, wc.wr_id);
	}
}

/* Takes all frames that have come. True: an ACK of the QP's requests is among them. */
static bool sees_ack(struct sniffer *s, uint32_t qpn)
{
	bool found = false;
	struct ibv_wc wc;

	while (ibv_poll_cq(s->cq, 1, &wc) == 1) {
		CHECK(wc.status == IBV_WC_SUCCESS);
		found |= is(s->frames + wc.wr_id * FRAME_SIZE, wc.byte_len, XRC_ACKNOWLEDGE, 16,
			    qpn);
		post(s, wc.wr_id);
	}
	return found;
}

/* All requests are the owner's; the home looks for sniffers from time to time. */
static void test_xrc(void)
{
	struct group f = { 0 };
	struct sniffer s;

	setenv("VERBENA_RAW", "virtual", 1);
	group_start(&f);
	start_sniffer(&s, &f.x.rc);
	do
		group_send(&f, 1, LEN);
	while (!sees_ack(&s, f.x.qp->qp_num));
	stop_sniffer(&s);
	group_end(&f);
}

static void test_writes(void)
{
	struct sniffer first, second;
	int qpn_pipe[2], stop[2], status;
	uint32_t qpn;
	struct rc rc;
	pid_t child;

	setenv("VERBENA_RAW", "virtual", 1);
	alarm(RC_LIMIT_S);
	CHECK(pipe(qpn_pipe) == 0 && pipe(stop) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(fcntl(stop[0], F_SETFL, O_NONBLOCK) == 0);
		close(stop[1]);
		write_until_stopped(qpn_pipe[1], stop[0]);
	}
	close(stop[0]);
	CHECK(read(qpn_pipe[0], &qpn, sizeof(qpn)) == sizeof(qpn));
	rc_open(&rc, 4096);
	start_sniffer(&first, &rc);
	expect_writes(&first, 20, qpn);
	start_sniffer(&second, &rc);
	expect_writes(&second, 20, qpn);
	expect_writes(&first, 20, qpn);
	stop_sniffer(&first);
	expect_writes(&second, 20, qpn);
	stop_sniffer(&second);
	close(stop[1]);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	rc_close(&rc);
	CHECK(rc_slot_files() == 0);
}

int main(int argc, char **argv)
{
	static const struct group_case cases[] = { { "XRC", test_xrc } };

	if (argc > 1)
		return group_main(argc, argv, cases, 1);
	test_writes();
	return 0;
}
