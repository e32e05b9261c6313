/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP packets in datagrams: TCP segmentation by IBV_WR_TSO and ibv_wr_send_tso, checksums with
 * IBV_SEND_IP_CSUM, IBV_WC_IP_CSUM_OK, and refused requests.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "world.h"

enum {
	GRH = 40,
	MSS = 100,
	PAYLOAD = 250,	/* three segments */
	SEGMENTS = 3,
	ENCAP = 4,
	TCP = 20,
	MAX_HEADER = 128,
	FIN_PSH_CWR = 0x89,
	FIRST_SEQ = 0xffffff80,	/* the sequence number wraps within the message */
	FIRST_ID = 0xffff,
};

struct bench {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct buffer out, in;
};

static struct ibv_qp *new_qp(struct bench *b, enum ibv_qp_type type, uint32_t max_header,
			     uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 1,
			 .max_inline_data = 256 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = b->w.pd,
		.max_tso_header = max_header,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(b->w.ctx, &init);
}

static void open_bench(struct bench *b)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };

	world_open(&b->w);
	ah.grh = (struct ibv_global_route){ .dgid = b->w.gid, .sgid_index = b->w.gid_index,
					    .hop_limit = 4 };
	b->cq = world_cq(&b->w, 32);
	b->qp = new_qp(b, IBV_QPT_UD, MAX_HEADER,
		       IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_SEND);
	CHECK(b->qp);
	world_connect(&b->w, b->qp, b->qp);
	b->ah = ibv_create_ah(b->w.pd, &ah);
	CHECK(b->ah);
	b->out = world_buffer(&b->w, 4096, WORLD_ACCESS);
	b->in = world_buffer(&b->w, 8 * 1024, WORLD_ACCESS);
	for (unsigned int i = 0; i < PAYLOAD; i++)
		b->out.data[i] = i * 7 + 1;
}

static void close_bench(struct bench *b)
{
	CHECK_EQ(ibv_destroy_ah(b->ah), 0);
	CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	CHECK_EQ(ibv_destroy_cq(b->cq), 0);
	world_free(&b->out);
	world_free(&b->in);
	world_close(&b->w);
}

static void set16(uint8_t *p, uint16_t v)
{
	v = htons(v);
	memcpy(p, &v, sizeof(v));
}

static uint16_t read16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static uint32_t read32(const uint8_t *p)
{
	return (uint32_t)read16(p) << 16 | read16(p + 2);
}

/*
 * Writes the encapsulation, IP and TCP headers of a packet without payload; returns their length.
 */
static uint16_t make_header(uint8_t *p, bool ipv6)
{
	uint8_t *tcp = p + ENCAP + (ipv6 ? 40 : 20);

	memset(p, 0, MAX_HEADER);
	set16(p, ipv6 ? 0x86dd : 0x0800);
	p[ENCAP] = ipv6 ? 0x60 : 0x45;
	if (ipv6) {
		p[ENCAP + 6] = 6;
		memset(p + ENCAP + 8, 0x11, 32);
	} else {
		set16(p + ENCAP + 4, FIRST_ID);
		p[ENCAP + 9] = 6;
		memset(p + ENCAP + 12, 0x22, 8);
	}
	set16(tcp + 4, FIRST_SEQ >> 16);
	set16(tcp + 6, FIRST_SEQ & 0xffff);
	tcp[12] = TCP / 4 << 4;
	tcp[13] = FIN_PSH_CWR;
	return tcp + TCP - p;
}

