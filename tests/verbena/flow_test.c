/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules select: for each selector a frame that differs from the one that is wanted in this field
 * only.  Both are sent by one context and offered to another on the virtual segment of the loopback
 * device; only the wanted one comes.
 */
#include <stdlib.h>

#include "pair.h"

enum {
	LENGTH = 64,
	WRS = 8,
	DMAC = 0, SMAC = 6, ETHTYPE = 12, /* offsets of a frame without a VLAN tag */
	TOS = 15, IP_FLAGS = 20, TTL = 22, PROTO = 23, SIP = 26, DIP = 30, SPORT = 34, DPORT = 36,
};

/* IPv4 and UDP from 10.0.1.35:4000 to 10.0.1.36:5000. */
static const uint8_t wanted[LENGTH] = {
	0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x02, 0x66, 0x77, 0x88, 0x99, 0xaa,
	0x08, 0x00, 0x45, 0xb8, 0x00, 0x32, 0x12, 0x34, 0x40, 0x00, 0x07, 0x11,
	0x00, 0x00, 10,   0,    1,    35,   10,   0,    1,    36,   0x0f, 0xa0,
	0x13, 0x88, 0x00, 0x1e, 0x00, 0x00, 'w',  'a',  'n',  't',  'e',  'd',
};

static struct pair p;
static uint8_t out[2][LENGTH], in[WRS][LENGTH];
static struct verbena_send_wrs sends;
static struct verbena_recv_wrs recvs;

static int take_all(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	int *marks = arg;

	(void)wrs;
	for (int i = 0; i < num_wc; i++) {
		CHECK_EQ(wcs[i].status, IBV_WC_SUCCESS);
		CHECK_EQ(wcs[i].byte_len, LENGTH);
		/* Which of the frames it was, and that it is whole. */
		int which = in[wcs[i].wr_id][LENGTH - 1];

		CHECK_MEM(in[wcs[i].wr_id], out[which], LENGTH);
		marks[which]++;
	}
	return num_wc ? num_wc : -1;
}

/* Sends both; how many came of each is in marks. */
static void exchange(int marks[2])
{
	marks[0] = marks[1] = 0;
	OK(verbena_post_wrs(p.a, sends.wrs, true) == 0);
	for (int done = 0; done < 2;)
		done += ibv_poll_cq(p.a->send_cq, 2, p.a->send_wcs);
	/*
	 * They are in the receiver's queue, on which the loop looks at the end of a silent moment
	 * at the latest.
	 */
	OK(verbena_repost_loop(take_all, p.b, recvs.wrs, WRS, 5, marks) == 0);
}

static struct verbena_flow_options everything(void)
{
	struct verbena_flow_options opt;

	OK(verbena_flow_options_init(&opt, sizeof(opt)) == 0);
	memcpy(opt.dmac, wanted + DMAC, 6);
	memcpy(opt.smac, wanted + SMAC, 6);
	opt.ethtype = 0x0800;
	opt.sip = 0x0a000123;
	opt.dip = 0x0a000124;
	opt.proto = 17;
	opt.tos = 0xb8;
	opt.ttl = 7;
	opt.dport = 5000;
	opt.sport = 4000;
	return opt;
}

/* The rule with one selector only. */
static struct verbena_flow_options only(size_t offset, size_t size)
{
	struct verbena_flow_options opt, all = everything();

	OK(verbena_flow_options_init(&opt, sizeof(opt)) == 0);
	memcpy((char *)&opt + offset, (char *)&all + offset, size);
	return opt;
}

/* A new frame beside the wanted one: byte `at` differs. */
static void offer(unsigned int at)
{
	memcpy(out[0], wanted, LENGTH);
	memcpy(out[1], wanted, LENGTH);
	out[1][at] ^= 0x40;
	out[1][LENGTH - 1] = 1;
}

static void expect(const char *what, const struct verbena_flow_options *opt, int first, int second)
{
	struct ibv_flow *flow = verbena_create_flow(p.b, opt);
	int marks[2];

	fprintf(stderr, "%s\n", what);
	OK(flow);
	exchange(marks);
	CHECK_EQ(marks[0], first);
	CHECK_EQ(marks[1], second);
	/* And no longer. */
	OK(verbena_destroy_flow(flow) == 0);
	exchange(marks);
	CHECK_EQ(marks[0], 0);
	CHECK_EQ(marks[1], 0);
}

static void test_selectors(void)
{
	static const struct {
		const char *name;
		size_t offset, size;
		unsigned int at;
	} rows[] = {
#define ROW(member, at) { #member, offsetof(struct verbena_flow_options, member), \
			  sizeof(((struct verbena_flow_options *)0)->member), at }
		ROW(dmac, DMAC + 5),   ROW(smac, SMAC + 5), ROW(ethtype, ETHTYPE + 1),
		ROW(sip, SIP + 3),     ROW(dip, DIP + 3),   ROW(proto, PROTO),
		ROW(tos, TOS),         ROW(ttl, TTL),       ROW(dport, DPORT + 1),
		ROW(sport, SPORT + 1),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verbena_flow_options one = only(rows[i].offset, rows[i].size),
					    all = everything();

		offer(rows[i].at);
		expect(rows[i].name, &one, 1, 0);
		expect("with all others", &all, 1, 0);
		/* The other frame is valid, too. */
		offer(LENGTH - 2);
		expect("another byte", &one, 1, 1);
	}
}

