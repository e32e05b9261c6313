/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet QPs on the virtual segment, as an ordinary user has it on the loopback device: what goes
 * in comes out, split over buffers, with checksums, segments and VLAN tags as devices treat them; and
 * what goes wrong goes wrong in words and nowhere else.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum {
	ETH = 14,
	TAG = 4,
	IPV4 = 20,
	IPV6 = 40,
	UDP = 8,
	TCP = 20,
	WR = 16,
	MSS = 100,
	SEGMENTS = 3,
	PAYLOAD = 250,
	CANARY = 0x5a,
	MARK = 0x2bad1d,	/* a flow tag */
	FIRST_SEQ = 0xffffff80,	/* wraps inside the message */
	FIRST_ID = 0xffff,
	FIN_PSH_CWR = 0x89,
	VLAN_TCI = 0x6123,
};

static const uint8_t here[6] = { 2, 0, 0, 0x12, 0x34, 1 }, there[6] = { 2, 0, 0, 0x12, 0x34, 2 };

struct bench {
	struct world w;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_flow *rule;
	struct buffer out, in;
};

static struct ibv_qp *new_qp(struct bench *b, struct ibv_srq *srq, uint32_t flags)
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

static int move(struct ibv_qp *qp, enum ibv_qp_state next)
{
	struct ibv_qp_attr attr = { .qp_state = next, .port_num = 1 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (next == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

static void to_rts(struct ibv_qp *qp)
{
	CHECK_EQ(move(qp, IBV_QPS_INIT), 0);
	CHECK_EQ(move(qp, IBV_QPS_RTR), 0);
	CHECK_EQ(move(qp, IBV_QPS_RTS), 0);
}

/* Frames to this address go to the QP. */
static struct ibv_flow *steer(struct ibv_qp *qp, const uint8_t dst[6])
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

static void open_bench(struct bench *b, uint32_t flags)
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

static void close_bench(struct bench *b)
{
	CHECK_EQ(ibv_destroy_flow(b->rule), 0);
	CHECK_EQ(ibv_destroy_qp(b->qp), 0);
	CHECK_EQ(ibv_destroy_cq(b->cq), 0);
	world_free(&b->out);
	world_free(&b->in);
	world_close(&b->w);
}

static uint16_t read16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static uint32_t read32(const uint8_t *p)
{
	return (uint32_t)read16(p) << 16 | read16(p + 2);
}

static void set16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v;
}

static void ethernet(uint8_t *p, uint16_t type)
{
	memcpy(p, there, 6);
	memcpy(p + 6, here, 6);
	set16(p + 12, type);
}

/* An independent sum over [p, p + len), 16 bits at a time. */
static uint32_t add(uint32_t sum, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Are both checksums of this frame right, its checksum fields included in the sums? */
static bool sums_right(const uint8_t *frame, uint32_t len)
{
	const uint8_t *ip = frame + ETH;
	bool v6 = ip[0] >> 4 == 6;
	const uint8_t *l4 = ip + (v6 ? IPV6 : IPV4);
	uint32_t rest = frame + len - l4;
	uint32_t sum = rest + (v6 ? ip[6] : ip[9]);

	sum = add(add(sum, v6 ? ip + 8 : ip + 12, v6 ? 32 : 8), l4, rest);
	return fold(sum) == 0xffff && (v6 || fold(add(0, ip, IPV4)) == 0xffff);
}

/* Headers of a frame with `data` bytes behind them, checksums not filled in. Returns their length. */
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

static void post(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int n, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED | flags };

	world_post(qp, &wr);
}

static void receive_into(struct ibv_qp *qp, uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = sge, .num_sge = n };

	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

/* The completions of one send and one receive, in whatever order. */
static struct ibv_wc both(struct ibv_cq *cq)
{
	struct ibv_wc wc[2];

	world_poll(cq, wc, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
	CHECK(wc[0].opcode != wc[1].opcode);
	return wc[0].opcode == IBV_WC_RECV ? wc[0] : wc[1];
}

static void test_capabilities(void)
{
	struct ibv_device_attr_ex attr;
	struct world w;

	world_open(&w);
	CHECK_EQ(ibv_query_device_ex(w.ctx, NULL, &attr), 0);
	CHECK_EQ(attr.raw_packet_caps,
		 IBV_RAW_PACKET_CAP_CVLAN_STRIPPING | IBV_RAW_PACKET_CAP_IP_CSUM);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
	CHECK(attr.device_cap_flags_ex & IBV_DEVICE_RAW_IP_CSUM);
	CHECK(ibv_is_qpt_supported(attr.tso_caps.supported_qpts, IBV_QPT_RAW_PACKET));
	CHECK_EQ(IBV_QPT_RAW_ETH, IBV_QPT_RAW_PACKET);
	world_close(&w);
}

/* Of every size; the payload in one buffer, the headers in another, and nothing behind either. */
static void test_split(void)
{
	static const uint32_t sizes[] = { ETH, ETH + 1, 60, 61, 1000, 1514, 4096, 65550 };
	struct bench b;

	open_bench(&b, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i], head = n < 42 ? n : 42;
		struct ibv_sge to[] = { world_sge(&b.in, 0, 42), world_sge(&b.in, 100, 0),
					world_sge(&b.in, 1024, 70000) };
		struct ibv_sge from[] = { world_sge(&b.out, 0, 10), world_sge(&b.out, 10, n - 10) };
		struct ibv_wc wc;

		memset(b.in.data, CANARY, b.in.len);
		ethernet(b.out.data, 0x88b5);
		receive_into(b.qp, i, to, 3);
		post(b.qp, i, from, 2, 0);
		wc = both(b.cq);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.byte_len, n);
		CHECK_EQ(wc.qp_num, b.qp->qp_num);
		CHECK_EQ(wc.wc_flags, 0);
		CHECK_MEM(b.in.data, b.out.data, head);
		CHECK_MEM(b.in.data + 1024, b.out.data + head, n - head);
		CHECK_EQ(b.in.data[42], CANARY);
		CHECK_EQ(b.in.data[1023], CANARY);
		CHECK_EQ(b.in.data[1024 + n - head], CANARY);
	}
	close_bench(&b);
}

static void test_inline(void)
{
	struct ibv_sge to, from[2];
	struct bench b;

	open_bench(&b, 0);
	to = world_sge(&b.in, 0, 2000);
	ethernet(b.out.data, 0x88b5);
	from[0] = (struct ibv_sge){ (uintptr_t)b.out.data, 100, 0 };
	from[1] = (struct ibv_sge){ (uintptr_t)b.out.data + 100, 50, 0 };
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, from, 2, IBV_SEND_INLINE);
	memset(b.out.data, 0, 6);	/* not looked at any more */
	CHECK_EQ(both(b.cq).byte_len, 150);
	CHECK_MEM(b.in.data + 6, b.out.data + 6, 144);
	close_bench(&b);
}

