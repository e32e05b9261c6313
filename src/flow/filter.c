/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One piece of program per rule; each accepts the frame or continues with the next piece.
 *
 * A load beyond the frame's end would end the program although a later rule may match, so the
 * length is checked before every load.
 */
#include "flow/filter.h"

#include <stdbool.h>
#include <stdint.h>

#include "flow/const.h"
#include "util/be.h"

enum {
	TAKE = 0xffffffff,
	LEAVE = 0,
	MAX_FIXUPS = 256,
};

/* Scratch memory, filled by the program's first instructions. */
enum {
	M_IP,     /* where the header behind Ethernet and VLAN tags begins */
	M_TYPE,   /* EtherType behind the last tag */
	M_TAG,    /* first VLAN tag */
	M_TAGGED, /* 0: none */
	M_PROTO,  /* protocol that IP tells, or one of the next two */
	M_ABOVE,  /* where the transport header begins, 0: not in this frame */
};

/* In M_PROTO. */
enum {
	NO_IP = 0x100,   /* or not whole */
	UNKNOWN = 0x101, /* after extension headers, which are not parsed */
};

struct fixup {
	unsigned int at;
	bool when_true;
};

struct program {
	struct sock_filter *out;
	unsigned int room, len;
	/* jumps to the next rule */
	struct fixup fixups[MAX_FIXUPS];
	unsigned int num_fixups;
	bool too_long; /* give it up and take all */
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (p->len == p->room)
		p->too_long = true;
	else
		p->out[p->len++] = (struct sock_filter){ code, jt, jf, k };
}

static void op(struct program *p, uint16_t code, uint32_t k)
{
	emit(p, code, k, 0, 0);
}

static void fail_here(struct program *p, bool when_true)
{
	if (p->num_fixups == MAX_FIXUPS)
		p->too_long = true;
	else
		p->fixups[p->num_fixups++] = (struct fixup){ p->len - 1, when_true };
}

/* Continues if the comparison of A with k holds, else jumps to the next rule. */
static void need(struct program *p, uint16_t compare, uint32_t k)
{
	emit(p, BPF_JMP | compare, k, 0, 0);
	fail_here(p, false);
}

static void need_not(struct program *p, uint16_t compare, uint32_t k)
{
	emit(p, BPF_JMP | compare, k, 0, 0);
	fail_here(p, true);
}

static void take_if(struct program *p, uint32_t k)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
	op(p, BPF_RET | BPF_K, TAKE);
}

/* The next rule begins here. */
static void next_rule(struct program *p)
{
	for (unsigned int i = 0; i < p->num_fixups && !p->too_long; i++) {
		struct sock_filter *jump = &p->out[p->fixups[i].at];
		unsigned int distance = p->len - p->fixups[i].at - 1;

		if (distance > UINT8_MAX)
			p->too_long = true;
		else if (p->fixups[i].when_true)
			jump->jt = distance;
		else
			jump->jf = distance;
	}
	p->num_fixups = 0;
}

/* Compares a field loaded by `load`; emits nothing if the mask is 0. */
static void field(struct program *p, uint16_t load, uint32_t at, uint32_t val, uint32_t mask,
		  uint32_t all)
{
	if (!mask)
		return;
	op(p, BPF_LD | load, at);
	if (mask != all)
		op(p, BPF_ALU | BPF_AND | BPF_K, mask);
	need(p, BPF_JEQ | BPF_K, val);
}

static void byte(struct program *p, uint16_t mode, uint32_t at, uint32_t val, uint32_t mask)
{
	field(p, BPF_B | mode, at, val, mask, 0xff);
}

static void half(struct program *p, uint16_t mode, uint32_t at, uint32_t val, uint32_t mask)
{
	field(p, BPF_H | mode, at, val, mask, 0xffff);
}

static void word(struct program *p, uint16_t mode, uint32_t at, uint32_t val, uint32_t mask)
{
	field(p, BPF_W | mode, at, val, mask, 0xffffffff);
}

