/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: a program's rule and a frame, both as bytes.  Input: one byte of choices, the length
 * of the rule's specifications and their number, the rule, the frame.
 *
 * Neither may be read beyond its end; what is said about the frame must be consistent; a rule that
 * takes the frame must be let through by its own filter.
 */
#include <stdbool.h>
#include <string.h>

#include "flow/const.h"
#include "flow/flow.h"
#include "fuzz/fuzz.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	CHOICE_ETHERNET = 1, /* the frame's EtherType becomes one that goes on */
	CHOICE_TUNNEL = 2,   /* and the protocol, too */
	CHOICE_RULE = 4,     /* specifications get types and sizes that exist */
};

static void make_ethernet(uint8_t *frame, size_t len, bool tunnel)
{
	static const uint16_t types[] = { 0x0800, 0x86dd, 0x8100, 0x88a8, 0x8847 };
	uint16_t type;

	if (len < 15)
		return;
	type = types[frame[12] % ARRAY_SIZE(types)];
	put_be16(frame + 12, type);
	if (type == 0x0800)
		frame[14] = 0x40 | (frame[14] & 0xf);
	if (type == 0x86dd)
		frame[14] = 0x60;
	if (tunnel && type == 0x0800 && len > 38) {
		frame[14] = 0x45;
		put_be16(frame + 16, 0);
		put_be16(frame + 20, 0);
		frame[23] = frame[23] & 1 ? PROTO_GRE : PROTO_UDP;
		if (frame[23] == PROTO_UDP)
			put_be16(frame + 36, frame[36] & 1 ? PORT_VXLAN : PORT_MPLS);
	}
}

static void make_specs(uint8_t *specs, size_t len, unsigned int n)
{
	static const struct {
		uint32_t type;
		uint16_t size;
	} kinds[] = {
		{ IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth) },
		{ IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4) },
		{ IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext) },
		{ IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6) },
		{ IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp) },
		{ IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp) },
		{ IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp) },
		{ IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre) },
		{ IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel) },
		{ IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls) },
		{ IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag) },
		{ IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop) },
	};

	for (size_t at = 0; n-- && at + 8 <= len;) {
		unsigned int k = specs[at] % ARRAY_SIZE(kinds);
		uint32_t type = kinds[k].type | (specs[at + 1] & 1 ? IBV_FLOW_SPEC_INNER : 0);

		memcpy(specs + at, &type, 4);
		memcpy(specs + at + 4, &kinds[k].size, 2);
		/* Sparse masks, or nothing would match. */
		for (size_t i = at + 8; i < at + kinds[k].size && i < len; i++)
			specs[i] &= specs[i] >> 4 & specs[i] << 3;
		at += kinds[k].size;
	}
}

static void check_layer(const struct flow_layer *l)
{
	uint32_t h = l->headers;

	FUZZ_CHECK(!(h & FLOW_IPV4 && h & FLOW_IPV6));
	FUZZ_CHECK(!(h & FLOW_FRAGMENT && h & (FLOW_TCP | FLOW_UDP | FLOW_ESP | FLOW_GRE)));
	FUZZ_CHECK(!(h & (FLOW_TCP | FLOW_UDP | FLOW_ESP | FLOW_GRE | FLOW_FRAGMENT)) ||
		   h & (FLOW_IPV4 | FLOW_IPV6));
	FUZZ_CHECK(!(h & FLOW_VLAN) || h & FLOW_ETH);
	FUZZ_CHECK(h & (FLOW_TCP | FLOW_UDP) || !(l->src_port | l->dst_port));
	FUZZ_CHECK(!(h & FLOW_VXLAN) || h & FLOW_UDP);
	FUZZ_CHECK(!(h & FLOW_TUNNEL_MPLS) || h & (FLOW_UDP | FLOW_GRE));
}

static void hit(void *arg, struct flow_rule *rule)
{
	++*(unsigned int *)arg;
}

static void check_rule(struct flow_rule *rule, const struct flow_key *key)
{
	static struct sock_filter program[4096];
	unsigned int hits = 0, len;
	struct flow_table t;

	flow_table_init(&t);
	FUZZ_CHECK(flow_table_add(&t, rule) == 0);
	flow_table_received(&t, key, hit, &hits);
	FUZZ_CHECK(hits <= 1 && (rule->type == IBV_FLOW_ATTR_MC_DEFAULT || rule->egress ||
				 hits == flow_rule_matches(rule, key)));
	len = flow_filter(&t, program, ARRAY_SIZE(program));
	FUZZ_CHECK(len >= 1 && BPF_CLASS(program[len - 1].code) == BPF_RET);
	for (unsigned int i = 0; i < len; i++) {
		if (BPF_CLASS(program[i].code) != BPF_JMP)
			continue;
		FUZZ_CHECK(i + 1u + program[i].jt < len && i + 1u + program[i].jf < len);
		FUZZ_CHECK(BPF_OP(program[i].code) != BPF_JA || i + 1u + program[i].k < len);
	}
	flow_table_del(&t, rule);
	FUZZ_CHECK(flow_table_empty(&t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t specs, frame_len;
	struct ibv_flow_attr *attr;
	struct flow_rule rule;
	struct flow_key key;
	uint8_t *frame;

	if (size < 6)
		return 0;
	specs = min((size_t)data[1] * 2, size - 6);
	/* A specification may say that it is longer than what was left for it. */
	attr = calloc(1, sizeof(*attr) + specs + 2 * FLOW_SPEC_MAX);
	*attr = (struct ibv_flow_attr){
		.type = data[3] % 5 ? IBV_FLOW_ATTR_NORMAL : data[3] % 4,
		.size = sizeof(*attr) + specs,
		.num_of_specs = data[2] % 12,
		.port = 1,
		.flags = data[4] & 0x10 ? data[4] & 7 : 0,
	};
	memcpy(attr + 1, data + 6, specs);
	if (data[0] & CHOICE_RULE)
		make_specs((uint8_t *)(attr + 1), specs, attr->num_of_specs);
	frame_len = size - 6 - specs;
	frame = malloc(frame_len ? frame_len : 1);
	memcpy(frame, data + 6 + specs, frame_len);
	if (data[0] & CHOICE_ETHERNET)
		make_ethernet(frame, frame_len, data[0] & CHOICE_TUNNEL);

	flow_dissect(&key, frame, frame_len);
	check_layer(&key.outer);
	check_layer(&key.inner);
	if (!flow_rule_parse(&rule, attr))
		check_rule(&rule, &key);
	free(frame);
	free(attr);
	return 0;
}
