/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses rules. `kinds` has a row per type of specification; its fill function writes the program's
 * values and masks into the rule's two keys. Refuses rules that no frame can match, and ambiguous
 * ones. Only rules of type NORMAL match headers; what others specify is ignored, as by mlx5.
 */
#include "flow/rule.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "flow/const.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	PORT = 1, /* every device has one */
	FLOW_LABEL_LIMIT = 1 << 20,
	VNI_LIMIT = 1 << 24,
	TAG_LIMIT = 1 << FLOW_TAG_BITS,
	ALL_FLAGS = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS,
};

/* A specification's place in the stack of headers; a rule has at most one per place. */
enum place {
	AT_ETH,
	AT_MPLS,
	AT_IP,
	AT_TRANSPORT,
	AT_TUNNEL, /* what UDP or GRE carries */
	PLACES_OF_LAYER,
	AT_TAG = 2 * PLACES_OF_LAYER,
	AT_DROP,
	AT_HANDLE,
	AT_COUNT,
};

typedef void fill_fn(struct flow_key *key, struct flow_layer *layer, const uint8_t *filter);

struct kind {
	uint32_t type;
	enum place place;
	uint16_t size;   /* of the struct */
	uint16_t filter; /* bytes of its val, and of its mask behind it; 0: an action */
	uint16_t at;     /* of its val */
	bool inner;      /* may have IBV_FLOW_SPEC_INNER */
	bool grows;      /* a later library's may be longer */
	uint32_t header; /* that a frame must have */
	fill_fn *fill;
};

/* By type of rule. A sniffer traps nothing anyway. */
static const uint32_t flags_of[] = {
	[IBV_FLOW_ATTR_NORMAL] = ALL_FLAGS,
	[IBV_FLOW_ATTR_SNIFFER] = IBV_FLOW_ATTR_FLAGS_DONT_TRAP,
};

/* The state of parsing a rule. */
struct reading {
	struct flow_rule *rule;
	const uint8_t *at;
	uint32_t taken;     /* bits by enum place, those of the inner layer behind */
	uint32_t last_type; /* the specification before */
	int last_place;
	bool mpls, out_of_order;
};

static int refuse(struct flow_rule *rule, const char *why)
{
	rule->refused = why;
	return EINVAL;
}

#define COPY(to, filter, type, member) memcpy(&(to), (filter) + offsetof(type, member), sizeof(to))

static void fill_eth(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(l->dst_mac, f, struct ibv_flow_eth_filter, dst_mac);
	COPY(l->src_mac, f, struct ibv_flow_eth_filter, src_mac);
	COPY(l->ether_type, f, struct ibv_flow_eth_filter, ether_type);
	COPY(l->vlan_tag, f, struct ibv_flow_eth_filter, vlan_tag);
}

static void fill_ipv4(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	memcpy(l->src_ip, f + offsetof(struct ibv_flow_ipv4_filter, src_ip), 4);
	memcpy(l->dst_ip, f + offsetof(struct ibv_flow_ipv4_filter, dst_ip), 4);
}

static void fill_ipv4_ext(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	memcpy(l->src_ip, f + offsetof(struct ibv_flow_ipv4_ext_filter, src_ip), 4);
	memcpy(l->dst_ip, f + offsetof(struct ibv_flow_ipv4_ext_filter, dst_ip), 4);
	COPY(l->proto, f, struct ibv_flow_ipv4_ext_filter, proto);
	COPY(l->tos, f, struct ibv_flow_ipv4_ext_filter, tos);
	COPY(l->ttl, f, struct ibv_flow_ipv4_ext_filter, ttl);
	COPY(l->ip_flags, f, struct ibv_flow_ipv4_ext_filter, flags);
}

static void fill_ipv6(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(l->src_ip, f, struct ibv_flow_ipv6_filter, src_ip);
	COPY(l->dst_ip, f, struct ibv_flow_ipv6_filter, dst_ip);
	COPY(l->flow_label, f, struct ibv_flow_ipv6_filter, flow_label);
	COPY(l->proto, f, struct ibv_flow_ipv6_filter, next_hdr);
	COPY(l->tos, f, struct ibv_flow_ipv6_filter, traffic_class);
	COPY(l->ttl, f, struct ibv_flow_ipv6_filter, hop_limit);
}

static void fill_ports(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(l->dst_port, f, struct ibv_flow_tcp_udp_filter, dst_port);
	COPY(l->src_port, f, struct ibv_flow_tcp_udp_filter, src_port);
}

static void fill_esp(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(l->spi, f, struct ibv_flow_esp_filter, spi);
	COPY(l->esp_seq, f, struct ibv_flow_esp_filter, seq);
}

