/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sniffer gets all RoCE packets of its device, also those between local processes, including
 * one-sided requests.
 */

#include "verbs/frames.h"

enum {
	RC_SEND_ONLY = 0x04,
	RC_WRITE_ONLY = 0x0a,
	RC_READ_REQUEST = 0x0c,
	RC_READ_RESPONSE_ONLY = 0x10,
	RC_ACKNOWLEDGE = 0x11,
	RC_ATOMIC_ACKNOWLEDGE = 0x12,
	RC_FETCH_ADD = 0x14,
	UD_SEND_ONLY = 0x64,
	LEN = 40,
};

static struct world w;
static struct receiver sniffer;

/* The BTH of the last frame; NULL if it is of another protocol. */
static const uint8_t *bth(void)
{
	const uint8_t *f = sniffer.room.data + sniffer.slot * FRAME_ROOM;
	bool ipv4 = get_be16(f + 12) == 0x0800;
	const uint8_t *udp = f + 14 + (ipv4 ? 20 : 40);

	if (sniffer.status != IBV_WC_SUCCESS || (!ipv4 && get_be16(f + 12) != 0x86dd) ||
	    f[ipv4 ? 14 + 9 : 14 + 6] != 17 || (size_t)(udp + 8 + 12 - f) > sniffer.len)
		return NULL;
	return udp + 8;
}

/* Waits for a packet of this opcode to this QP, skipping others; returns what follows the BTH. */
static const uint8_t *expect(uint8_t opcode, uint32_t qpn)
{
	static uint8_t copy[FRAME_ROOM];

	for (unsigned int tries = 0; tries < 100000000; tries++) {
		const uint8_t *b;
		bool found;

		if (!frames_take(&sniffer))
			continue;
		b = bth();
		found = b && b[0] == opcode && get_be24(b + 5) == qpn;
		if (found)
			memcpy(copy, b + 12, LEN);
		frames_post(&sniffer, sniffer.slot);
		if (found)
			return copy;
	}
	CHECK(!"no such packet");
	return NULL;
}

static struct ibv_flow *sniff(void)
{
	struct spec_list list;

	rule_begin(&list, IBV_FLOW_ATTR_SNIFFER);
	return frames_flow(sniffer.qp, &list);
}

static void connected(void)
{
	struct ibv_cq *cq = world_cq(&w, 64);
	struct ibv_qp *a = world_qp(&w, IBV_QPT_RC, cq, NULL),
		      *b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	struct buffer from = world_buffer(&w, 64, WORLD_ACCESS),
		      to = world_buffer(&w, 64, WORLD_ACCESS);
	struct ibv_sge sge = world_sge(&from, 0, LEN), word = world_sge(&from, 0, 8);
	struct ibv_flow *flow = sniff();
	struct ibv_send_wr wr;
	struct ibv_wc wc[2];

	for (unsigned int i = 0; i < 64; i++)
		from.data[i] = i + 1;
	world_connect(&w, a, b);

	world_recv(b, 1, world_sge(&to, 0, 64));
	world_send(a, 2, sge);
	world_poll(cq, wc, 2);
	CHECK_MEM(expect(RC_SEND_ONLY, b->qp_num), from.data, LEN);
	expect(RC_ACKNOWLEDGE, a->qp_num);

	wr = world_rdma(IBV_WR_RDMA_WRITE, 3, &sge, &to, 0);
	world_post(a, &wr);
	world_expect(cq, 3, IBV_WC_SUCCESS);
	CHECK_MEM(to.data, from.data, LEN);
	CHECK_MEM(expect(RC_WRITE_ONLY, b->qp_num) + 16, from.data, LEN - 16);

	wr = world_rdma(IBV_WR_RDMA_READ, 4, &sge, &to, 0);
	world_post(a, &wr);
	world_expect(cq, 4, IBV_WC_SUCCESS);
	expect(RC_READ_REQUEST, b->qp_num);
	expect(RC_READ_RESPONSE_ONLY, a->qp_num);

	wr = world_rdma(IBV_WR_ATOMIC_FETCH_AND_ADD, 5, &word, &to, 0);
	world_post(a, &wr);
	world_expect(cq, 5, IBV_WC_SUCCESS);
	expect(RC_FETCH_ADD, b->qp_num);
	expect(RC_ATOMIC_ACKNOWLEDGE, a->qp_num);

	/* The last sniffer is destroyed. */
	CHECK_EQ(ibv_destroy_flow(flow), 0);
	wr = world_rdma(IBV_WR_RDMA_WRITE, 6, &sge, &to, 0);
	world_post(a, &wr);
	world_expect(cq, 6, IBV_WC_SUCCESS);
	while (frames_take(&sniffer))
		frames_post(&sniffer, sniffer.slot);

	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&from);
	world_free(&to);
}

static void datagrams(void)
{
	struct ibv_cq *cq = world_cq(&w, 64);
	struct ibv_qp *a = world_qp(&w, IBV_QPT_UD, cq, NULL),
		      *b = world_qp(&w, IBV_QPT_UD, cq, NULL);
	struct buffer from = world_buffer(&w, 64, WORLD_ACCESS),
		      to = world_buffer(&w, 128, WORLD_ACCESS);
	struct ibv_ah_attr path = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = w.gid, .sgid_index = w.gid_index, .hop_limit = 9 }
	};
	struct ibv_ah *ah = ibv_create_ah(w.pd, &path);
	struct ibv_sge sge = world_sge(&from, 0, LEN);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_flow *flow = sniff();
	struct ibv_wc wc[2];

	CHECK(ah);
	world_connect(&w, a, b);
	world_recv(b, 2, world_sge(&to, 0, 128));
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b->qp_num;
	wr.wr.ud.remote_qkey = WORLD_QKEY;
	world_post(a, &wr);
	world_poll(cq, wc, 2);
	expect(UD_SEND_ONLY, b->qp_num);

	CHECK_EQ(ibv_destroy_flow(flow), 0);
	CHECK_EQ(ibv_destroy_ah(ah), 0);
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_free(&from);
	world_free(&to);
}

int main(void)
{
	frames_init();
	world_open(&w);
	sniffer = frames_receiver(&w);
	connected();
	datagrams();
	frames_end(&sniffer);
	world_close(&w);
	return 0;
}