/* The Internet checksum, computed without optimisation. */
static uint16_t sum(uint32_t s, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		s += p[i] << (i % 2 ? 0 : 8);
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

static void expect_segment(const uint8_t *p, uint32_t len, bool ipv6, uint32_t i)
{
	const uint8_t *ip = p + ENCAP, *tcp = ip + (ipv6 ? 40 : 20);
	uint32_t n = i == SEGMENTS - 1 ? PAYLOAD - i * MSS : MSS, tcp_len = TCP + n;
	uint8_t flags = 0x08 | 0x01;

	CHECK_EQ(len, tcp - p + tcp_len);
	if (ipv6) {
		CHECK_EQ(read16(ip + 4), tcp_len);
		CHECK_EQ(sum(sum(6 + tcp_len, ip + 8, 32), tcp, tcp_len), 0xffff);
	} else {
		CHECK_EQ(read16(ip + 2), 20 + tcp_len);
		CHECK_EQ(read16(ip + 4), (uint16_t)(FIRST_ID + i));
		CHECK_EQ(sum(0, ip, 20), 0xffff);
		CHECK_EQ(sum(sum(6 + tcp_len, ip + 12, 8), tcp, tcp_len), 0xffff);
	}
	CHECK_EQ(read32(tcp + 4), (uint32_t)(FIRST_SEQ + i * MSS));
	CHECK_EQ(tcp[13], (i == SEGMENTS - 1 ? flags : 0) | (i == 0 ? 0x80 : 0));
	for (uint32_t k = 0; k < n; k++)
		CHECK_EQ(tcp[TCP + k], (uint8_t)((i * MSS + k) * 7 + 1));
}

static void post_receives(struct bench *b, int n)
{
	for (int i = 0; i < n; i++)
		world_recv(b->qp, 100 + i, world_sge(&b->in, i * 1024, 1024));
}

static void expect_segments(struct bench *b, bool ipv6)
{
	struct ibv_wc wc[SEGMENTS + 1];
	int received = 0;

	world_poll(b->cq, wc, SEGMENTS + 1);
	for (unsigned int i = 0; i <= SEGMENTS; i++) {
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
		if (wc[i].wr_id == 1) {
			CHECK_EQ(wc[i].opcode, IBV_WC_TSO);
			continue;
		}
		CHECK_EQ(wc[i].wr_id, 100 + received);
		CHECK(wc[i].wc_flags & IBV_WC_IP_CSUM_OK);
		expect_segment(b->in.data + received * 1024 + GRH, wc[i].byte_len - GRH, ipv6,
			       received);
		received++;
	}
	CHECK_EQ(received, SEGMENTS);
}

static struct ibv_send_wr tso(struct bench *b, struct ibv_sge *sge, void *hdr, uint16_t len)
{
	*sge = world_sge(&b->out, 0, PAYLOAD);
	return (struct ibv_send_wr){
		.wr_id = 1,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_TSO,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = b->ah, .remote_qpn = b->qp->qp_num, .remote_qkey = WORLD_QKEY },
		.tso = { .hdr = hdr, .hdr_sz = len, .mss = MSS },
	};
}

static void tcp_is_segmented(struct bench *b, bool ipv6)
{
	uint8_t hdr[MAX_HEADER];
	uint16_t len = make_header(hdr, ipv6);
	struct ibv_sge sge;
	struct ibv_send_wr wr = tso(b, &sge, hdr, len);

	post_receives(b, SEGMENTS);
	world_post(b->qp, &wr);
	expect_segments(b, ipv6);

	wr.send_flags |= IBV_SEND_INLINE;
	post_receives(b, SEGMENTS);
	world_post(b->qp, &wr);
	expect_segments(b, ipv6);
}

static void wr_send_tso(struct bench *b)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(b->qp);
	uint8_t hdr[MAX_HEADER + 1] = { 0 };
	uint16_t len = make_header(hdr, false);
	struct ibv_sge sge = world_sge(&b->out, 0, PAYLOAD);

	post_receives(b, SEGMENTS);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_tso(ex, hdr, len, MSS);
	ibv_wr_set_ud_addr(ex, b->ah, b->qp->qp_num, WORLD_QKEY);
	ibv_wr_set_sge_list(ex, 1, &sge);
	memset(hdr, 0xee, sizeof(hdr));	/* the post has copied it */
	CHECK_EQ(ibv_wr_complete(ex), 0);
	expect_segments(b, false);

	ibv_wr_start(ex);
	ibv_wr_send_tso(ex, hdr, MAX_HEADER + 1, MSS);
	ibv_wr_set_ud_addr(ex, b->ah, b->qp->qp_num, WORLD_QKEY);
	CHECK_EQ(ibv_wr_complete(ex), EINVAL);
}

/* A header that is not an IP packet is repeated unchanged. */
static void other_headers_are_left_alone(struct bench *b)
{
	uint8_t hdr[8] = "headers";
	struct ibv_sge sge;
	struct ibv_send_wr wr = tso(b, &sge, hdr, sizeof(hdr));
	struct ibv_wc wc[SEGMENTS + 1];

	post_receives(b, SEGMENTS);
	world_post(b->qp, &wr);
	world_poll(b->cq, wc, SEGMENTS + 1);
	for (unsigned int i = 0; i < SEGMENTS; i++) {
		CHECK(!memcmp(b->in.data + i * 1024 + GRH, hdr, sizeof(hdr)));
		CHECK(!memcmp(b->in.data + i * 1024 + GRH + 8, b->out.data + i * MSS,
			      i < 2 ? MSS : PAYLOAD - 2 * MSS));
	}
	for (unsigned int i = 0; i <= SEGMENTS; i++)
		CHECK(!(wc[i].wc_flags & IBV_WC_IP_CSUM_OK));
}

