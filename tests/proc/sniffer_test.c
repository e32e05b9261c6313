/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sniffer sees what other processes of the user say by shared memory: one-sided writes between
 * two QPs of a child, as packets.  Two sniffers, which come while the traffic flows, and one of
 * them goes.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"
#include "unit/flow_env.h"

enum {
	SLOTS = 64,
	ROOM = 8192,
	RC_WRITE_ONLY = 0x0a,
	LEN = 100,
};

/* Writes from one QP to another until the other end of `stop` is closed. */
static void talk(int tell, int stop)
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
	CHECK(write(tell, &b->qp_num, sizeof(b->qp_num)) == sizeof(b->qp_num));
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
	uint8_t *room;
};

static void post(struct sniffer *s, uint64_t slot)
{
	struct ibv_sge sge = { (uintptr_t)s->room + slot * ROOM, ROOM, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(s->qp, &wr, &bad) == 0);
}

static void begin(struct sniffer *s, struct rc *rc)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { 1, SLOTS, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct spec_list list;

	s->room = calloc(SLOTS, ROOM);
	s->mr = ibv_reg_mr(rc->pd, s->room, (size_t)SLOTS * ROOM, IBV_ACCESS_LOCAL_WRITE);
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

static void end(struct sniffer *s)
{
	CHECK(ibv_destroy_flow(s->flow) == 0);
	CHECK(ibv_destroy_qp(s->qp) == 0);
	CHECK(ibv_destroy_cq(s->cq) == 0);
	CHECK(ibv_dereg_mr(s->mr) == 0);
	free(s->room);
}

static bool is_write(const uint8_t *frame, uint32_t len, uint32_t qpn)
{
	const uint8_t *bth = frame + 14 + (get_be16(frame + 12) == 0x0800 ? 20 : 40) + 8;

	return (size_t)(bth + 28 + LEN - frame) <= len && bth[0] == RC_WRITE_ONLY &&
	       get_be24(bth + 5) == qpn;
}

/* Until n writes to that QP were seen. */
static void see(struct sniffer *s, unsigned int n, uint32_t qpn)
{
	struct ibv_wc wc;

	while (n) {
		if (ibv_poll_cq(s->cq, 1, &wc) != 1)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS);
		n -= is_write(s->room + wc.wr_id * ROOM, wc.byte_len, qpn);
		post(s, wc.wr_id);
	}
}

int main(void)
{
	struct sniffer first, second;
	int tell[2], stop[2], status;
	uint32_t qpn;
	struct rc rc;
	pid_t child;

	setenv("VERBENA_RAW", "virtual", 1);
	alarm(RC_LIMIT_S);
	CHECK(pipe(tell) == 0 && pipe(stop) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(fcntl(stop[0], F_SETFL, O_NONBLOCK) == 0);
		close(stop[1]);
		talk(tell[1], stop[0]);
	}
	close(stop[0]);
	CHECK(read(tell[0], &qpn, sizeof(qpn)) == sizeof(qpn));
	rc_open(&rc, 4096);
	begin(&first, &rc);
	see(&first, 20, qpn);
	begin(&second, &rc);
	see(&second, 20, qpn);
	see(&first, 20, qpn);
	end(&first);
	see(&second, 20, qpn);
	end(&second);
	close(stop[1]);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	rc_close(&rc);
	CHECK(rc_slot_files() == 0);
	return 0;
}
