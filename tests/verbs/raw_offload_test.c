/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offloads of raw packet QPs on the virtual segment: checksums, segmentation and VLAN tags work as
 * on devices.
 */
#include <errno.h>
#include <netinet/in.h>

#include "ip_sum.h"
#include "raw_bench.h"

enum {
	IPV4 = 20,
	IPV6 = 40,
	UDP = 8,
	TCP = 20,
	MSS = 100,
	SEGMENTS = 3,
	PAYLOAD = 250,
	FIRST_SEQ = 0xffffff80,	/* the sequence number wraps within the message */
	FIRST_ID = 0xffff,
	FIN_PSH_CWR = 0x89,
	VLAN_TCI = 0x6123,
};

static uint16_t read16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static uint32_t read32(const uint8_t *p)
{
	return (uint32_t)read16(p) << 16 | read16(p + 2);
}

/* Returns whether both checksums of this frame are right. */
static bool sums_right(const uint8_t *frame, uint32_t len)
{
	const uint8_t *ip = frame + ETH;
	bool v6 = ip[0] >> 4 == 6;
	const uint8_t *l4 = ip + (v6 ? IPV6 : IPV4);
	uint32_t rest = frame + len - l4;
	uint32_t sum = rest + (v6 ? ip[6] : ip[9]);

	sum = ip_sum(ip_sum(sum, v6 ? ip + 8 : ip + 12, v6 ? 32 : 8), l4, rest);
	return ip_sum_fold(sum) == 0xffff && (v6 || ip_sum_fold(ip_sum(0, ip, IPV4)) == 0xffff);
}

/*
 * Writes the headers of a frame with `data` bytes of payload, without checksums. Returns their
 * length.
 */
static uint32_t headers(uint8_t *p, bool v6, uint8_t proto, uint32_t data)
{
	uint32_t l4 = proto == IPPROTO_TCP ? TCP : UDP;
	uint8_t *ip = p + ETH, *h = ip + (v6 ? IPV6 : IPV4);

	memset(p, 0, ETH + IPV6 + TCP);
	ethernet(p, v6 ? 0x86dd : 0x0800);
	if (v6) {
		ip[0] = 0x60;
		set16(ip + 4, l4 + data);
		ip[6] = proto;
		memset(ip + 8, 0x11, 32);
	} else {
		ip[0] = 0x45;
		set16(ip + 2, IPV4 + l4 + data);
		set16(ip + 4, FIRST_ID);
		ip[8] = 64;
		ip[9] = proto;
		memset(ip + 12, 0x22, 8);
	}
	if (proto == IPPROTO_UDP) {
		set16(h + 4, l4 + data);
		return h + UDP - p;
	}
	set16(h + 4, FIRST_SEQ >> 16);
	set16(h + 6, FIRST_SEQ & 0xffff);
	h[12] = TCP / 4 << 4;
	h[13] = FIN_PSH_CWR;
	return h + TCP - p;
}

static void test_checksums(void)
{
	static const uint8_t protos[] = { IPPROTO_UDP, IPPROTO_TCP };
	struct bench b;

	open_bench(&b, 0);
	for (int i = 0; i < 8; i++) {
		bool v6 = i & 1, padded = i & 4;
		uint8_t proto = protos[i >> 1 & 1];
		uint32_t len = headers(b.out.data, v6, proto, PAYLOAD) + PAYLOAD;
		struct ibv_sge to = world_sge(&b.in, 0, 2000);
		struct ibv_sge from = world_sge(&b.out, 0, len + (padded ? 6 : 0));

		receive_into(b.qp, 1, &to, 1);
		post(b.qp, 2, &from, 1, IBV_SEND_IP_CSUM);
		CHECK_EQ(both(b.cq).wc_flags, IBV_WC_IP_CSUM_OK);
		CHECK(sums_right(b.in.data, len));
		/* the program's own buffer is unchanged */
		CHECK_EQ(b.out.data[ETH + 10], v6 ? 0x11 : 0);
		/* Corrupts one bit; the frame is sent as it is. */
		memcpy(b.out.data, b.in.data, len);
		b.out.data[len - 1] ^= 1;
		receive_into(b.qp, 1, &to, 1);
		post(b.qp, 2, &from, 1, 0);
		CHECK_EQ(both(b.cq).wc_flags, 0);
		CHECK_MEM(b.in.data, b.out.data, len);
	}
	close_bench(&b);
}

static void check_segment(const uint8_t *p, uint32_t i, bool v6, const uint8_t *payload)
{
	uint32_t data = i < SEGMENTS - 1 ? MSS : PAYLOAD - (SEGMENTS - 1) * MSS;
	const uint8_t *ip = p + ETH, *tcp = ip + (v6 ? IPV6 : IPV4);
	uint8_t last = i == SEGMENTS - 1 ? 0x09 : 0, first = i ? 0 : 0x80;

	CHECK(sums_right(p, tcp + TCP + data - p));
	if (v6) {
		CHECK_EQ(read16(ip + 4), TCP + data);
	} else {
		CHECK_EQ(read16(ip + 2), IPV4 + TCP + data);
		CHECK_EQ(read16(ip + 4), (uint16_t)(FIRST_ID + i));
	}
	CHECK_EQ(read32(tcp + 4), (uint32_t)(FIRST_SEQ + i * MSS));
	CHECK_EQ(tcp[13], last | first);
	CHECK_MEM(tcp + TCP, payload + i * MSS, data);
}