/* Many at once arrive in order, and a burst that is larger than any queue between leaves as it can. */
static void test_order(void)
{
	enum { FRAMES = 500 };
	struct ibv_wc wc[WR];
	uint32_t sent = 0, done = 0, posted = 0, got = 0;
	struct bench b;

	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	while (got < FRAMES) {
		int n;

		for (; posted < FRAMES && posted - got < WR; posted++) {
			struct ibv_sge to = world_sge(&b.in, posted % WR * 128, 128);

			receive_into(b.qp, posted, &to, 1);
		}
		for (; sent < posted && sent - done < WR; sent++) {
			uint32_t *number = (uint32_t *)(b.out.data + 128 * (sent % WR) + 60);
			struct ibv_sge from = world_sge(&b.out, 128 * (sent % WR), 100);

			ethernet(b.out.data + 128 * (sent % WR), 0x88b5);
			*number = sent;
			post(b.qp, sent, &from, 1, 0);
		}
		n = ibv_poll_cq(b.cq, WR, wc);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			if (wc[i].opcode == IBV_WC_SEND) {
				CHECK_EQ(wc[i].wr_id, done++);
				continue;
			}
			CHECK_EQ(wc[i].wr_id, got);
			CHECK_EQ(*(uint32_t *)(b.in.data + got % WR * 128 + 60), got);
			got++;
		}
	}
	while (done < FRAMES) {
		world_poll(b.cq, wc, 1);
		CHECK_EQ(wc[0].wr_id, done++);
	}
	close_bench(&b);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* Execution fails: the request in error, the QP in SQE, from where it comes back. */
