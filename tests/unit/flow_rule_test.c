/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow rules as programs write them: which are refused with which errno, row by row, and the
 * internal form of each field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flow/rule.h"
#include "unit/flow_env.h"
#include "util/compiler.h"

/*
 * One specification of a row: its type, the size of its struct in the header, and the difference of
 * its `size` field.
 */
struct spec_row {
	uint32_t type;
	uint16_t size;
	int off;
};

#define SIZED(type, name, off) { (type), sizeof(struct ibv_flow_spec_##name), (off) }
#define SPEC(type, name, off)  SIZED(IBV_FLOW_SPEC_##type, name, off)
#define INNER(type, name)      SIZED(IBV_FLOW_SPEC_##type | IBV_FLOW_SPEC_INNER, name, 0)

/* clang-format off */
#define ETH   SPEC(ETH, eth, 0)
#define IPV4  SPEC(IPV4, ipv4, 0)
#define IPV4X SPEC(IPV4_EXT, ipv4_ext, 0)
#define IPV6  SPEC(IPV6, ipv6, 0)
#define TCP   SPEC(TCP, tcp_udp, 0)
#define UDP   SPEC(UDP, tcp_udp, 0)
#define ESP   SPEC(ESP, esp, 0)
#define GRE   SPEC(GRE, gre, 0)
#define VXLAN SPEC(VXLAN_TUNNEL, tunnel, 0)
#define MPLS  SPEC(MPLS, mpls, 0)
#define TAG   SPEC(ACTION_TAG, action_tag, 0)
#define DROP  SPEC(ACTION_DROP, action_drop, 0)