static struct ibv_wc datagram(struct bench *b, uint32_t len, unsigned int flags)
{
	struct ibv_sge sge = world_sge(&b->out, 1024, len);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
		.wr.ud = { .ah = b->ah, .remote_qpn = b->qp->qp_num, .remote_qkey = WORLD_QKEY },
	};

	post_receives(b, 1);
	world_post(b->qp, &wr);
	return world_expect(b->cq, 100, IBV_WC_SUCCESS);
}

static void checksums_are_filled_in(struct bench *b)
{
	uint8_t *p = b->out.data + 1024;
	uint16_t len = make_header(p, false) + 11;

	set16(p + ENCAP + 2, len - ENCAP);
	CHECK(!(datagram(b, len, 0).wc_flags & IBV_WC_IP_CSUM_OK));
	CHECK(datagram(b, len, IBV_SEND_IP_CSUM).wc_flags & IBV_WC_IP_CSUM_OK);
	p = b->in.data + GRH + ENCAP;
	CHECK_EQ(sum(0, p, 20), 0xffff);
	CHECK_EQ(sum(sum(6 + len - ENCAP - 20, p + 12, 8), p + 20, len - ENCAP - 20), 0xffff);
}

static void bad_requests_are_refused(struct bench *b)
{
	uint8_t hdr[MAX_HEADER + 1] = { 0 };
	struct ibv_send_wr good, *bad;
	struct ibv_sge sge;
	struct ibv_qp *qp;

	good = tso(b, &sge, hdr, 40);
	const struct {
		void *hdr;
		uint16_t len, mss;
	} rows[] = {
		{ hdr, 40, 0 },			/* no MSS */
		{ hdr, MAX_HEADER + 1, MSS },	/* longer than max_tso_header */
		{ NULL, 40, MSS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_send_wr wr = good;

		wr.tso.hdr = rows[i].hdr;
		wr.tso.hdr_sz = rows[i].len;
		wr.tso.mss = rows[i].mss;
		CHECK_EQ(ibv_post_send(b->qp, &wr, &bad), EINVAL);
		CHECK(bad == &wr);
	}
	/* As long as mlx5 takes it at least, which rdma-core's tests ask for. */
	qp = new_qp(b, IBV_QPT_UD, 512, IBV_QP_EX_WITH_TSO);
	CHECK(qp);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK(!new_qp(b, IBV_QPT_UD, 513, IBV_QP_EX_WITH_TSO));
	CHECK(!new_qp(b, IBV_QPT_RC, 64, IBV_QP_EX_WITH_SEND));
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK(!new_qp(b, IBV_QPT_RC, 0, IBV_QP_EX_WITH_TSO));
	CHECK_EQ(errno, EOPNOTSUPP);
}

/* mlx5 makes a QP that takes no header, and refuses the request. */
static void without_max_tso_header(struct bench *b)
{
	struct ibv_qp *ud = new_qp(b, IBV_QPT_UD, 0, IBV_QP_EX_WITH_TSO);
	struct ibv_qp_ex *x = ud ? ibv_qp_to_qp_ex(ud) : NULL;
	uint8_t hdr[40] = { 0 };
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	CHECK(x);
	world_connect(&b->w, ud, ud);
	wr = tso(b, &sge, hdr, sizeof(hdr));
	CHECK_EQ(ibv_post_send(ud, &wr, &bad), EINVAL);
	for (uint16_t len = 0; len <= sizeof(hdr); len += sizeof(hdr)) {
		ibv_wr_start(x);
		ibv_wr_send_tso(x, hdr, len, MSS);
		ibv_wr_set_ud_addr(x, b->ah, ud->qp_num, 0);
		ibv_wr_set_sge(x, sge.lkey, sge.addr, sge.length);
		CHECK_EQ(ibv_wr_complete(x), EINVAL);
	}
	CHECK_EQ(ibv_destroy_qp(ud), 0);
}

static void capabilities_say_so(struct bench *b)
{
	struct ibv_device_attr_ex attr;

	CHECK_EQ(ibv_query_device_ex(b->w.ctx, NULL, &attr), 0);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_UD_IP_CSUM);
	CHECK(attr.tso_caps.max_tso >= 65536);
	CHECK(ibv_is_qpt_supported(attr.tso_caps.supported_qpts, IBV_QPT_UD));
	CHECK(!ibv_is_qpt_supported(attr.tso_caps.supported_qpts, IBV_QPT_RC));
}

int main(void)
{
	struct bench b;

	open_bench(&b);
	capabilities_say_so(&b);
	tcp_is_segmented(&b, false);
	tcp_is_segmented(&b, true);
	wr_send_tso(&b);
	other_headers_are_left_alone(&b);
	checksums_are_filled_in(&b);
	bad_requests_are_refused(&b);
	without_max_tso_header(&b);
	close_bench(&b);
	return 0;
}