static void fails(struct bench *b, struct ibv_sge *sge, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	post(b->qp, 77, sge, 1, 0);
	wc = world_expect(b->cq, 77, status);
	CHECK(wc.vendor_err != 0);
	CHECK_EQ(state_of(b->qp), IBV_QPS_SQE);
	CHECK_EQ(move(b->qp, IBV_QPS_RTS), 0);
}

static void test_bad_sends(void)
{
	struct ibv_sge short_one, long_one, no_key, outside, good, to;
	struct bench b;

	open_bench(&b, 0);
	short_one = world_sge(&b.out, 0, ETH - 1);
	fails(&b, &short_one, IBV_WC_LOC_LEN_ERR);
	short_one.length = 0;
	fails(&b, &short_one, IBV_WC_LOC_LEN_ERR);
	long_one = world_sge(&b.out, 0, 65536 + ETH + TAG + 1);
	fails(&b, &long_one, IBV_WC_LOC_LEN_ERR);
	no_key = world_sge(&b.out, 0, 100);
	no_key.lkey ^= 0x1000;
	fails(&b, &no_key, IBV_WC_LOC_PROT_ERR);
	outside = world_sge(&b.out, b.out.len - 10, 2000);
	fails(&b, &outside, IBV_WC_LOC_PROT_ERR);
	/* and it works again */
	ethernet(b.out.data, 0x88b5);
	good = world_sge(&b.out, 0, 100);
	to = world_sge(&b.in, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 1, &good, 1, 0);
	CHECK_EQ(both(b.cq).byte_len, 100);
	close_bench(&b);
}

/* Nothing of a frame that does not fit is written; the QP is in error, and what waits is flushed. */
static void test_small_buffer(void)
{
	struct ibv_sge to, more, from;
	struct bench b;

	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 99);
	more = world_sge(&b.in, 1000, 500);
	from = world_sge(&b.out, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	receive_into(b.qp, 2, &more, 1);
	post(b.qp, 3, &from, 1, 0);
	world_expect(b.cq, 3, IBV_WC_SUCCESS);
	world_expect(b.cq, 1, IBV_WC_LOC_LEN_ERR);
	world_expect(b.cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(state_of(b.qp), IBV_QPS_ERR);
	for (size_t i = 0; i < 2000; i++)
		CHECK_EQ(b.in.data[i], CANARY);
	close_bench(&b);
}

/* The receive's own memory: not ours to write. */
static void test_bad_receive(void)
{
	struct ibv_sge to, from;
	struct bench b;

	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 200);
	to.lkey ^= 0x1000;
	from = world_sge(&b.out, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 3, &from, 1, 0);
	world_expect(b.cq, 3, IBV_WC_SUCCESS);
	world_expect(b.cq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(b.in.data[0], CANARY);
	close_bench(&b);
}

/*
 * Another QP with the same rule, made later: it hears a frame after the first QP has heard it, or has
 * not.
 */
struct witness {
	struct ibv_qp *qp;
	struct ibv_flow *rule;
};

static struct witness call_witness(struct bench *b)
{
	struct witness w = { .qp = new_qp(b, NULL, 0) };

	to_rts(w.qp);
	w.rule = steer(w.qp, there);
	return w;
}

static void dismiss(struct witness *w)
{
	CHECK_EQ(ibv_destroy_flow(w->rule), 0);
	CHECK_EQ(ibv_destroy_qp(w->qp), 0);
}

/* Sends a frame of this length from the witness to itself, and whoever else hears it. */
static void say(struct bench *b, struct witness *w, uint32_t len)
{
	struct ibv_sge to = world_sge(&b->in, 4096, 4096), from = world_sge(&b->out, 0, len);
	struct ibv_wc wc;

	receive_into(w->qp, 100, &to, 1);
	post(w->qp, 101, &from, 1, 0);
	wc = both(b->cq);
	CHECK_EQ(wc.wr_id, 100);
	CHECK_EQ(wc.qp_num, w->qp->qp_num);
}

/* Without a receive a frame is lost, and nothing else. */
static void test_no_receive(void)
{
	struct ibv_sge to, from;
	struct witness w;
	struct bench b;

	open_bench(&b, 0);
	w = call_witness(&b);
	ethernet(b.out.data, 0x88b5);
	say(&b, &w, 100);
	to = world_sge(&b.in, 0, 200);
	from = world_sge(&b.out, 0, 120);
	receive_into(b.qp, 2, &to, 1);
	post(b.qp, 3, &from, 1, 0);
	CHECK_EQ(both(b.cq).byte_len, 120);
	dismiss(&w);
	close_bench(&b);
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
		/* the program's own memory is as it was */
		CHECK_EQ(b.out.data[ETH + 10], v6 ? 0x11 : 0);
		/* One wrong bit, sent as it is. */
		memcpy(b.out.data, b.in.data, len);
		b.out.data[len - 1] ^= 1;
		receive_into(b.qp, 1, &to, 1);
		post(b.qp, 2, &from, 1, 0);
		CHECK_EQ(both(b.cq).wc_flags, 0);
		CHECK_MEM(b.in.data, b.out.data, len);
	}
	close_bench(&b);
}