/* Requires at least n bytes from X. */
static void need_bytes(struct program *p, uint32_t n)
{
	op(p, BPF_LD | BPF_W | BPF_LEN, 0);
	need(p, BPF_JGE | BPF_X, 0);
	op(p, BPF_ALU | BPF_SUB | BPF_X, 0);
	need(p, BPF_JGE | BPF_K, n);
}

/* A jump whose targets are the next instruction until land() moves one of them. */
static unsigned int branch(struct program *p, uint32_t k)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 0);
	return p->len - 1;
}

/* Makes the jump at `from` target this instruction if its condition is `so`. Jumps are short. */
static void land(struct program *p, unsigned int from, bool condition)
{
	if (p->too_long)
		return;
	if (condition)
		p->out[from].jt = p->len - from - 1;
	else
		p->out[from].jf = p->len - from - 1;
}

static void ancillary(struct program *p, uint32_t what, uint32_t to)
{
	op(p, BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_AD_OFF + what);
	op(p, BPF_ST, to);
}

static void load(struct program *p, uint32_t from)
{
	op(p, BPF_LD | BPF_MEM, from);
}

static void set(struct program *p, uint32_t to, uint32_t val)
{
	op(p, BPF_LD | BPF_IMM, val);
	op(p, BPF_ST, to);
}

/* A: the EtherType at `at`. Skips a complete tag. */
static void step_over_tag(struct program *p, uint32_t at, bool first)
{
	uint32_t tag = at + 2, behind = tag + VLAN_LEN;
	unsigned int vlan = branch(p, ETHERTYPE_VLAN), svlan = branch(p, ETHERTYPE_SVLAN);
	unsigned int qinq = branch(p, ETHERTYPE_QINQ), whole, untagged;

	land(p, vlan, true);
	land(p, svlan, true);
	op(p, BPF_LD | BPF_W | BPF_LEN, 0);
	emit(p, BPF_JMP | BPF_JGE | BPF_K, behind, 0, 0);
	whole = p->len - 1;
	if (first) { /* unless the kernel removed one before it */
		load(p, M_TAGGED);
		untagged = branch(p, 0);
		op(p, BPF_LD | BPF_H | BPF_ABS, tag);
		op(p, BPF_ST, M_TAG);
		set(p, M_TAGGED, 1);
		land(p, untagged, false);
	}
	op(p, BPF_LD | BPF_H | BPF_ABS, tag + 2);
	op(p, BPF_ST, M_TYPE);
	set(p, M_IP, behind);
	land(p, qinq, false);
	land(p, whole, false);
	load(p, M_TYPE);
}

static void find_ip(struct program *p)
{
	op(p, BPF_LD | BPF_W | BPF_LEN, 0);
	emit(p, BPF_JMP | BPF_JGE | BPF_K, ETH_LEN, 1, 0);
	op(p, BPF_RET | BPF_K, LEAVE);
	ancillary(p, SKF_AD_VLAN_TAG, M_TAG);
	ancillary(p, SKF_AD_VLAN_TAG_PRESENT, M_TAGGED);
	set(p, M_IP, ETH_LEN);
	op(p, BPF_LD | BPF_H | BPF_ABS, 12);
	op(p, BPF_ST, M_TYPE);
	step_over_tag(p, 12, true);
	step_over_tag(p, 12 + VLAN_LEN, false);
	take_if(p, ETHERTYPE_VLAN);
	take_if(p, ETHERTYPE_SVLAN);
	take_if(p, ETHERTYPE_QINQ);
}

static unsigned int jump(struct program *p)
{
	op(p, BPF_JMP | BPF_JA, 0);
	return p->len - 1;
}

static void land_jump(struct program *p, unsigned int from)
{
	if (!p->too_long)
		p->out[from].k = p->len - from - 1;
}