static const struct {
	const char *what;
	int err;
	struct spec_row specs[5];
} spec_rows[] = {
	{ "no specification", 0, { { 0 } } },
	{ "each alone: eth", 0, { ETH } },
	{ "ipv4", 0, { IPV4 } },
	{ "ipv4 ext", 0, { IPV4X } },
	{ "ipv6", 0, { IPV6 } },
	{ "tcp", 0, { TCP } },
	{ "udp", 0, { UDP } },
	{ "esp", 0, { ESP } },
	{ "gre", 0, { GRE } },
	{ "vxlan", 0, { VXLAN } },
	{ "mpls", 0, { MPLS } },
	{ "tag", 0, { TAG } },
	{ "drop", 0, { DROP } },
	{ "inner eth", 0, { INNER(ETH, eth) } },
	{ "inner ipv4", 0, { INNER(IPV4, ipv4) } },
	{ "inner ipv4 ext", 0, { INNER(IPV4_EXT, ipv4_ext) } },
	{ "inner ipv6", 0, { INNER(IPV6, ipv6) } },
	{ "inner tcp", 0, { INNER(TCP, tcp_udp) } },
	{ "inner udp", 0, { INNER(UDP, tcp_udp) } },
	{ "inner esp", 0, { INNER(ESP, esp) } },
	{ "inner mpls", 0, { INNER(MPLS, mpls) } },
	{ "inner vxlan", EINVAL, { INNER(VXLAN_TUNNEL, tunnel) } },
	{ "inner gre", EINVAL, { INNER(GRE, gre) } },
	{ "inner tag", EINVAL, { INNER(ACTION_TAG, action_tag) } },
	{ "inner drop", EINVAL, { INNER(ACTION_DROP, action_drop) } },

	{ "unknown type", EINVAL, { { 0x21, sizeof(struct ibv_flow_spec_eth) } } },
	{ "type 0", EINVAL, { SPEC(INNER, eth, 0) } },
	{ "unknown action", EINVAL, { { 0x1004, 16 } } },
	{ "a type's high bits", EINVAL, { { 0x80000020, sizeof(struct ibv_flow_spec_eth) } } },

	{ "eth: short", 0, { SPEC(ETH, eth, -2) } },
	{ "eth: long", 0, { SPEC(ETH, eth, 4) } },
	{ "eth in the union of all, then ipv4", 0, { SPEC(ETH, eth, 48), IPV4 } },
	{ "ipv4: short", 0, { SPEC(IPV4, ipv4, -8) } },
	{ "ipv4: long", 0, { SPEC(IPV4, ipv4, 8) } },
	{ "ipv4: far too long", EINVAL, { SPEC(IPV4, ipv4, FLOW_SPEC_MAX) } },
	{ "ipv4 ext: short", EINVAL, { SPEC(IPV4_EXT, ipv4_ext, -4) } },
	{ "ipv4 ext: of a later library", 0, { SPEC(IPV4_EXT, ipv4_ext, 8) } },
	{ "ipv4 ext: halves differ", EINVAL, { SPEC(IPV4_EXT, ipv4_ext, 3) } },
	{ "ipv6: short", EINVAL, { SPEC(IPV6, ipv6, -4) } },
	{ "ipv6: of a later library", 0, { SPEC(IPV6, ipv6, 16) } },
	{ "tcp: short", 0, { SPEC(TCP, tcp_udp, -4) } },
	{ "udp: long", 0, { SPEC(UDP, tcp_udp, 4) } },
	{ "esp: short", 0, { SPEC(ESP, esp, -8) } },
	{ "gre: short", 0, { SPEC(GRE, gre, -8) } },
	{ "vxlan: short", EINVAL, { SPEC(VXLAN_TUNNEL, tunnel, -4) } },
	{ "vxlan: of a later library", 0, { SPEC(VXLAN_TUNNEL, tunnel, 8) } },
	{ "mpls: long", 0, { SPEC(MPLS, mpls, 8) } },
	{ "tag: short", 0, { SPEC(ACTION_TAG, action_tag, -4) } },
	{ "drop: long", 0, { SPEC(ACTION_DROP, action_drop, 8) } },
	{ "size 0", 0, { { IBV_FLOW_SPEC_ETH, 0 } } },
	{ "handle of nothing", EINVAL, { SPEC(ACTION_HANDLE, action_handle, 0) } },
	{ "count in nothing", EINVAL, { SPEC(ACTION_COUNT, counter_action, 0) } },

	{ "a stack", 0, { ETH, IPV4, UDP } },
	{ "headers out of order", 0, { UDP, ETH, IPV4X } },
	{ "actions among it", 0, { TAG, ETH, IPV6, TCP } },
	{ "eth twice", EINVAL, { ETH, ETH } },
	{ "udp twice", EINVAL, { UDP, IPV4, UDP } },
	{ "ipv4 in both forms", EINVAL, { IPV4, IPV4X } },
	{ "ipv4 and ipv6", EINVAL, { IPV4, IPV6 } },
	{ "tcp and udp", EINVAL, { TCP, UDP } },
	{ "udp and esp", EINVAL, { UDP, ESP } },
	{ "gre and udp", EINVAL, { GRE, UDP } },
	{ "tag twice", EINVAL, { TAG, TAG } },
	{ "drop twice", EINVAL, { DROP, DROP } },
	{ "tag and drop", 0, { TAG, DROP } },
	{ "both layers", 0, { IPV4, VXLAN, INNER(IPV6, ipv6) } },
	{ "inner twice", EINVAL, { INNER(ETH, eth),
				   INNER(ETH, eth) } },
	{ "vxlan in udp", 0, { ETH, IPV4, UDP, VXLAN } },
	{ "vxlan in tcp", EINVAL, { TCP, VXLAN } },
	{ "vxlan in esp", EINVAL, { VXLAN, ESP } },
	{ "vxlan in gre", EINVAL, { GRE, VXLAN } },

	{ "mpls behind eth", 0, { ETH, MPLS, IPV4, UDP } },
	{ "mpls behind udp", 0, { ETH, IPV4, UDP, MPLS } },
	{ "mpls behind gre", 0, { IPV6, GRE, MPLS } },
	{ "mpls twice in one place", EINVAL, { MPLS, MPLS } },
	{ "mpls in two places", 0, { MPLS, IPV4, UDP, MPLS } },
	{ "mpls and headers out of order", EINVAL, { MPLS, UDP, IPV4 } },
	{ "mpls behind ip", EINVAL, { ETH, IPV4, MPLS } },
	{ "mpls before eth", EINVAL, { MPLS, ETH } },
	{ "inner mpls before the outer ip", EINVAL, { INNER(MPLS, mpls), IPV4 } },
	{ "mpls and vxlan in one udp", EINVAL, { UDP, VXLAN, MPLS, MPLS } },
	{ "an action between udp and mpls", 0, { UDP, TAG, MPLS } },
};