static void check_segment(const uint8_t *p, int i, bool v6, const uint8_t *payload)
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

		for (int i = 0; i < SEGMENTS; i++) {
			struct ibv_sge to = world_sge(&b.in, i * 1000, 1000);

			receive_into(b.qp, i, &to, 1);
		}
		send_segmented(&b, header, len, &from, round & 2);
		for (int i = 0; i <= SEGMENTS; i++) {
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

/* What a segmented send may not be. */
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

/* What only an extended CQ tells: tag of the rule, VLAN tag, time. */
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

static void test_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 2 } };
	struct ibv_recv_wr *bad, wr = { .wr_id = 5, .num_sge = 2 };
	struct ibv_sge to[2], from;
	struct ibv_srq *srq;
	struct ibv_qp *plain;
	struct bench b;

	open_bench(&b, 0);
	srq = ibv_create_srq(b.w.pd, &init);
	CHECK(srq);
	plain = b.qp;
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	b.qp = new_qp(&b, srq, 0);
	to_rts(b.qp);
	b.rule = steer(b.qp, there);
	to[0] = world_sge(&b.in, 0, 14);
	to[1] = world_sge(&b.in, 100, 500);
	wr.sg_list = to;
	CHECK_EQ(ibv_post_recv(b.qp, &wr, &bad), EINVAL);
	CHECK_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ethernet(b.out.data, 0x88b5);
	from = world_sge(&b.out, 0, 200);
	post(plain, 6, &from, 1, 0);	/* one QP sends, the other hears */
	CHECK_EQ(both(b.cq).qp_num, b.qp->qp_num);
	CHECK_MEM(b.in.data + 100, b.out.data + 14, 186);
	CHECK_EQ(move(b.qp, IBV_QPS_ERR), 0);
	world_event(&b.w, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_srq(srq), 0);
	b.qp = plain;
	b.rule = steer(b.qp, there);
	close_bench(&b);
}