static void send_segmented(struct bench *b, uint8_t *header, uint16_t len, struct ibv_sge *sge,
			   bool modern)
{
	struct ibv_send_wr wr = { .wr_id = 9, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_TSO,
				  .send_flags = IBV_SEND_SIGNALED,
				  .tso = { .hdr = header, .hdr_sz = len, .mss = MSS } };
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(b->qp);

	if (!modern) {
		world_post(b->qp, &wr);
		return;
	}
	ibv_wr_start(ex);
	ex->wr_id = 9;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_tso(ex, header, len, MSS);
	ibv_wr_set_sge(ex, sge->lkey, sge->addr, sge->length);
	CHECK_EQ(ibv_wr_complete(ex), 0);
}

static void test_segmentation(void)
{
	struct bench b;

	open_bench(&b, 0);
	for (int round = 0; round < 4; round++) {
		bool v6 = round & 1;
		uint8_t header[128];
		uint16_t len = headers(header, v6, IPPROTO_TCP, 0);
		struct ibv_sge from = world_sge(&b.out, 0, PAYLOAD);
		int received = 0;

		for (unsigned int i = 0; i < SEGMENTS; i++) {
			struct ibv_sge to = world_sge(&b.in, i * 1000, 1000);

			receive_into(b.qp, i, &to, 1);
		}
		send_segmented(&b, header, len, &from, round & 2);
		for (unsigned int i = 0; i <= SEGMENTS; i++) {
			struct ibv_wc wc;

			world_poll(b.cq, &wc, 1);
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_TSO) {
				CHECK_EQ(wc.wr_id, 9);
				continue;
			}
			CHECK_EQ(wc.wr_id, received);
			CHECK_EQ(wc.wc_flags, IBV_WC_IP_CSUM_OK);
			check_segment(b.in.data + 1000 * received, received, v6, b.out.data);
			received++;
		}
		CHECK_EQ(received, SEGMENTS);
	}
	close_bench(&b);
}

/* Segmented sends that must fail. */
static void test_bad_segmentation(void)
{
	uint8_t header[256] = { 0 };
	struct ibv_send_wr *bad, wr;
	struct ibv_sge from;
	struct bench b;

	open_bench(&b, 0);
	from = world_sge(&b.out, 0, PAYLOAD);
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_TSO, .sg_list = &from, .num_sge = 1,
				   .send_flags = IBV_SEND_SIGNALED,
				   .tso = { .hdr = header, .hdr_sz = 129, .mss = MSS } };
	CHECK_EQ(ibv_post_send(b.qp, &wr, &bad), EINVAL);
	wr.tso.hdr_sz = 54;
	wr.tso.mss = 0;
	CHECK_EQ(ibv_post_send(b.qp, &wr, &bad), EINVAL);
	wr.tso.mss = MSS;
	wr.tso.hdr = NULL;
	CHECK_EQ(ibv_post_send(b.qp, &wr, &bad), EINVAL);
	wr.tso.hdr = header;
	wr.tso.hdr_sz = ETH - 1;
	CHECK_EQ(ibv_post_send(b.qp, &wr, &bad), 0);
	world_expect(b.cq, 0, IBV_WC_LOC_LEN_ERR);
	close_bench(&b);
}

static void test_vlan(void)
{
	for (int strip = 0; strip < 2; strip++) {
		struct ibv_sge to, from;
		uint32_t got;
		struct bench b;

		open_bench(&b, strip ? IBV_QP_CREATE_CVLAN_STRIPPING : 0);
		ethernet(b.out.data, 0x8100);
		set16(b.out.data + 14, VLAN_TCI);
		to = world_sge(&b.in, 0, 2000);
		from = world_sge(&b.out, 0, 300);
		receive_into(b.qp, 1, &to, 1);
		post(b.qp, 2, &from, 1, 0);
		got = both(b.cq).byte_len;
		if (strip) {
			CHECK_EQ(got, 300 - TAG);
			CHECK_MEM(b.in.data, b.out.data, 12);
			CHECK_MEM(b.in.data + 12, b.out.data + 12 + TAG, 300 - TAG - 12);
		} else {
			CHECK_EQ(got, 300);
			CHECK_MEM(b.in.data, b.out.data, 300);
		}
		close_bench(&b);
	}
}

/* Fields that only an extended CQ reports: flow tag, VLAN tag, timestamp. */
static void test_extended(void)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_CVLAN |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_sge to, from;
	struct ibv_cq_ex *cq;
	struct bench b;
	int seen = 0;

	world_open(&b.w);
	cq = ibv_create_cq_ex(b.w.ctx, &init);
	CHECK(cq);
	b.cq = ibv_cq_ex_to_cq(cq);
	b.qp = new_qp(&b, NULL, IBV_QP_CREATE_CVLAN_STRIPPING);
	to_rts(b.qp);
	b.rule = steer(b.qp, there);
	b.out = world_buffer(&b.w, 4096, WORLD_ACCESS);
	b.in = world_buffer(&b.w, 4096, WORLD_ACCESS);
	ethernet(b.out.data, 0x8100);
	set16(b.out.data + 14, VLAN_TCI);
	to = world_sge(&b.in, 0, 2000);
	from = world_sge(&b.out, 0, 300);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, &from, 1, 0);
	while (seen < 2) {
		if (ibv_start_poll(cq, &none))
			continue;
		seen++;
		CHECK_EQ(cq->status, IBV_WC_SUCCESS);
		if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
			CHECK_EQ(ibv_wc_read_flow_tag(cq), MARK);
			CHECK_EQ(ibv_wc_read_cvlan(cq), VLAN_TCI);
			CHECK_EQ(ibv_wc_read_byte_len(cq), 300 - TAG);
			CHECK(ibv_wc_read_completion_ts(cq) > 0);
		}
		ibv_end_poll(cq);
	}
	close_bench(&b);
}

int main(void)
{
	setenv("VERBENA_RAW", "virtual", 0);
	test_checksums();
	test_segmentation();
	test_bad_segmentation();
	test_vlan();
	test_extended();
	return 0;
}