/* clang-format on */
static void specifications(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(spec_rows); i++) {
		struct spec_list list;
		struct flow_rule rule;
		int err;

		rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
		for (const struct spec_row *s = spec_rows[i].specs;
		     s < spec_rows[i].specs + 5 && s->type; s++) {
			uint8_t bytes[2 * FLOW_SPEC_MAX] = { 0 };
			uint16_t size = s->size + s->off;

			memcpy(bytes, &s->type, 4);
			memcpy(bytes + 4, &size, 2);
			rule_add(&list, bytes, size < 6 ? 6 : size);
		}
		err = flow_rule_parse(&rule, &list.attr);
		if (err != spec_rows[i].err)
			fail_msg("%s: %d, not %d", spec_rows[i].what, err, spec_rows[i].err);
	}
}

#define FLAGGED(kind, flag)                                                                        \
	{ .type = IBV_FLOW_ATTR_##kind, .port = 1, .flags = IBV_FLOW_ATTR_FLAGS_##flag }

/* clang-format off */
static const struct {
	const char *what;
	int err;
	struct ibv_flow_attr attr;	/* size: difference from the correct size */
} attr_rows[] = {
	{ "normal", 0, { .type = IBV_FLOW_ATTR_NORMAL, .port = 1 } },
	{ "all default", 0, { .type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1 } },
	{ "multicast default", 0, { .type = IBV_FLOW_ATTR_MC_DEFAULT, .port = 1 } },
	{ "sniffer", 0, { .type = IBV_FLOW_ATTR_SNIFFER, .port = 1 } },
	{ "unknown type", EINVAL, { .type = (enum ibv_flow_attr_type)4, .port = 1 } },
	{ "negative type", EINVAL, { .type = (enum ibv_flow_attr_type)-1, .port = 1 } },
	{ "lowest priority", 0, { .port = 1, .priority = 0xffff } },
	{ "unknown member", EINVAL, { .port = 1, .comp_mask = 1 } },
	{ "port 0", EINVAL, { .port = 0 } },
	{ "port 2", EINVAL, { .port = 2 } },
	{ "a size that is none", 0, { .port = 1, .size = (uint16_t)-1 } },
	{ "room behind the rule", 0, { .port = 1, .size = 100 } },
	{ "a specification that is not there", EINVAL, { .port = 1, .num_of_specs = 1 } },
	{ "too many", EINVAL, { .port = 1, .num_of_specs = 11, .size = 900 } },
	{ "don't trap", 0, { .port = 1, .flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP } },
	{ "egress", 0, { .port = 1, .flags = IBV_FLOW_ATTR_FLAGS_EGRESS } },
	{ "the flag there once was", EINVAL, { .port = 1, .flags = 1 } },
	{ "unknown flag", EINVAL, { .port = 1, .flags = 8 } },
	{ "don't trap the rest", EINVAL, FLAGGED(ALL_DEFAULT, DONT_TRAP) },
	{ "don't trap multicast", EINVAL, FLAGGED(MC_DEFAULT, DONT_TRAP) },
	{ "don't trap sniffer", 0, FLAGGED(SNIFFER, DONT_TRAP) },
	{ "egress default", EINVAL, FLAGGED(ALL_DEFAULT, EGRESS) },
	{ "egress sniffer", EINVAL, FLAGGED(SNIFFER, EGRESS) },
};
/* clang-format on */

static void attributes(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(attr_rows); i++) {
		struct {
			struct ibv_flow_attr attr;
			uint8_t room[1000];
		} a = { attr_rows[i].attr, { 0 } };
		struct flow_rule rule;
		int err;

		a.attr.size += sizeof(a.attr);
		err = flow_rule_parse(&rule, &a.attr);
		if (err != attr_rows[i].err)
			fail_msg("%s: %d, not %d", attr_rows[i].what, err, attr_rows[i].err);
		if (err)
			continue;
		assert_int_equal(rule.type, a.attr.type);
		assert_int_equal(rule.priority, a.attr.priority);
		assert_int_equal(rule.dont_trap, !!(a.attr.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP));
		assert_int_equal(rule.egress, !!(a.attr.flags & IBV_FLOW_ATTR_FLAGS_EGRESS));
		assert_int_equal(rule.words, 0);
	}
}