/* Continues if so many bytes follow X, which lies in the frame. */
static unsigned int branch_whole(struct program *p, uint32_t bytes)
{
	op(p, BPF_LD | BPF_W | BPF_LEN, 0);
	op(p, BPF_ALU | BPF_SUB | BPF_X, 0);
	emit(p, BPF_JMP | BPF_JGE | BPF_K, bytes, 0, 0);
	return p->len - 1;
}

/* X: start of the header. Jumps to the end if there is none. */
static void look_at_ipv4(struct program *p)
{
	unsigned int whole = branch_whole(p, IPV4_LEN), first;

	op(p, BPF_LD | BPF_B | BPF_IND, 9);
	op(p, BPF_ST, M_PROTO);
	op(p, BPF_LD | BPF_H | BPF_IND, 6);
	op(p, BPF_ALU | BPF_AND | BPF_K, 0x1fff);
	first = branch(p, 0);
	op(p, BPF_LD | BPF_B | BPF_IND, 0);
	op(p, BPF_ALU | BPF_AND | BPF_K, 0xf);
	op(p, BPF_ALU | BPF_LSH | BPF_K, 2);
	op(p, BPF_ALU | BPF_ADD | BPF_X, 0);
	op(p, BPF_ST, M_ABOVE);
	land(p, whole, false);
	land(p, first, false);
}

static void look_at_ipv6(struct program *p)
{
	unsigned int whole = branch_whole(p, IPV6_LEN), ext[UINT8_MAX], n = 0, known;

	op(p, BPF_LD | BPF_B | BPF_IND, 6);
	op(p, BPF_ST, M_PROTO);
	for (uint32_t proto = 0; proto <= UINT8_MAX; proto++) {
		if (is_extension(proto))
			ext[n++] = branch(p, proto);
	}
	op(p, BPF_MISC | BPF_TXA, 0);
	op(p, BPF_ALU | BPF_ADD | BPF_K, IPV6_LEN);
	op(p, BPF_ST, M_ABOVE);
	known = jump(p);
	while (n)
		land(p, ext[--n], true);
	set(p, M_PROTO, UNKNOWN);
	land_jump(p, known);
	land(p, whole, false);
}

static void find_transport(struct program *p)
{
	unsigned int v4, v6, done;

	set(p, M_PROTO, NO_IP);
	set(p, M_ABOVE, 0);
	op(p, BPF_LDX | BPF_MEM, M_IP);
	load(p, M_TYPE);
	v4 = branch(p, ETHERTYPE_IPV4);
	look_at_ipv4(p);
	done = jump(p);
	land(p, v4, false);
	v6 = branch(p, ETHERTYPE_IPV6);
	look_at_ipv6(p);
	land(p, v6, false);
	land_jump(p, done);
}

/* Old kernels lose this bit of tags that they remove. */
#define TAG_CFI 0x1000u

static void ethernet(struct program *p, const struct flow_layer *val, const struct flow_layer *mask)
{
	uint16_t tag_mask = be16toh(mask->vlan_tag) & ~TAG_CFI,
		 type_mask = be16toh(mask->ether_type);

	word(p, BPF_ABS, 0, get_be32(val->dst_mac), get_be32(mask->dst_mac));
	half(p, BPF_ABS, 4, get_be16(val->dst_mac + 4), get_be16(mask->dst_mac + 4));
	word(p, BPF_ABS, 6, get_be32(val->src_mac), get_be32(mask->src_mac));
	half(p, BPF_ABS, 10, get_be16(val->src_mac + 4), get_be16(mask->src_mac + 4));
	if (val->headers & FLOW_VLAN) {
		load(p, M_TAGGED);
		need_not(p, BPF_JEQ | BPF_K, 0);
		field(p, BPF_MEM, M_TAG, be16toh(val->vlan_tag) & tag_mask, tag_mask, UINT32_MAX);
	}
	field(p, BPF_MEM, M_TYPE, be16toh(val->ether_type), type_mask, UINT32_MAX);
}

