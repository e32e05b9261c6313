/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A responder that is to keep fewer READs in SQD still repeats the newest answers, which are lost
 * here. No thread makes progress but the test's own polls.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { BEFORE = 4, AFTER = 2 }; /* READs at a time */

static struct world w;
static struct ibv_cq *cq;
static struct buffer buf;

static void connect_reader(struct ibv_qp *reader, struct ibv_qp *responder)
{
	struct ibv_qp_attr attr;

	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		int mask = world_attr(&w, reader->qp_type, s, responder->qp_num, &attr);

		attr.max_rd_atomic = AFTER;
		CHECK_EQ(ibv_modify_qp(reader, &attr, mask), 0);
		world_move(&w, responder, s, reader->qp_num);
	}
}

static void post_read(struct ibv_qp *reader, uint32_t i, uint32_t srqn)
{
	struct ibv_sge sge = world_sge(&buf, 8ull * (BEFORE + i), 8);
	struct ibv_send_wr wr = world_rdma(IBV_WR_RDMA_READ, i, &sge, &buf, 8ull * i);

	wr.qp_type.xrc.remote_srqn = srqn;
	world_post(reader, &wr);
}

static void keep_fewer(struct ibv_qp *responder)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .max_dest_rd_atomic = AFTER };
	struct ibv_qp_init_attr init;

	CHECK_EQ(ibv_modify_qp(responder, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_modify_qp(responder, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(responder, &attr, IBV_QP_STATE), 0);
	CHECK_EQ(ibv_query_qp(responder, &attr, IBV_QP_MAX_DEST_RD_ATOMIC, &init), 0);
	CHECK_EQ(attr.max_dest_rd_atomic, AFTER);
}

static void read_before_and_after(struct ibv_qp *reader, struct ibv_qp *responder, uint32_t srqn)
{
	struct ibv_wc wc;

	connect_reader(reader, responder);
	for (uint32_t i = 0; i < BEFORE - AFTER; i++) {
		post_read(reader, i, srqn);
		world_expect(cq, i, IBV_WC_SUCCESS);
	}
	for (uint32_t i = BEFORE - AFTER; i < BEFORE; i++)
		post_read(reader, i, srqn);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0); /* the answers are lost */
	keep_fewer(responder);
	for (uint32_t i = BEFORE - AFTER; i < BEFORE; i++)
		world_expect(cq, i, IBV_WC_SUCCESS);
	CHECK_EQ(memcmp(buf.data, buf.data + 8ull * BEFORE, 8ull * BEFORE), 0);
	CHECK_EQ(ibv_destroy_qp(reader), 0);
	CHECK_EQ(ibv_destroy_qp(responder), 0);
}

static void test_rc(void)
{
	struct ibv_qp *reader = world_qp(&w, IBV_QPT_RC, cq, NULL);

	read_before_and_after(reader, world_qp(&w, IBV_QPT_RC, cq, NULL), 0);
}

static void test_xrc(void)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(w.ctx, &domain);
	struct ibv_srq_init_attr_ex srq_attr = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = w.pd,
		.xrcd = xrcd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(w.ctx, &srq_attr);
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp *reader = world_qp(&w, IBV_QPT_XRC_SEND, cq, NULL),
		      *responder = ibv_create_qp_ex(w.ctx, &init);
	uint32_t srqn;

	CHECK(xrcd && srq && responder);
	CHECK_EQ(ibv_get_srq_num(srq, &srqn), 0);
	memset(buf.data + 8ull * BEFORE, 0, 8ull * BEFORE);
	read_before_and_after(reader, responder, srqn);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	CHECK_EQ(ibv_close_xrcd(xrcd), 0);
}

int main(void)
{
	setenv("VERBENA_PROGRESS", "none", 1);
	/* what is repeated before the change, too */
	setenv("VERBENA_FAULTS",
	       "packet qp_index 2 tx opcode READ_RESPONSE nth 3..8 drop;"
	       "packet qp_index 4 tx opcode READ_RESPONSE nth 3..8 drop", 1);
	world_open(&w);
	cq = world_cq(&w, 8);
	buf = world_buffer(&w, 16ull * BEFORE, WORLD_ACCESS);
	for (size_t i = 0; i < 8ull * BEFORE; i++)
		buf.data[i] = (uint8_t)(i + 1);
	test_rc();
	test_xrc();
	world_free(&buf);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