static struct ibv_counters *const some_counters = (void *)8;
static const struct ibv_flow_action *const some_action = (void *)16;

/* Types of rules and what they do. mlx5 ignores what rules of other types than NORMAL specify. */
static void actions(void **state)
{
	enum { T = 1, D = 2, H = 4, C = 8, F = 16 };
	static const struct {
		enum ibv_flow_attr_type type;
		uint32_t flags;
		unsigned int refused, done;
	} rows[] = {
		{ IBV_FLOW_ATTR_NORMAL, 0, 0, T | D | H | C | F },
		{ IBV_FLOW_ATTR_NORMAL, IBV_FLOW_ATTR_FLAGS_DONT_TRAP, 0, T | D | H | C | F },
		{ IBV_FLOW_ATTR_NORMAL, IBV_FLOW_ATTR_FLAGS_EGRESS, T, D | H | C | F },
		{ IBV_FLOW_ATTR_ALL_DEFAULT, 0, 0, H | C },
		{ IBV_FLOW_ATTR_MC_DEFAULT, 0, 0, H | C },
		{ IBV_FLOW_ATTR_SNIFFER, 0, 0, T | H | C },
		{ IBV_FLOW_ATTR_SNIFFER, IBV_FLOW_ATTR_FLAGS_DONT_TRAP, 0, T | H | C },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (unsigned int action = T; action <= F; action <<= 1) {
			struct spec_list list;
			struct flow_rule rule;

			rule_begin(&list, rows[i].type);
			list.attr.flags = rows[i].flags;
			if (action == T)
				RULE_ADD(&list, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = 5);
			else if (action == D)
				RULE_ADD(&list, action_drop, IBV_FLOW_SPEC_ACTION_DROP);
			else if (action == H)
				RULE_ADD(&list, action_handle, IBV_FLOW_SPEC_ACTION_HANDLE,
					 .action = some_action);
			else if (action == C)
				RULE_ADD(&list, counter_action, IBV_FLOW_SPEC_ACTION_COUNT,
					 .counters = some_counters);
			else
				RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH, .val.ether_type = 8,
					 .mask.ether_type = 0xffff);
			assert_int_equal(flow_rule_parse(&rule, &list.attr),
					 rows[i].refused & action ? EINVAL : 0);
			if (rows[i].refused & action)
				continue;
			unsigned int does = rows[i].done & action;

			assert_int_equal(rule.tagged, does == T);
			assert_int_equal(rule.tag, does == T ? 5 : 0);
			assert_int_equal(rule.drop, does == D);
			assert_ptr_equal(rule.action, does == H ? some_action : NULL);
			assert_ptr_equal(rule.counters, does == C ? some_counters : NULL);
			assert_int_equal(rule.words != 0, does == F);
			assert_int_equal(rule.ignored, !does);
		}
	}
}