/* The transport protocol that a rule requires. */
static uint8_t protocol_of(uint32_t headers)
{
	if (headers & FLOW_TCP)
		return PROTO_TCP;
	if (headers & FLOW_ESP)
		return PROTO_ESP;
	if (headers & FLOW_GRE)
		return PROTO_GRE;
	return headers & (FLOW_UDP | FLOW_VXLAN) ? PROTO_UDP : 0;
}

/* Its protocol is the rule's. */
static void transport(struct program *p, const struct flow_rule *rule)
{
	const struct flow_layer *val = &rule->val.outer, *mask = &rule->mask.outer;
	uint32_t headers = val->headers;

	load(p, M_ABOVE);
	need_not(p, BPF_JEQ | BPF_K, 0);
	op(p, BPF_LDX | BPF_MEM, M_ABOVE);
	if (headers & (FLOW_TCP | FLOW_UDP)) {
		need_bytes(p, UDP_LEN);
		half(p, BPF_IND, 0, be16toh(val->src_port), be16toh(mask->src_port));
		half(p, BPF_IND, 2, be16toh(val->dst_port), be16toh(mask->dst_port));
	}
	if (headers & FLOW_ESP) {
		need_bytes(p, ESP_LEN);
		word(p, BPF_IND, 0, be32toh(val->spi), be32toh(mask->spi));
		word(p, BPF_IND, 4, be32toh(val->esp_seq), be32toh(mask->esp_seq));
	}
	if (headers & FLOW_GRE) {
		need_bytes(p, GRE_LEN);
		half(p, BPF_IND, 0, be16toh(rule->val.gre_flags), be16toh(rule->mask.gre_flags));
		half(p, BPF_IND, 2, be16toh(rule->val.gre_protocol),
		     be16toh(rule->mask.gre_protocol));
	}
	if (headers & FLOW_VXLAN) {
		need_bytes(p, UDP_LEN + VXLAN_LEN);
		half(p, BPF_IND, 2, PORT_VXLAN, 0xffff);
		word(p, BPF_IND, UDP_LEN + 4, be32toh(rule->val.vni) << 8,
		     be32toh(rule->mask.vni) << 8);
	} else if (headers & FLOW_TUNNEL_MPLS && headers & FLOW_UDP) {
		half(p, BPF_IND, 2, PORT_MPLS, 0xffff);
	}
}

/* A flag of the rule is a bit counted from the left. */
static uint8_t flag_bits(uint8_t flags)
{
	return (flags & 1 ? 0x80 : 0) | (flags & FLOW_IP_DF ? 0x40 : 0) |
	       (flags & FLOW_IP_MF ? 0x20 : 0);
}

/* X: start of the header, which is complete. */
static void ipv4(struct program *p, const struct flow_layer *val, const struct flow_layer *mask)
{
	byte(p, BPF_IND, 1, val->tos, mask->tos);
	byte(p, BPF_IND, 6, flag_bits(val->ip_flags), flag_bits(mask->ip_flags));
	byte(p, BPF_IND, 8, val->ttl, mask->ttl);
	word(p, BPF_IND, 12, get_be32(val->src_ip), get_be32(mask->src_ip));
	word(p, BPF_IND, 16, get_be32(val->dst_ip), get_be32(mask->dst_ip));
}

static void ipv6(struct program *p, const struct flow_layer *val, const struct flow_layer *mask)
{
	half(p, BPF_IND, 0, (uint32_t)val->tos << 4, (uint32_t)mask->tos << 4);
	word(p, BPF_IND, 0, be32toh(val->flow_label), be32toh(mask->flow_label));
	byte(p, BPF_IND, 7, val->ttl, mask->ttl);
	for (unsigned int i = 0; i < 16; i += 4)
		word(p, BPF_IND, 8 + i, get_be32(val->src_ip + i), get_be32(mask->src_ip + i));
	for (unsigned int i = 0; i < 16; i += 4)
		word(p, BPF_IND, 24 + i, get_be32(val->dst_ip + i), get_be32(mask->dst_ip + i));
}

static bool above_ethernet(const struct flow_rule *rule)
{
	return rule->val.outer.headers & ~(uint32_t)(FLOW_ETH | FLOW_VLAN) ||
	       rule->val.inner.headers;
}