static void fill_gre(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(key->gre_flags, f, struct ibv_flow_gre_filter, c_ks_res0_ver);
	COPY(key->gre_protocol, f, struct ibv_flow_gre_filter, protocol);
	COPY(key->gre_key, f, struct ibv_flow_gre_filter, key);
}

static void fill_vxlan(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(key->vni, f, struct ibv_flow_tunnel_filter, tunnel_id);
}

static void fill_mpls(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(l->mpls, f, struct ibv_flow_mpls_filter, label);
}

static void fill_tunnel_mpls(struct flow_key *key, struct flow_layer *l, const uint8_t *f)
{
	COPY(key->tunnel_mpls, f, struct ibv_flow_mpls_filter, label);
}

#define HEADER(type, at, name)                                                                     \
	IBV_FLOW_SPEC_##type, at, sizeof(struct ibv_flow_spec_##name),                             \
		sizeof(((struct ibv_flow_spec_##name *)0)->val),                                   \
		offsetof(struct ibv_flow_spec_##name, val)
#define ACTION(type, at, name)                                                                     \
	IBV_FLOW_SPEC_ACTION_##type, at, sizeof(struct ibv_flow_spec_##name), 0, 0

/* clang-format off */
static const struct kind kinds[] = {
	/* type, place, bytes of spec, filter, at; inner, grows, header, fill */
	{ HEADER(ETH, AT_ETH, eth), true, false, FLOW_ETH, fill_eth },
	{ HEADER(IPV4, AT_IP, ipv4), true, false, FLOW_IPV4, fill_ipv4 },
	{ HEADER(IPV4_EXT, AT_IP, ipv4_ext), true, true, FLOW_IPV4, fill_ipv4_ext },
	{ HEADER(IPV6, AT_IP, ipv6), true, true, FLOW_IPV6, fill_ipv6 },
	{ HEADER(TCP, AT_TRANSPORT, tcp_udp), true, false, FLOW_TCP, fill_ports },
	{ HEADER(UDP, AT_TRANSPORT, tcp_udp), true, false, FLOW_UDP, fill_ports },
	{ HEADER(ESP, AT_TRANSPORT, esp), true, false, FLOW_ESP, fill_esp },
	{ HEADER(GRE, AT_TRANSPORT, gre), false, false, FLOW_GRE, fill_gre },
	{ HEADER(VXLAN_TUNNEL, AT_TUNNEL, tunnel), false, true, FLOW_VXLAN, fill_vxlan },
	{ HEADER(MPLS, AT_MPLS, mpls), true, false, FLOW_MPLS, fill_mpls },
	{ ACTION(TAG, AT_TAG, action_tag) },
	{ ACTION(DROP, AT_DROP, action_drop) },
	{ ACTION(HANDLE, AT_HANDLE, action_handle) },
	{ ACTION(COUNT, AT_COUNT, counter_action) },
};

/* MPLS directly after UDP or GRE is their payload. */
static const struct kind tunnel_mpls = {
	HEADER(MPLS, AT_TUNNEL, mpls), false, false, FLOW_TUNNEL_MPLS, fill_tunnel_mpls,
};
/* clang-format on */

static const struct kind *find_kind(uint32_t type, uint32_t last_type)
{
	if (type == IBV_FLOW_SPEC_MPLS &&
	    (last_type == IBV_FLOW_SPEC_UDP || last_type == IBV_FLOW_SPEC_GRE))
		return &tunnel_mpls;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].type == type ||
		    (kinds[i].inner && (kinds[i].type | IBV_FLOW_SPEC_INNER) == type))
			return &kinds[i];
	}
	return NULL;
}

static bool zero(const uint8_t *p, size_t len)
{
	while (len) {
		if (p[--len])
			return false;
	}
	return true;
}

static int read_action(struct reading *r, const struct kind *k, const uint8_t *spec)
{
	struct flow_rule *rule = r->rule;

	switch (k->place) {
	case AT_TAG:
		COPY(rule->tag, spec, struct ibv_flow_spec_action_tag, tag_id);
		rule->tagged = true;
		return rule->tag < TAG_LIMIT ? 0 : refuse(rule, "a tag of more than 24 bits");
	case AT_DROP:
		rule->drop = true;
		return 0;
	case AT_HANDLE:
		COPY(rule->action, spec, struct ibv_flow_spec_action_handle, action);
		return rule->action ? 0 : refuse(rule, "an action handle that is NULL");
	default:
		COPY(rule->counters, spec, struct ibv_flow_spec_counter_action, counters);
		return rule->counters ? 0 : refuse(rule, "counters that are NULL");
	}
}

/* A longer specification of a later library has longer filters, whose new fields must be unused. */
static int read_filter(struct reading *r, const struct kind *k, const uint8_t *spec, uint16_t size,
		       bool inner)
{
	struct flow_rule *rule = r->rule;
	struct flow_layer *val = inner ? &rule->val.inner : &rule->val.outer;
	struct flow_layer *mask = inner ? &rule->mask.inner : &rule->mask.outer;
	const uint8_t *val_at = spec + k->at, *mask_at = val_at + k->filter;
	size_t longer = k->grows ? (size - k->size) / 2 : 0;

	if (longer) {
		mask_at += longer;
		if (!zero(mask_at + k->filter, longer)) {
			rule->refused = "an unknown field";
			return EOPNOTSUPP;
		}
	}
	k->fill(&rule->val, val, val_at);
	k->fill(&rule->mask, mask, mask_at);
	val->headers |= k->header;
	mask->headers |= k->header;
	return 0;
}

/*
 * The size leads to the next specification. As in rdma-core it must be right only where it is the
 * length of the filters, too.
 */
static bool size_ok(const struct kind *k, uint16_t size)
{
	if (size > FLOW_SPEC_MAX)
		return false;
	return !k->grows || (size >= k->size && (size - k->size) % 2 == 0);
}

static int read_spec(struct reading *r)
{
	uint32_t type;
	uint16_t size;
	const struct kind *k;
	const uint8_t *spec = r->at;
	bool inner;
	int place;

	COPY(type, spec, struct ibv_flow_spec_eth, type);
	COPY(size, spec, struct ibv_flow_spec_eth, size);
	k = find_kind(type, r->last_type);
	if (!k)
		return refuse(r->rule, "an unknown type of specification");
	if (!size_ok(k, size))
		return refuse(r->rule, "a specification whose size is not that of its struct");
	inner = type & IBV_FLOW_SPEC_INNER;
	place = k->place + (inner ? PLACES_OF_LAYER : 0);
	if (r->taken & 1u << place)
		return refuse(r->rule, "two specifications for one place");
	r->taken |= 1u << place;
	r->at += size;
	if (!k->filter)
		return read_action(r, k, spec);
	r->out_of_order |= place < r->last_place;
	r->mpls |= k->type == IBV_FLOW_SPEC_MPLS;
	r->last_type = type;
	r->last_place = place;
	return read_filter(r, k, spec, size, inner);
}

/* A required header implies a protocol number, which must not contradict the program's. */
static bool agrees(uint32_t needed, uint32_t val, uint32_t mask)
{
	return !((needed ^ val) & mask);
}

static bool protocols_agree(const struct flow_layer *val, const struct flow_layer *mask)
{
	static const struct {
		uint32_t header;
		uint8_t proto;
	} carried[] = {
		{ FLOW_TCP, PROTO_TCP }, { FLOW_UDP, PROTO_UDP },   { FLOW_ESP, PROTO_ESP },
		{ FLOW_GRE, PROTO_GRE }, { FLOW_VXLAN, PROTO_UDP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(carried); i++) {
		if (val->headers & carried[i].header &&
		    !agrees(carried[i].proto, val->proto, mask->proto))
			return false;
	}
	return true;
}

static bool ether_types_agree(const struct flow_layer *l, const struct flow_layer *m)
{
	uint16_t val = be16toh(l->ether_type), mask = be16toh(m->ether_type);
	bool mpls = agrees(ETHERTYPE_MPLS, val, mask) || agrees(ETHERTYPE_MPLS_MC, val, mask);

	if (l->headers & FLOW_MPLS)
		return mpls;
	if (l->headers & FLOW_IPV4)
		return mpls || agrees(ETHERTYPE_IPV4, val, mask);
	if (l->headers & FLOW_IPV6)
		return mpls || agrees(ETHERTYPE_IPV6, val, mask);
	return true;
}

static bool tunnels_agree(const struct flow_layer *l, const struct flow_layer *m)
{
	uint16_t val = be16toh(l->dst_port), mask = be16toh(m->dst_port);

	if (l->headers & FLOW_VXLAN)
		return !(l->headers & (FLOW_TCP | FLOW_ESP | FLOW_GRE)) &&
		       agrees(PORT_VXLAN, val, mask);
	if (l->headers & FLOW_TUNNEL_MPLS && l->headers & FLOW_UDP)
		return agrees(PORT_MPLS, val, mask);
	return true;
}

/* The error in a layer, or NULL. */
static const char *check_layer(struct flow_layer *val, struct flow_layer *mask)
{
	if (be32toh(val->flow_label) >= FLOW_LABEL_LIMIT ||
	    be32toh(mask->flow_label) >= FLOW_LABEL_LIMIT)
		return "a flow label of more than 20 bits";
	if (val->ip_flags & mask->ip_flags & ~FLOW_IP_FLAGS)
		return "invalid IP flags";
	if (!protocols_agree(val, mask) || !ether_types_agree(val, mask) ||
	    !tunnels_agree(val, mask))
		return "headers that cannot follow each other";
	if (mask->vlan_tag) {
		val->headers |= FLOW_VLAN;
		mask->headers |= FLOW_VLAN;
	}
	return NULL;
}

/* Leaves the actions that make sense: counts, and a sniffer's tag. */
static void ignore_specs(const struct reading *r)
{
	struct flow_rule *rule = r->rule;
	bool keeps_tag = rule->type == IBV_FLOW_ATTR_SNIFFER;

	rule->ignored = r->last_type || rule->drop || (rule->tagged && !keeps_tag);
	memset(&rule->val, 0, sizeof(rule->val));
	memset(&rule->mask, 0, sizeof(rule->mask));
	rule->drop = false;
	if (!keeps_tag) {
		rule->tagged = false;
		rule->tag = 0;
	}
}

static int check(const struct reading *r)
{
	struct flow_rule *rule = r->rule;
	const char *why;

	if (rule->type != IBV_FLOW_ATTR_NORMAL) {
		ignore_specs(r);
		return 0;
	}
	why = check_layer(&rule->val.outer, &rule->mask.outer);
	if (!why)
		why = check_layer(&rule->val.inner, &rule->mask.inner);
	if (!why && (be32toh(rule->val.vni) >= VNI_LIMIT || be32toh(rule->mask.vni) >= VNI_LIMIT))
		why = "a VNI of more than 24 bits";
	if (!why && r->mpls && r->out_of_order)
		why = "headers around MPLS out of order";
	if (!why && rule->egress && rule->tagged)
		why = "a tag of frames that are sent, which nothing reads";
	return why ? refuse(rule, why) : 0;
}

/* Clears value bits outside the masks, so that equal rules have equal bytes. */
static void settle(struct flow_rule *rule)
{
	uint64_t val[FLOW_KEY_WORDS], mask[FLOW_KEY_WORDS];

	memcpy(val, &rule->val, sizeof(val));
	memcpy(mask, &rule->mask, sizeof(mask));
	for (unsigned int i = 0; i < FLOW_KEY_WORDS; i++) {
		val[i] &= mask[i];
		rule->words |= (uint32_t) !!mask[i] << i;
	}
	memcpy(&rule->val, val, sizeof(val));
}

static int read_attr(struct flow_rule *rule, const struct ibv_flow_attr *a)
{
	if (a->comp_mask)
		return refuse(rule, "comp_mask is not 0");
	if ((uint32_t)a->type > IBV_FLOW_ATTR_SNIFFER)
		return refuse(rule, "an unknown type of rule");
	if (a->flags & ~flags_of[a->type])
		return refuse(rule, "flags not allowed for this type of rule");
	if (a->num_of_specs > FLOW_MAX_SPECS)
		return refuse(rule, "more than ten specifications");
	if (a->port != PORT)
		return refuse(rule, "the port is not 1");
	rule->type = a->type;
	rule->priority = a->priority;
	rule->dont_trap = a->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	rule->egress = a->flags & IBV_FLOW_ATTR_FLAGS_EGRESS;
	return 0;
}

int flow_rule_parse(struct flow_rule *rule, const struct ibv_flow_attr *attr)
{
	struct ibv_flow_attr a = *attr;
	struct reading r = {
		.rule = rule,
		.at = (const uint8_t *)(attr + 1),
		.last_place = -1,
	};
	int err;

	memset(rule, 0, sizeof(*rule));
	err = read_attr(rule, &a);
	for (unsigned int i = 0; !err && i < a.num_of_specs; i++)
		err = read_spec(&r);
	if (!err)
		err = check(&r);
	if (!err)
		settle(rule);
	return err;
}

bool flow_rule_matches(const struct flow_rule *rule, const struct flow_key *key)
{
	const char *k = (const char *)key, *v = (const char *)&rule->val,
		   *m = (const char *)&rule->mask;

	for (uint32_t words = rule->words; words; words &= words - 1) {
		size_t at = (size_t)__builtin_ctz(words) * sizeof(uint64_t);
		uint64_t key_word, val, mask;

		memcpy(&key_word, k + at, sizeof(key_word));
		memcpy(&val, v + at, sizeof(val));
		memcpy(&mask, m + at, sizeof(mask));
		if ((key_word ^ val) & mask)
			return false;
	}
	return true;
}
