/* SPDX-License-Identifier: BSD-2-Clause */
#include "raw_bench.h"

#include <assert.h>
#include <stdio.h>

const uint8_t here[6] = { 2, 0, 0, 0x12, 0x34, 1 }, there[6] = { 2, 0, 0, 0x12, 0x34, 2 };

struct ibv_qp *new_qp(struct bench *b, struct ibv_srq *srq, uint32_t flags)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.srq = srq,
		.cap = { .max_send_wr = WR, .max_recv_wr = WR, .max_send_sge = 4, .max_recv_sge = 4,
			 .max_inline_data = 256 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = b->w.pd,
		.max_tso_header = 128,
		.send_ops_flags = IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_SEND,
		.create_flags = flags,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(b->w.ctx, &init);

	if (!qp)
		perror("ibv_create_qp_ex");
	CHECK(qp);
	return qp;
}

int move(struct ibv_qp *qp, enum ibv_qp_state next)
{
	struct ibv_qp_attr attr = { .qp_state = next, .port_num = 1 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (next == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

void to_rts(struct ibv_qp *qp)
{
	CHECK_EQ(move(qp, IBV_QPS_INIT), 0);
	CHECK_EQ(move(qp, IBV_QPS_RTR), 0);
	CHECK_EQ(move(qp, IBV_QPS_RTS), 0);
}

/* Steers frames with this destination address to the QP. */
struct ibv_flow *steer(struct ibv_qp *qp, const uint8_t dst[6])
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_action_tag tag;
	} rule = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(rule), .num_of_specs = 2,
			  .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth) },
		.tag = { .type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(rule.tag),
			 .tag_id = MARK },
	};
	struct ibv_flow *flow;

	static_assert(sizeof(rule) == sizeof(rule.attr) + sizeof(rule.eth) + sizeof(rule.tag),
		      "specs follow each other");
	memcpy(rule.eth.val.dst_mac, dst, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	flow = ibv_create_flow(qp, &rule.attr);
	if (!flow)
		perror("ibv_create_flow");
	CHECK(flow);
	return flow;
}

void open_bench(struct bench *b, uint32_t flags)
{
	world_open(&b->w);
	b->cq = world_cq(&b->w, 256);
	b->qp = new_qp(b, NULL, flags);
	to_rts(b->qp);
	b->rule = steer(b->qp, there);
	b->out = world_buffer(&b->w, 128 * 1024, WORLD_ACCESS);
	b->in = world_buffer(&b->w, 128 * 1024, WORLD_ACCESS);
	memset(b->in.data, CANARY, b->in.len);
	for (size_t i = 0; i < b->out.len; i++)
		b->out.data[i] = i * 7 + 1;
}

void close_bench(struct bench *b)
{
	CHECK_EQ(ibv_destroy_flow(b->rule), 0);
	CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	CHECK_EQ(ibv_destroy_cq(b->cq), 0);
	world_free(&b->out);
	world_free(&b->in);
	world_close(&b->w);
}

void set16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v;
}

void ethernet(uint8_t *p, uint16_t type)
{
	memcpy(p, there, 6);
	memcpy(p + 6, here, 6);
	set16(p + 12, type);
}

void post(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int n, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | flags };

	world_post(qp, &wr);
}

void receive_into(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = sge, .num_sge = n };

	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

/* Waits for the completions of one send and one receive, in any order. */
struct ibv_wc both(struct ibv_cq *cq)
{
	struct ibv_wc wc[2];

	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	CHECK(wc[0].opcode != wc[1].opcode);
	return wc[0].opcode == IBV_WC_RECV ? wc[0] : wc[1];
}
