/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every selector and attribute of a flow rule: what reaches ibv_create_flow(), byte for byte.  The
 * verb is replaced by one that keeps what it is given; whether rules select is a matter of the
 * device (flow_test).
 */
#include <endian.h>
#include <stddef.h>

#include "pair.h"

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4_ext ipv4;
	struct ibv_flow_spec_tcp_udp l4;
};

static struct {
	struct ibv_qp *qp;
	struct rule rule;
	struct ibv_flow flow;
	int created, destroyed;
	int err; /* what the verb fails with */
} kept;

static struct ibv_flow *keep_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	if (kept.err) {
		errno = kept.err;
		return NULL;
	}
	CHECK(attr->size <= sizeof(kept.rule));
	memset(&kept.rule, 0, sizeof(kept.rule));
	memcpy(&kept.rule, attr, attr->size);
	kept.qp = qp;
	kept.flow.context = qp->context;
	kept.created++;
	return &kept.flow;
}

static int drop_flow(struct ibv_flow *flow)
{
	CHECK(flow == &kept.flow);
	kept.destroyed += kept.err == 0;
	return kept.err;
}

/* The options and the rule that must come of them; sizes and types are filled in. */
struct row {
	const char *name;
	struct verbena_flow_options opt;
	unsigned int specs;
	struct rule rule;
};

/* As constants, which htons() need not be. */
#define BE16(x)	((uint16_t)(BYTE_ORDER == BIG_ENDIAN ? (x) : __builtin_bswap16(x)))
#define BE32(x)	((uint32_t)(BYTE_ORDER == BIG_ENDIAN ? (x) : __builtin_bswap32(x)))
#define ONES8  0xff
#define ONES16 0xffff
#define ONES32 0xffffffff
#define MAC    { 0x02, 0x11, 0x22, 0x33, 0x44, 0x55 }
#define MASK   { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }
#define ETH(field, v, m)  .eth = { .val = { .field = v }, .mask = { .field = m } }
#define IPV4(field, v, m) .ipv4 = { .val = { .field = v }, .mask = { .field = m } }
#define L4(field, v, m)	  .l4 = { .val = { .field = v }, .mask = { .field = m } }

static const struct row rows[] = {
	{ "nothing", { 0 }, 0, { .attr = { 0 } } },
	{ "all",
	  { .flow_type = IBV_FLOW_ATTR_ALL_DEFAULT },
	  0,
	  { .attr.type = IBV_FLOW_ATTR_ALL_DEFAULT } },
	{ "mc",
	  { .flow_type = IBV_FLOW_ATTR_MC_DEFAULT },
	  0,
	  { .attr.type = IBV_FLOW_ATTR_MC_DEFAULT } },
	{ "sniffer",
	  { .flow_type = IBV_FLOW_ATTR_SNIFFER },
	  0,
	  { .attr.type = IBV_FLOW_ATTR_SNIFFER } },
	{ "priority", { .priority = 0x1234 }, 0, { .attr.priority = 0x1234 } },
	{ "flow_flags",
	  { .flow_flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP },
	  0,
	  { .attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP } },
	{ "dmac", { .dmac = MAC }, 1, { ETH(dst_mac, MAC, MASK) } },
	{ "smac", { .smac = MAC }, 1, { ETH(src_mac, MAC, MASK) } },
	{ "ethtype", { .ethtype = 0x0800 }, 1, { ETH(ether_type, BE16(0x0800), ONES16) } },
	{ "vlan", { .vlan = 0x6123 }, 1, { ETH(vlan_tag, BE16(0x6123), ONES16) } },
	{ "sip", { .sip = 0x0a000123 }, 2, { IPV4(src_ip, BE32(0x0a000123), ONES32) } },
	{ "dip", { .dip = 0x0a000123 }, 2, { IPV4(dst_ip, BE32(0x0a000123), ONES32) } },
	{ "proto", { .proto = 17 }, 2, { IPV4(proto, 17, ONES8) } },
	{ "tos", { .tos = 0xb8 }, 2, { IPV4(tos, 0xb8, ONES8) } },
	{ "ttl", { .ttl = 64 }, 2, { IPV4(ttl, 64, ONES8) } },
	{ "flags", { .flags = 2 }, 2, { IPV4(flags, 2, ONES8) } },
	{ "dport", { .dport = 4791 }, 3, { L4(dst_port, BE16(4791), ONES16) } },
	{ "sport", { .sport = 4791 }, 3, { L4(src_port, BE16(4791), ONES16) } },
	{ "tcp",
	  { .dport = 80, .tcpudp = VERBENA_TCP },
	  3,
	  { .l4 = { .type = IBV_FLOW_SPEC_TCP,
		    .val = { .dst_port = BE16(80) },
		    .mask = { .dst_port = ONES16 } } } },
	{ "tcp alone", { .tcpudp = VERBENA_TCP }, 0, { .attr = { 0 } } },
	{ "layers add up",
	  { .vlan = 5, .dip = 1, .dport = 2, .sport = 3 },
	  3,
	  { ETH(vlan_tag, BE16(5), ONES16), IPV4(dst_ip, BE32(1), ONES32),
	    .l4 = { .val = { BE16(2), BE16(3) }, .mask = { ONES16, ONES16 } } } },
};