static int parse_tag(uint32_t tag)
{
	struct spec_list list;
	struct flow_rule rule;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, action_tag, IBV_FLOW_SPEC_ACTION_TAG, .tag_id = tag);
	return flow_rule_parse(&rule, &list.attr);
}

static int parse_label(uint32_t val, uint32_t mask, uint32_t inner)
{
	struct spec_list list;
	struct flow_rule rule;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, ipv6, IBV_FLOW_SPEC_IPV6 | inner, .val.flow_label = htobe32(val),
		 .mask.flow_label = htobe32(mask));
	return flow_rule_parse(&rule, &list.attr);
}

static int parse_vni(uint32_t val, uint32_t mask)
{
	struct spec_list list;
	struct flow_rule rule;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, tunnel, IBV_FLOW_SPEC_VXLAN_TUNNEL, .val.tunnel_id = htobe32(val),
		 .mask.tunnel_id = htobe32(mask));
	return flow_rule_parse(&rule, &list.attr);
}

static int parse_ip_flags(uint8_t val, uint8_t mask)
{
	struct spec_list list;
	struct flow_rule rule;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, ipv4_ext, IBV_FLOW_SPEC_IPV4_EXT, .val.flags = val, .mask.flags = mask);
	return flow_rule_parse(&rule, &list.attr);
}

static void fields_out_of_range(void **state)
{
	assert_int_equal(parse_tag((1 << FLOW_TAG_BITS) - 1), 0);
	assert_int_equal(parse_tag(1 << FLOW_TAG_BITS), EINVAL);
	assert_int_equal(parse_label(0xfffff, 0xfffff, 0), 0);
	assert_int_equal(parse_label(0x100000, 0xfffff, 0), EINVAL);
	assert_int_equal(parse_label(0, 0xffffffff, 0), EINVAL);
	assert_int_equal(parse_label(0, 0x100000, IBV_FLOW_SPEC_INNER), EINVAL);
	assert_int_equal(parse_vni(0xffffff, 0xffffff), 0);
	assert_int_equal(parse_vni(0x1000000, 0xffffff), EINVAL);
	assert_int_equal(parse_vni(0, 0xffffffff), EINVAL);
	assert_int_equal(parse_ip_flags(7, 0xff), 0);
	assert_int_equal(parse_ip_flags(8, 0xff), EINVAL);
	assert_int_equal(parse_ip_flags(8, 7), 0);
}