/* Which state does what; a drain; the flush of an error; and a fresh start. */
static void test_states(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .num_sge = 1, .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge to, from;
	struct witness w;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct bench b;

	open_bench(&b, 0);
	qp = b.qp;
	w = call_witness(&b);
	ethernet(b.out.data, 0x88b5);
	from = world_sge(&b.out, 0, 100);
	to = world_sge(&b.in, 0, 200);
	wr.sg_list = &from;
	CHECK_EQ(move(qp, IBV_QPS_RESET), 0);
	CHECK_EQ(move(qp, IBV_QPS_RTR), EINVAL);
	CHECK_EQ(move(qp, IBV_QPS_INIT), 0);
	receive_into(qp, 10, &to, 1);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	/* INIT hears nothing. */
	say(&b, &w, 60);
	/* RTR hears, but does not speak. */
	CHECK_EQ(move(qp, IBV_QPS_RTR), 0);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	post(w.qp, 2, &from, 1, 0);
	wc = both(b.cq);
	CHECK_EQ(wc.wr_id, 10);
	CHECK_EQ(wc.byte_len, 100);
	CHECK_EQ(move(qp, IBV_QPS_RTS), 0);
	/* SQD keeps what is posted, and goes on hearing. */
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	world_event(&b.w, IBV_EVENT_SQ_DRAINED);
	post(qp, 3, &from, 1, 0);
	receive_into(qp, 11, &to, 1);
	post(w.qp, 4, &from, 1, 0);
	CHECK_EQ(both(b.cq).wr_id, 11);
	receive_into(qp, 12, &to, 1);
	CHECK_EQ(move(qp, IBV_QPS_RTS), 0);
	CHECK_EQ(both(b.cq).wr_id, 12);
	/* ERR flushes. */
	receive_into(qp, 13, &to, 1);
	CHECK_EQ(move(qp, IBV_QPS_ERR), 0);
	world_expect(b.cq, 13, IBV_WC_WR_FLUSH_ERR);
	post(qp, 5, &from, 1, 0);
	world_expect(b.cq, 5, IBV_WC_WR_FLUSH_ERR);
	receive_into(qp, 14, &to, 1);
	world_expect(b.cq, 14, IBV_WC_WR_FLUSH_ERR);
	/* From the beginning. */
	CHECK_EQ(move(qp, IBV_QPS_RESET), 0);
	to_rts(qp);
	receive_into(qp, 15, &to, 1);
	post(qp, 6, &from, 1, 0);
	CHECK_EQ(both(b.cq).wr_id, 15);
	dismiss(&w);
	close_bench(&b);
}

/* Without a rule a QP hears nothing, not even what it says itself. */
static void test_no_rule(void)
{
	struct ibv_sge to;
	struct witness w;
	struct ibv_wc wc;
	struct bench b;

	open_bench(&b, 0);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 200);
	receive_into(b.qp, 1, &to, 1);
	w = call_witness(&b);
	say(&b, &w, 100);
	CHECK_EQ(ibv_poll_cq(b.cq, 1, &wc), 0);
	dismiss(&w);
	b.rule = steer(b.qp, there);
	close_bench(&b);
}

/* The program sleeps; the progress thread works. */
static void test_events(void)
{
	struct ibv_comp_channel *channel;
	struct ibv_sge to, from;
	struct ibv_cq *cq;
	struct bench b;
	struct ibv_wc wc;
	void *context;

	world_open(&b.w);
	channel = ibv_create_comp_channel(b.w.ctx);
	CHECK(channel);
	b.cq = ibv_create_cq(b.w.ctx, 16, NULL, channel, 0);
	CHECK(b.cq);
	b.qp = new_qp(&b, NULL, 0);
	to_rts(b.qp);
	b.rule = steer(b.qp, there);
	b.out = world_buffer(&b.w, 4096, WORLD_ACCESS);
	b.in = world_buffer(&b.w, 4096, WORLD_ACCESS);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 200);
	from = world_sge(&b.out, 0, 100);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, &from, 1, 0);
	world_expect(b.cq, 2, IBV_WC_SUCCESS);
	if (ibv_poll_cq(b.cq, 1, &wc) == 0) {
		CHECK_EQ(ibv_req_notify_cq(b.cq, 0), 0);
		if (ibv_poll_cq(b.cq, 1, &wc) == 0) {
			CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
			CHECK(cq == b.cq);
			ibv_ack_cq_events(cq, 1);
			world_poll(b.cq, &wc, 1);
		}
	}
	CHECK_EQ(wc.wr_id, 1);
	receive_into(b.qp, 3, &to, 1);
	CHECK_EQ(ibv_req_notify_cq(b.cq, 0), 0);
	post(b.qp, 4, &from, 1, 0);
	CHECK_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	CHECK_EQ(ibv_destroy_qp(b.qp), 0);
	CHECK_EQ(ibv_destroy_cq(b.cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(channel), 0);
	world_free(&b.out);
	world_free(&b.in);
	world_close(&b.w);
}