/* The tag stands between the addresses and the type. */
static void test_vlan(void)
{
	struct verbena_flow_options opt;
	static const uint8_t tag[4] = { 0x81, 0x00, 0x61, 0x23 };

	OK(verbena_flow_options_init(&opt, sizeof(opt)) == 0);
	opt.vlan = 0x6123;
	for (int i = 0; i < 2; i++) {
		memcpy(out[i], wanted, 12);
		memcpy(out[i] + 12, tag, 4);
		memcpy(out[i] + 16, wanted + 12, LENGTH - 16);
		out[i][LENGTH - 1] = (uint8_t)i;
	}
	out[1][15] ^= 1;
	expect("vlan", &opt, 1, 0);
	opt.dport = 5000;
	expect("vlan and dport", &opt, 1, 0);
	opt.dport = 5001;
	expect("vlan and another dport", &opt, 0, 0);
}

static void test_tcp(void)
{
	struct verbena_flow_options opt;

	OK(verbena_flow_options_init(&opt, sizeof(opt)) == 0);
	offer(PROTO);
	out[1][PROTO] = 6;
	opt.dport = 5000;
	expect("udp", &opt, 1, 0);
	opt.tcpudp = VERBENA_TCP;
	/*
	 * As a TCP header the bytes are short, so the frame is long enough only with the fields
	 * that are asked for.
	 */
	expect("tcp", &opt, 0, 1);
}

/* Types: all that no other rule takes; multicast that no other rule takes; a copy of everything. */
static void test_types(void)
{
	struct verbena_flow_options opt,
		normal = only(offsetof(struct verbena_flow_options, dport), sizeof(uint16_t));
	struct ibv_flow *flow;
	int marks[2];

	OK(verbena_flow_options_init(&opt, sizeof(opt)) == 0);
	offer(DPORT + 1);
	out[1][DMAC] |= 1;
	opt.flow_type = IBV_FLOW_ATTR_ALL_DEFAULT;
	expect("all", &opt, 1, 1);
	opt.flow_type = IBV_FLOW_ATTR_MC_DEFAULT;
	expect("mc", &opt, 0, 1);
	opt.flow_type = IBV_FLOW_ATTR_SNIFFER;
	expect("sniffer", &opt, 1, 1);

	/*
	 * Two rules: the normal one of a, with its own receives, takes what b has only by default.
	 */
	flow = verbena_create_flow(p.a, &normal);
	OK(flow);
	opt.flow_type = IBV_FLOW_ATTR_ALL_DEFAULT;
	expect("all, beside a rule", &opt, 0, 1);
	opt.flow_type = IBV_FLOW_ATTR_SNIFFER;
	expect("sniffer, beside a rule", &opt, 1, 1);
	OK(verbena_destroy_flow(flow) == 0);
	exchange(marks);
}

/* The first priority takes the packet. */
static void test_priority(void)
{
	struct verbena_flow_options first = everything(), second = everything();
	struct ibv_flow *flow;

	offer(LENGTH - 2);
	first.priority = 1;
	second.priority = 2;
	flow = verbena_create_flow(p.a, &first);
	OK(flow);
	expect("behind another", &second, 0, 0);
	OK(verbena_destroy_flow(flow) == 0);
	flow = verbena_create_flow(p.a, &second);
	OK(flow);
	expect("before another", &first, 1, 1);
	OK(verbena_destroy_flow(flow) == 0);
}

int main(int argc, char **argv)
{
	struct verbena_context_options opt = options_of(IBV_QPT_RAW_PACKET);
	const struct verbena_buf from = { .addr = out, .row = LENGTH, .num_pkt = 2 };
	const struct verbena_buf to = { .addr = in, .row = LENGTH, .num_pkt = WRS };

	(void)argc;
	setenv("VERBENA_RAW", "virtual", 1);
	CHECK_EQ(type_named(argv[1]), IBV_QPT_RAW_PACKET);
	opt.max_send_wr = 2;
	opt.max_recv_wr = WRS;
	p = pair_create(&opt);
	OK(verbena_create_recv_wrs(p.b, &to, 1, WRS, VERBENA_POST, &recvs) == 0);
	OK(verbena_create_send_wrs(p.a, &from, 1, 2, 0, &sends) == 0);
	test_selectors();
	test_vlan();
	test_tcp();
	test_types();
	test_priority();
	OK(verbena_destroy_send_wrs(&sends) == 0);
	OK(verbena_destroy_recv_wrs(&recvs) == 0);
	pair_destroy(&p);
	return 0;
}