/* Does not parse beyond labels. Leaves the EtherType in A. */
static void take_labelled(struct program *p)
{
	load(p, M_TYPE);
	take_if(p, ETHERTYPE_MPLS);
	take_if(p, ETHERTYPE_MPLS_MC);
}

/* A: the EtherType. */
static void network(struct program *p, const struct flow_layer *val, const struct flow_layer *mask)
{
	bool v4 = val->headers & FLOW_IPV4, v6 = val->headers & FLOW_IPV6;

	if (v4 || v6)
		need(p, BPF_JEQ | BPF_K, v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
	load(p, M_PROTO);
	need_not(p, BPF_JEQ | BPF_K, NO_IP);
	op(p, BPF_LDX | BPF_MEM, M_IP);
	if (v4)
		ipv4(p, val, mask);
	if (v6)
		ipv6(p, val, mask);
}

static void protocol(struct program *p, const struct flow_rule *rule)
{
	const struct flow_layer *val = &rule->val.outer, *mask = &rule->mask.outer;
	uint8_t proto = protocol_of(val->headers);

	if (!proto && !mask->proto)
		return;
	load(p, M_PROTO);
	if (!(val->headers & FLOW_IPV4))
		take_if(p, UNKNOWN);
	if (proto)
		need(p, BPF_JEQ | BPF_K, proto);
	else
		field(p, BPF_MEM, M_PROTO, val->proto, mask->proto, UINT32_MAX);
	if (proto)
		transport(p, rule);
}

static void add_rule(struct program *p, const struct flow_rule *rule)
{
	const struct flow_layer *val = &rule->val.outer, *mask = &rule->mask.outer;
	bool above = above_ethernet(rule), labels = val->headers & FLOW_MPLS;

	ethernet(p, val, mask);
	if (above)
		take_labelled(p);
	if (above && !labels) {
		network(p, val, mask);
		protocol(p, rule);
	}
	if (!labels)
		op(p, BPF_RET | BPF_K, TAKE);
	next_rule(p);
}

static void add_multicast(struct program *p)
{
	op(p, BPF_LD | BPF_B | BPF_ABS, 0);
	op(p, BPF_ALU | BPF_AND | BPF_K, 1);
	take_if(p, 1);
}

/* Frames that it drops are not reported. */
static bool silent(const struct flow_rule *rule)
{
	return rule->drop && !rule->counters;
}

static bool takes_all(const struct flow_rule *rule)
{
	if (rule->type == IBV_FLOW_ATTR_NORMAL)
		return !rule->words && !silent(rule);
	return rule->type != IBV_FLOW_ATTR_MC_DEFAULT;
}

static bool any_takes_all(const struct list *head)
{
	const struct list *at;

	list_for_each (at, head) {
		if (takes_all(list_entry(at, struct flow_rule, node)))
			return true;
	}
	return false;
}

unsigned int flow_filter(const struct flow_table *t, struct sock_filter *out, unsigned int room)
{
	struct program p = { .out = out, .room = room };
	const struct list *at;

	p.too_long = !list_empty(&t->sniffers) || any_takes_all(&t->defaults) ||
		     any_takes_all(&t->normal);
	if (!p.too_long && !(list_empty(&t->normal) && list_empty(&t->defaults)))
		find_ip(&p);
	if (!p.too_long && !list_empty(&t->normal))
		find_transport(&p);
	if (!p.too_long && !list_empty(&t->defaults))
		add_multicast(&p);
	list_for_each (at, &t->normal) {
		const struct flow_rule *rule = list_entry(at, struct flow_rule, node);

		if (p.too_long)
			break;
		if (!silent(rule) && !(rule->twin && !rule->drop))
			add_rule(&p, rule);
	}
	op(&p, BPF_RET | BPF_K, LEAVE);
	if (!p.too_long)
		return p.len;
	out[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, TAKE);
	return 1;
}