/* Two processes on one segment: one answers what it hears. */
static void answer(int ready)
{
	struct ibv_sge to, from;
	struct bench b;
	struct ibv_wc wc;

	open_bench(&b, 0);
	to = world_sge(&b.in, 0, 2000);
	receive_into(b.qp, 1, &to, 1);
	CHECK_EQ(write(ready, "", 1), 1);
	world_poll(b.cq, &wc, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	memcpy(b.in.data, here, 6);
	from = world_sge(&b.in, 0, wc.byte_len);
	post(b.qp, 2, &from, 1, 0);
	world_expect(b.cq, 2, IBV_WC_SUCCESS);
	close_bench(&b);
}

static void test_two_processes(void)
{
	struct ibv_sge to, from;
	struct bench b;
	int ready[2], status;
	pid_t child;
	char c;

	CHECK_EQ(pipe(ready), 0);
	child = fork();
	if (!child) {
		answer(ready[1]);
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	open_bench(&b, 0);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	b.rule = steer(b.qp, here);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 2000);
	from = world_sge(&b.out, 0, 1234);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, &from, 1, 0);
	CHECK_EQ(both(b.cq).byte_len, 1234);
	CHECK_MEM(b.in.data, here, 6);
	CHECK_MEM(b.in.data + 6, b.out.data + 6, 1228);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	close_bench(&b);
	close(ready[0]);
	close(ready[1]);
}

/* A neighbour that was killed, or is stopped, keeps nobody from sending. */
static void test_dead_neighbour(void)
{
	struct ibv_sge to, from;
	struct bench b;
	int ready[2], status;
	pid_t child;
	char c;

	CHECK_EQ(pipe(ready), 0);
	child = fork();
	if (!child) {
		open_bench(&b, 0);
		CHECK_EQ(write(ready[1], "", 1), 1);
		pause();
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 2000);
	from = world_sge(&b.out, 0, 1000);
	CHECK_EQ(kill(child, SIGSTOP), 0);
	for (int i = 0; i < 100; i++) {
		if (i == 60) {
			CHECK_EQ(kill(child, SIGKILL), 0);
			CHECK_EQ(waitpid(child, &status, 0), child);
		}
		receive_into(b.qp, 1, &to, 1);
		post(b.qp, 2, &from, 1, 0);
		CHECK_EQ(both(b.cq).byte_len, 1000);
	}
	close_bench(&b);
	close(ready[0]);
	close(ready[1]);
}

/* On a real interface, and whoever asks for one, the right is needed. */
static void test_no_right(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET };
		struct world w;

		unsetenv("VERBENA_DIR");
		setenv("VERBENA_RAW", "packet", 1);
		/* In a user namespace of one user there is no other to become. */
		if (geteuid() == 0 && setresuid(65534, 65534, 65534))
			_exit(0);
		world_open(&w);
		init.send_cq = init.recv_cq = world_cq(&w, 4);
		init.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
		errno = 0;
		CHECK(!ibv_create_qp(w.pd, &init));
		CHECK_EQ(errno, EPERM);
		CHECK_EQ(ibv_destroy_cq(init.send_cq), 0);
		world_close(&w);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	setenv("VERBENA_RAW", "virtual", 0);
	/* These fork before the library is used. */
	test_no_right();
	test_two_processes();
	test_dead_neighbour();
	test_capabilities();
	test_split();
	test_inline();
	test_order();
	test_bad_sends();
	test_small_buffer();
	test_bad_receive();
	test_no_receive();
	test_checksums();
	test_segmentation();
	test_bad_segmentation();
	test_vlan();
	test_extended();
	test_srq();
	test_states();
	test_no_rule();
	test_events();
	return 0;
}