static void check_rule(const struct row *row)
{
	static const size_t sizes[] = { offsetof(struct rule, eth), offsetof(struct rule, ipv4),
					offsetof(struct rule, l4), sizeof(struct rule) };
	struct rule want = row->rule;

	want.attr.port = 1;
	want.attr.num_of_specs = (uint8_t)row->specs;
	want.attr.size = (uint16_t)sizes[row->specs];
	if (row->specs > 0) {
		want.eth.type = IBV_FLOW_SPEC_ETH;
		want.eth.size = sizeof(want.eth);
	}
	if (row->specs > 1) {
		want.ipv4.type = IBV_FLOW_SPEC_IPV4_EXT;
		want.ipv4.size = sizeof(want.ipv4);
	}
	if (row->specs > 2) {
		want.l4.type = want.l4.type ? want.l4.type : IBV_FLOW_SPEC_UDP;
		want.l4.size = sizeof(want.l4);
	}
	CHECK_MEM(&kept.rule, &want, sizeof(want));
}

static void test_rows(struct verbena_context *ctx)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verbena_flow_options opt = rows[i].opt;
		struct ibv_flow *flow;

		fprintf(stderr, "%s\n", rows[i].name);
		opt.size = sizeof(opt);
		flow = verbena_create_flow(ctx, &opt);
		OK(flow);
		CHECK(kept.qp == ctx->qp);
		check_rule(&rows[i]);
		OK(verbena_destroy_flow(flow) == 0);
	}
	CHECK_EQ(kept.created, kept.destroyed);
}

/* The form with a queue pair and a port, and the defaults. */
static void test_forms(struct verbena_context *ctx)
{
	struct verbena_flow_options opt;
	static const struct row nothing;

	memset(&opt, 0xa5, sizeof(opt));
	OK(verbena_flow_options_init(&opt, sizeof(opt)) == 0);
	CHECK_EQ(opt.size, sizeof(opt));
	OK(verbena_create_flow(ctx, &opt));
	check_rule(&nothing);
	OK(verbena_create_flow(ctx, NULL));
	check_rule(&nothing);
	OK(verbena_create_flow_qp(ctx->qp, 200, &opt));
	CHECK_EQ(kept.rule.attr.port, 200);
	OK(verbena_destroy_flow(NULL) == 0);
}

static void test_refused(struct verbena_context *ctx)
{
	struct {
		struct verbena_flow_options opt;
		unsigned char later[16];
	} bigger = { .opt.size = sizeof(bigger), .later = { [15] = 1 } };
	struct verbena_flow_options opt, good = { .size = sizeof(good) };

	FAILS(verbena_create_flow(NULL, &good), NULL, EINVAL);
	FAILS(verbena_create_flow_qp(NULL, 1, &good), NULL, EINVAL);
	FAILS(verbena_create_flow_qp(ctx->qp, 256, &good), NULL, EINVAL);
#define REFUSED(member, value)                                                                     \
	do {                                                                                       \
		opt = good;                                                                        \
		opt.member = (value);                                                              \
		FAILS(verbena_create_flow(ctx, &opt), NULL, EINVAL);                               \
	} while (0)
	REFUSED(flow_type, (enum ibv_flow_attr_type)4);
	REFUSED(flow_type, (enum ibv_flow_attr_type) - 1);
	REFUSED(tcpudp, (enum verbena_tcpudp)2);
	REFUSED(size, 0);
	REFUSED(size, sizeof(opt) - 1);
	REFUSED(size, SIZE_MAX);
	FAILS(verbena_create_flow(ctx, &bigger.opt), NULL, E2BIG);
	FAILS(verbena_flow_options_init(NULL, sizeof(opt)), -1, EINVAL);
	FAILS(verbena_flow_options_init(&opt, 3), -1, EINVAL);
	/* What the device says comes through. */
	kept.err = EPERM;
	FAILS(verbena_create_flow(ctx, &good), NULL, EPERM);
	FAILS(verbena_destroy_flow(&kept.flow), -1, EPERM);
	kept.err = 0;
}

int main(void)
{
	struct verbena_context_options opt = options_of(IBV_QPT_UD);
	struct verbena_context *ctx = context_of(&opt);
	struct verbs_context *vctx = verbs_get_ctx(ctx->context);
	struct verbs_context before = *vctx;

	vctx->ibv_create_flow = keep_flow;
	vctx->ibv_destroy_flow = drop_flow;
	test_rows(ctx);
	test_forms(ctx);
	test_refused(ctx);
	vctx->ibv_create_flow = before.ibv_create_flow;
	vctx->ibv_destroy_flow = before.ibv_destroy_flow;
	OK(verbena_destroy_context(ctx) == 0);
	return 0;
}