/* A matched header must agree with the type or protocol field of the header below it. */
static void contradictions(void **state)
{
	static const struct {
		int err;
		uint16_t type, type_mask;
		uint8_t proto, proto_mask;
		uint32_t above;
		uint16_t port, port_mask;
		bool vxlan;
	} rows[] = {
		{ 0, 0x0800, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP },
		{ 0, 0, 0, 0, 0, IBV_FLOW_SPEC_UDP },
		{ 0, 0x86dd, 0, 6, 0, IBV_FLOW_SPEC_UDP },
		{ EINVAL, 0x86dd, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP },
		{ EINVAL, 0x86dd, 0xff00, 17, 0xff, IBV_FLOW_SPEC_UDP },
		{ 0, 0x0801, 0xff00, 17, 0xff, IBV_FLOW_SPEC_UDP },
		{ 0, 0x8847, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP },
		{ 0, 0x8848, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP },
		{ EINVAL, 0x0800, 0xffff, 6, 0xff, IBV_FLOW_SPEC_UDP },
		{ EINVAL, 0x0800, 0xffff, 17, 0xff, IBV_FLOW_SPEC_TCP },
		{ 0, 0x0800, 0xffff, 6, 0xff, IBV_FLOW_SPEC_TCP },
		{ 0, 0x0800, 0xffff, 50, 0xff, IBV_FLOW_SPEC_ESP },
		{ EINVAL, 0x0800, 0xffff, 47, 0xff, IBV_FLOW_SPEC_ESP },
		{ 0, 0x0800, 0xffff, 47, 0xff, IBV_FLOW_SPEC_GRE },
		{ EINVAL, 0x0800, 0xffff, 50, 0xff, IBV_FLOW_SPEC_GRE },
		{ EINVAL, 0x0800, 0xffff, 6, 0xff, 0, 0, 0, true },
		{ 0, 0x0800, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP, 4789, 0xffff, true },
		{ EINVAL, 0x0800, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP, 4790, 0xffff, true },
		{ 0, 0x0800, 0xffff, 17, 0xff, IBV_FLOW_SPEC_UDP, 4790, 0xff00, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows) * 2; i++) {
		uint32_t inner =
			i % 2 && !rows[i / 2].vxlan && rows[i / 2].above != IBV_FLOW_SPEC_GRE
				? IBV_FLOW_SPEC_INNER
				: 0;
		struct spec_list list;
		struct flow_rule rule;
		int err;

		rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
		RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH | inner,
			 .val.ether_type = htobe16(rows[i / 2].type),
			 .mask.ether_type = htobe16(rows[i / 2].type_mask));
		RULE_ADD(&list, ipv4_ext, IBV_FLOW_SPEC_IPV4_EXT | inner,
			 .val.proto = rows[i / 2].proto, .mask.proto = rows[i / 2].proto_mask);
		if (rows[i / 2].above == IBV_FLOW_SPEC_ESP)
			RULE_ADD(&list, esp, IBV_FLOW_SPEC_ESP | inner);
		else if (rows[i / 2].above == IBV_FLOW_SPEC_GRE)
			RULE_ADD(&list, gre, IBV_FLOW_SPEC_GRE);
		else if (rows[i / 2].above)
			RULE_ADD(&list, tcp_udp, rows[i / 2].above | inner,
				 .val.dst_port = htobe16(rows[i / 2].port),
				 .mask.dst_port = htobe16(rows[i / 2].port_mask));
		if (rows[i / 2].vxlan)
			RULE_ADD(&list, tunnel, IBV_FLOW_SPEC_VXLAN_TUNNEL);
		err = flow_rule_parse(&rule, &list.attr);
		if (err != rows[i / 2].err)
			fail_msg("row %zu: %d, not %d", i / 2, err, rows[i / 2].err);
	}
}

static void mpls_needs_its_ether_type_and_port(void **state)
{
	struct spec_list list;
	struct flow_rule rule;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH, .val.ether_type = htobe16(0x0800),
		 .mask.ether_type = 0xffff);
	RULE_ADD(&list, mpls, IBV_FLOW_SPEC_MPLS);
	assert_int_equal(flow_rule_parse(&rule, &list.attr), EINVAL);
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP, .val.dst_port = htobe16(6635),
		 .mask.dst_port = 0xffff);
	RULE_ADD(&list, mpls, IBV_FLOW_SPEC_MPLS);
	assert_int_equal(flow_rule_parse(&rule, &list.attr), 0);
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP, .val.dst_port = htobe16(6636),
		 .mask.dst_port = 0xffff);
	RULE_ADD(&list, mpls, IBV_FLOW_SPEC_MPLS);
	assert_int_equal(flow_rule_parse(&rule, &list.attr), EINVAL);
}

/* Fields that a later library may use must not be ignored. */
static void unknown_fields(void **state)
{
	struct {
		struct ibv_flow_spec_ipv4_ext spec;
		uint8_t more[8];
	} later = { { .type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof(later) } };
	uint8_t *val = (uint8_t *)&later.spec.val;
	size_t filter = sizeof(later.spec.val) + 4;
	struct spec_list list;
	struct flow_rule rule;

	val[sizeof(later.spec.val)] = 1; /* a value alone does not select */
	val[filter + 3] = 0xff;
	val[3] = 7;
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	rule_add(&list, &later, sizeof(later));
	assert_int_equal(flow_rule_parse(&rule, &list.attr), 0);
	assert_int_equal(rule.val.outer.src_ip[3], 7);
	assert_int_equal(rule.mask.outer.src_ip[3], 0xff);

	val[2 * filter - 1] = 1;
	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	rule_add(&list, &later, sizeof(later));
	assert_int_equal(flow_rule_parse(&rule, &list.attr), EOPNOTSUPP);
}

/*
 * Every byte of a filter counts: a mask of one byte sets one byte of the rule's mask, a different
 * one for each.
 */
static void every_field_has_a_place(void **state)
{
	static const struct {
		uint32_t type;
		uint16_t size, at, filter;
	} kinds[] = {
		{ IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth), 6, 16 },
		{ IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4), 8, 8 },
		{ IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext), 8, 12 },
		{ IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6), 8, 39 },
		{ IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp), 6, 4 },
		{ IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp), 8, 8 },
		{ IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre), 8, 8 },
		{ IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel), 8, 4 },
		{ IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls), 8, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint8_t seen[sizeof(struct flow_key)] = { 0 };
		uint16_t padded = kinds[i].type == IBV_FLOW_SPEC_IPV6 ? 40 : kinds[i].filter;

		for (uint16_t b = 0; b < kinds[i].filter; b++) {
			uint8_t spec[128] = { 0 };
			struct spec_list list;
			struct flow_rule rule;
			unsigned int set = 0;

			/* of the two fields with a limit, the first byte exceeds it */
			if ((kinds[i].type == IBV_FLOW_SPEC_VXLAN_TUNNEL && b == 0) ||
			    (kinds[i].type == IBV_FLOW_SPEC_IPV6 && b == 32))
				continue;
			memcpy(spec, &kinds[i].type, 4);
			memcpy(spec + 4, &kinds[i].size, 2);
			spec[kinds[i].at + b] = 5;
			spec[kinds[i].at + padded + b] = 0x0c;
			rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
			rule_add(&list, spec, kinds[i].size);
			assert_int_equal(flow_rule_parse(&rule, &list.attr), 0);
			memset(&rule.mask.outer.headers, 0, 4);
			memset(&rule.val.outer.headers, 0, 4);
			for (size_t k = 0; k < sizeof(rule.mask); k++) {
				uint8_t mask = ((uint8_t *)&rule.mask)[k];

				assert_int_equal(((uint8_t *)&rule.val)[k], mask ? 4 : 0);
				if (!mask)
					continue;
				assert_int_equal(mask, 0x0c);
				assert_int_equal(seen[k]++, 0);
				set++;
			}
			assert_int_equal(set, 1);
		}
	}
}

/*
 * Nothing is read beyond the last specification, whatever `size` says: the rule lies at the end of
 * its memory, so that a sanitizer reports a read beyond.
 */
static void nothing_beyond_is_read(void **state)
{
	struct spec_list list;
	struct flow_rule rule;
	struct ibv_flow_attr *a;

	rule_begin(&list, IBV_FLOW_ATTR_NORMAL);
	RULE_ADD(&list, eth, IBV_FLOW_SPEC_ETH);
	RULE_ADD(&list, ipv6, IBV_FLOW_SPEC_IPV6);
	RULE_ADD(&list, tcp_udp, IBV_FLOW_SPEC_UDP);
	RULE_ADD(&list, counter_action, IBV_FLOW_SPEC_ACTION_COUNT, .counters = some_counters);
	a = malloc(list.attr.size);
	memcpy(a, &list, list.attr.size);
	for (uint16_t size = 0; size <= list.attr.size; size++) {
		a->size = size;
		assert_int_equal(flow_rule_parse(&rule, a), 0);
	}
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specifications),
		cmocka_unit_test(attributes),
		cmocka_unit_test(actions),
		cmocka_unit_test(fields_out_of_range),
		cmocka_unit_test(contradictions),
		cmocka_unit_test(mpls_needs_its_ether_type_and_port),
		cmocka_unit_test(unknown_fields),
		cmocka_unit_test(every_field_has_a_place),
		cmocka_unit_test(nothing_beyond_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
