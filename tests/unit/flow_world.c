/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/flow_world.h"

#include "flow/const.h"
#include "unit/random.h"
#include "util/compiler.h"

/* A few values only, so that frames and rules match often. */
static const uint8_t macs[][7] = { "\x02\0\0\0\0\1", "\x02\0\0\0\0\2", "\x01\0\x5e\0\0\1",
				   "\xff\xff\xff\xff\xff\xff" };
static const uint32_t ip4s[] = { 0x0a000001, 0x0a000002, 0xe0000001, 0x7f000001 };
static const uint8_t ip6_tails[] = { 1, 2, 0xff };
static const uint16_t port_numbers[] = { 53, 4791, 80, 1000 };
static const uint16_t tags[] = { 0x0005, 0x2005, 0x3005, 0x0006, 0x0000 };
static const uint8_t tos_values[] = { 0, 4, 0xb8 };
static const uint32_t numbers[] = { 0, 5, 0xfffff, 0x12345 };

#define PICK(set) (set)[random_below(ARRAY_SIZE(set))]

void world_start(uint64_t seed)
{
	random_state = seed;
}

static bool chance(unsigned int percent)
{
	return random_below(100) < percent;
}

static void random_ip6(uint8_t ip[16])
{
	memset(ip, 0, 16);
	ip[0] = 0xfd;
	ip[15] = PICK(ip6_tails);
}

/* ---- frames ---- */

static void build_ethernet(struct world_frame *w, struct world_layer *l, uint16_t type)
{
	static const uint16_t tpids[] = { ETHERTYPE_VLAN, ETHERTYPE_VLAN, ETHERTYPE_SVLAN,
					  ETHERTYPE_QINQ };

	memcpy(l->dst_mac, PICK(macs), 6);
	memcpy(l->src_mac, PICK(macs), 6);
	while (l->tags < 4 && chance(25)) {
		l->type[l->tags] = PICK(tpids);
		l->tag[l->tags++] = PICK(tags);
	}
	l->type[l->tags] = type;
	frame_eth(&w->f, (char *)l->dst_mac, (char *)l->src_mac, l->type[0]);
	l->eth_end = w->f.len;
	for (unsigned int i = 0; i < l->tags; i++) {
		frame_vlan(&w->f, l->tag[i], l->type[i + 1]);
		l->tag_end[i] = w->f.len;
	}
}

static uint32_t build_labels(struct world_frame *w, size_t *end)
{
	uint32_t first = 0;
	unsigned int n = 1 + random_below(3);

	for (unsigned int i = 0; i < n; i++) {
		uint32_t entry = PICK(numbers) << 12 | (uint32_t)random_below(2) << 9 |
				 (i == n - 1) << 8 | 64;

		if (!i)
			first = entry;
		put_be32(frame_room(&w->f, 4), entry);
	}
	*end = w->f.len;
	return first;
}

static void build_transport(struct world_frame *w, struct world_layer *l)
{
	uint8_t *p;

	switch (l->proto) {
	case PROTO_UDP:
		frame_udp(&w->f, l->src_port, l->dst_port, 0);
		break;
	case PROTO_TCP:
		frame_tcp(&w->f, l->src_port, l->dst_port);
		break;
	case PROTO_ESP:
		p = frame_room(&w->f, ESP_LEN);
		l->spi = PICK(numbers);
		l->seq = PICK(numbers);
		put_be32(put_be32(p, l->spi), l->seq);
		break;
	default:
		return;
	}
	l->transport_end = w->f.len;
}

static uint8_t build_ext(struct world_frame *w, struct world_layer *l, bool fragment, bool later)
{
	static const uint8_t types[] = { PROTO_HOP_BY_HOP, PROTO_ROUTING, PROTO_DEST_OPTIONS,
					 PROTO_AH };
	uint8_t type = fragment ? PROTO_FRAGMENT : PICK(types), words = random_below(2), *p;

	p = frame_room(&w->f, fragment           ? 8
			      : type == PROTO_AH ? (words + 2) * 4 + 4
						 : (words + 1) * 8);
	if (type == PROTO_AH)
		p[1] = words + 1;
	else if (!fragment)
		p[1] = words;
	else
		put_be16(p + 2, later ? 0x0100 : 1);
	l->ext[l->exts] = type;
	l->ext_end[l->exts++] = w->f.len;
	return type;
}

static void build_network(struct world_frame *w, struct world_layer *l, bool tunnel)
{
	bool later = !tunnel && chance(10);
	size_t begin = w->f.len, options = chance(20) ? random_below(11) : 0;
	uint8_t *p, *next;
	unsigned int exts = chance(25) ? 1 + random_below(2) : 0;

	l->tos = PICK(tos_values);
	l->ttl = chance(50) ? 64 : 1;
	l->src_port = PICK(port_numbers);
	if (!tunnel) {
		static const uint8_t protos[] = {
			PROTO_TCP, PROTO_UDP, PROTO_UDP, PROTO_ESP, 1, 59
		};

		l->proto = PICK(protos);
		l->dst_port = PICK(port_numbers);
	}
	if (l->ip == 4) {
		uint32_t src = PICK(ip4s), dst = PICK(ip4s);

		p = frame_ipv4(&w->f, src, dst, l->proto, options, 0);
		l->ip_end = w->f.len;
		put_be32(l->src_ip, src);
		put_be32(l->dst_ip, dst);
		l->ip_flags = random_below(8);
		p[1] = l->tos;
		p[8] = l->ttl;
		put_be16(p + 6, (l->ip_flags & 1 ? 0x8000 : 0) | (l->ip_flags & 2 ? 0x4000 : 0) |
					(l->ip_flags & 4 ? 0x2000 : 0) | (later ? 77 : 0));
	} else {
		random_ip6(l->src_ip);
		random_ip6(l->dst_ip);
		l->flow_label = PICK(numbers);
		p = frame_ipv6(&w->f, l->src_ip, l->dst_ip, l->proto, 0);
		l->ip_end = w->f.len;
		p[7] = l->ttl;
		put_be32(p, 0x60000000 | (uint32_t)l->tos << 20 | l->flow_label);
		next = p + 6;
		for (unsigned int i = 0; i < exts; i++) {
			*next = build_ext(w, l, false, false);
			next = w->f.data + (i ? l->ext_end[i - 1] : l->ip_end);
		}
		if (later) {
			*next = build_ext(w, l, true, true);
			next = w->f.data + (exts ? l->ext_end[exts - 1] : l->ip_end);
		}
		*next = l->proto;
	}
	if (later)
		frame_room(&w->f, 24);
	else
		build_transport(w, l);
	/* Lengths include everything after the headers; the caller fills in those of the tunnel. */
	if (l->ip == 4)
		put_be16(w->f.data + begin + 2, tunnel ? 0 : w->f.len - begin);
	else
		put_be16(w->f.data + begin + 4, tunnel ? 0 : w->f.len - begin - IPV6_LEN);
}

static uint16_t ip_type(const struct world_layer *l)
{
	return l->ip == 4 ? ETHERTYPE_IPV4 : l->ip == 6 ? ETHERTYPE_IPV6 : 0x88b5;
}

/* Labels or none, IP or something else. */
static void build_layer(struct world_frame *w, struct world_layer *l, bool tunnel)
{
	bool labels = chance(10);

	build_ethernet(w, l,
		       labels ? (chance(80) ? ETHERTYPE_MPLS : ETHERTYPE_MPLS_MC) : ip_type(l));
	if (labels)
		l->mpls = build_labels(w, &l->mpls_end);
	if (l->ip)
		build_network(w, l, tunnel);
	else
		frame_room(&w->f, 40);
}

static void choose_ip(struct world_layer *l, unsigned int other)
{
	l->ip = chance(other) ? 0 : chance(50) ? 4 : 6;
}

static void build_gre(struct world_frame *w, bool labels, bool ethernet)
{
	uint8_t *p;

	w->gre_flags = random_below(8) << 13 & 0xa000;
	w->gre_flags |= random_below(2) << 12;
	w->gre_protocol = labels ? ETHERTYPE_MPLS : ethernet ? ETHERTYPE_TEB : ip_type(&w->inner);
	p = frame_room(&w->f, GRE_LEN);
	put_be16(put_be16(p, w->gre_flags), w->gre_protocol);
	if (w->gre_flags & 0x8000)
		frame_room(&w->f, 4);
	if (w->gre_flags & 0x2000) {
		w->gre_key = PICK(numbers);
		put_be32(frame_room(&w->f, 4), w->gre_key);
	}
	if (w->gre_flags & 0x1000)
		frame_room(&w->f, 4);
	w->gre_end = w->f.len;
}

static void build_tunnel(struct world_frame *w)
{
	unsigned int kind = random_below(5); /* VXLAN, MPLS in UDP, GRE with labels, Ethernet, IP */

	choose_ip(&w->outer, 0);
	choose_ip(&w->inner, kind == 0 || kind == 3 ? 20 : 0);
	w->outer.proto = kind < 2 ? PROTO_UDP : PROTO_GRE;
	w->outer.dst_port = kind == 0 ? PORT_VXLAN : PORT_MPLS;
	build_layer(w, &w->outer, true);
	if (kind == 0) {
		uint8_t *p = frame_room(&w->f, VXLAN_LEN);

		w->vni = PICK(numbers);
		p[0] = 8;
		put_be24(p + 4, w->vni);
		w->vxlan_end = w->f.len;
	} else if (kind >= 2) {
		build_gre(w, kind == 2, kind == 3);
	}
	if (kind == 1 || kind == 2)
		w->tunnel_mpls = build_labels(w, &w->tunnel_mpls_end);
	if (kind == 0 || kind == 3)
		build_layer(w, &w->inner, false);
	else
		build_network(w, &w->inner, false);
}

void world_frame(struct world_frame *w)
{
	memset(w, 0, sizeof(*w));
	if (chance(40)) {
		build_tunnel(w);
	} else {
		choose_ip(&w->outer, 15);
		build_layer(w, &w->outer, false);
	}
	w->len = w->f.len;
	if (chance(20))
		w->len = random_below(w->f.len + 1);
}

/* ---- rules ---- */

static void random_mask(void *mask, size_t len)
{
	if (chance(55))
		memset(mask, 0, len);
	else if (chance(75))
		memset(mask, 0xff, len);
	else
		random_bytes(mask, len);
}

/* A field and its mask; the value is mostly the frame's. */
static void some_field(void *val, void *mask, const void *like, size_t len)
{
	memcpy(val, like, len);
	if (chance(7))
		random_bytes(val, len);
	random_mask(mask, len);
}

static void some16(uint16_t *val, uint16_t *mask, uint16_t like)
{
	like = htobe16(like);
	some_field(val, mask, &like, 2);
}

static void some32(uint32_t *val, uint32_t *mask, uint32_t like, uint32_t limit)
{
	like = htobe32(like);
	some_field(val, mask, &like, 4);
	*val &= htobe32(limit);
	*mask &= htobe32(limit);
}

static uint32_t first_address(const uint8_t ip[16])
{
	return get_be32(ip);
}

static void add_ip(struct spec_list *r, const struct world_layer *l, uint32_t inner)
{
	int ip = chance(90) && l->ip ? l->ip : chance(50) ? 4 : 6;

	if (ip == 6) {
		struct ibv_flow_spec_ipv6 s = { .type = IBV_FLOW_SPEC_IPV6 | inner,
						.size = sizeof(s) };

		some_field(s.val.src_ip, s.mask.src_ip, l->src_ip, 16);
		some_field(s.val.dst_ip, s.mask.dst_ip, l->dst_ip, 16);
		some32(&s.val.flow_label, &s.mask.flow_label, l->flow_label, 0xfffff);
		some_field(&s.val.next_hdr, &s.mask.next_hdr, &l->proto, 1);
		some_field(&s.val.traffic_class, &s.mask.traffic_class, &l->tos, 1);
		some_field(&s.val.hop_limit, &s.mask.hop_limit, &l->ttl, 1);
		rule_add(r, &s, sizeof(s));
	} else if (chance(60)) {
		struct ibv_flow_spec_ipv4_ext s = { .type = IBV_FLOW_SPEC_IPV4_EXT | inner,
						    .size = sizeof(s) };

		some32(&s.val.src_ip, &s.mask.src_ip, first_address(l->src_ip), UINT32_MAX);
		some32(&s.val.dst_ip, &s.mask.dst_ip, first_address(l->dst_ip), UINT32_MAX);
		some_field(&s.val.proto, &s.mask.proto, &l->proto, 1);
		some_field(&s.val.tos, &s.mask.tos, &l->tos, 1);
		some_field(&s.val.ttl, &s.mask.ttl, &l->ttl, 1);
		some_field(&s.val.flags, &s.mask.flags, &l->ip_flags, 1);
		s.val.flags &= 7;
		rule_add(r, &s, sizeof(s));
	} else {
		struct ibv_flow_spec_ipv4 s = { .type = IBV_FLOW_SPEC_IPV4 | inner,
						.size = sizeof(s) };

		some32(&s.val.src_ip, &s.mask.src_ip, first_address(l->src_ip), UINT32_MAX);
		some32(&s.val.dst_ip, &s.mask.dst_ip, first_address(l->dst_ip), UINT32_MAX);
		rule_add(r, &s, sizeof(s));
	}
}

static void add_transport(struct spec_list *r, const struct world_frame *w,
			  const struct world_layer *l, uint32_t inner)
{
	static const uint8_t protos[] = { PROTO_TCP, PROTO_UDP, PROTO_ESP, PROTO_GRE };
	uint8_t proto = chance(85) ? l->proto : PICK(protos);

	if (proto == PROTO_ESP) {
		struct ibv_flow_spec_esp s = { .type = IBV_FLOW_SPEC_ESP | inner,
					       .size = sizeof(s) };

		some32(&s.val.spi, &s.mask.spi, l->spi, UINT32_MAX);
		some32(&s.val.seq, &s.mask.seq, l->seq, UINT32_MAX);
		rule_add(r, &s, sizeof(s));
	} else if (proto == PROTO_GRE && !inner) {
		struct ibv_flow_spec_gre s = { .type = IBV_FLOW_SPEC_GRE, .size = sizeof(s) };

		some16(&s.val.c_ks_res0_ver, &s.mask.c_ks_res0_ver, w->gre_flags);
		some16(&s.val.protocol, &s.mask.protocol, w->gre_protocol);
		some32(&s.val.key, &s.mask.key, w->gre_key, UINT32_MAX);
		rule_add(r, &s, sizeof(s));
	} else if (proto == PROTO_TCP || proto == PROTO_UDP) {
		uint32_t type = proto == PROTO_TCP ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP;
		struct ibv_flow_spec_tcp_udp s = { .type = type | inner, .size = sizeof(s) };

		some16(&s.val.src_port, &s.mask.src_port, l->src_port);
		some16(&s.val.dst_port, &s.mask.dst_port, l->dst_port);
		rule_add(r, &s, sizeof(s));
	}
}

static void add_mpls(struct spec_list *r, uint32_t like, uint32_t inner)
{
	struct ibv_flow_spec_mpls s = { .type = IBV_FLOW_SPEC_MPLS | inner, .size = sizeof(s) };

	some32(&s.val.label, &s.mask.label, like, UINT32_MAX);
	rule_add(r, &s, sizeof(s));
}

static void add_layer(struct spec_list *r, const struct world_frame *w, const struct world_layer *l,
		      uint32_t inner)
{
	if (chance(50)) {
		struct ibv_flow_spec_eth s = { .type = IBV_FLOW_SPEC_ETH | inner,
					       .size = sizeof(s) };

		some_field(s.val.dst_mac, s.mask.dst_mac, l->dst_mac, 6);
		some_field(s.val.src_mac, s.mask.src_mac, l->src_mac, 6);
		some16(&s.val.ether_type, &s.mask.ether_type, l->type[l->tags]);
		some16(&s.val.vlan_tag, &s.mask.vlan_tag, l->tag[0]);
		rule_add(r, &s, sizeof(s));
	}
	if (chance(l->mpls_end ? 40 : 3))
		add_mpls(r, l->mpls, inner);
	if (chance(50))
		add_ip(r, l, inner);
	if (chance(50))
		add_transport(r, w, l, inner);
}

void world_rule(struct spec_list *r, const struct world_frame *like)
{
	rule_begin(r, IBV_FLOW_ATTR_NORMAL);
	add_layer(r, like, &like->outer, 0);
	if (chance(like->vxlan_end ? 50 : 3)) {
		struct ibv_flow_spec_tunnel s = { .type = IBV_FLOW_SPEC_VXLAN_TUNNEL,
						  .size = sizeof(s) };

		some32(&s.val.tunnel_id, &s.mask.tunnel_id, like->vni, 0xffffff);
		rule_add(r, &s, sizeof(s));
	} else if (chance(like->tunnel_mpls_end ? 40 : 3)) {
		add_mpls(r, like->tunnel_mpls, 0);
	}
	if (chance(like->inner.ip ? 50 : 3))
		add_layer(r, like, &like->inner, IBV_FLOW_SPEC_INNER);
}

/* ---- the oracle ---- */

static bool there(const struct world_frame *w, size_t end)
{
	return end && end <= w->len;
}

static bool bytes_match(const void *field, const void *val, const void *mask, size_t len)
{
	const uint8_t *f = field, *v = val, *m = mask;

	for (size_t i = 0; i < len; i++) {
		if ((f[i] & m[i]) != (v[i] & m[i]))
			return false;
	}
	return true;
}

static bool match16(uint16_t field, uint16_t val, uint16_t mask)
{
	return (field & be16toh(mask)) == (be16toh(val) & be16toh(mask));
}

static bool match32(uint32_t field, uint32_t val, uint32_t mask)
{
	return (field & be32toh(mask)) == (be32toh(val) & be32toh(mask));
}

static bool eth_matches(const struct world_frame *w, const struct world_layer *l,
			const struct ibv_flow_spec_eth *s)
{
	unsigned int whole = 0;

	if (!there(w, l->eth_end))
		return false;
	while (whole < l->tags && there(w, l->tag_end[whole]))
		whole++;
	if (s->mask.vlan_tag && (!whole || !match16(l->tag[0], s->val.vlan_tag, s->mask.vlan_tag)))
		return false;
	return bytes_match(l->dst_mac, s->val.dst_mac, s->mask.dst_mac, 6) &&
	       bytes_match(l->src_mac, s->val.src_mac, s->mask.src_mac, 6) &&
	       match16(l->type[whole], s->val.ether_type, s->mask.ether_type);
}

static uint8_t visible_proto(const struct world_frame *w, const struct world_layer *l)
{
	for (unsigned int i = 0; i < l->exts; i++) {
		if (!there(w, l->ext_end[i]))
			return l->ext[i];
	}
	return l->proto;
}

static bool ip4_matches(const struct world_frame *w, const struct world_layer *l, uint32_t src,
			uint32_t src_mask, uint32_t dst, uint32_t dst_mask)
{
	return l->ip == 4 && there(w, l->ip_end) && match32(get_be32(l->src_ip), src, src_mask) &&
	       match32(get_be32(l->dst_ip), dst, dst_mask);
}

static bool ip6_matches(const struct world_frame *w, const struct world_layer *l,
			const struct ibv_flow_spec_ipv6 *s)
{
	uint8_t proto = visible_proto(w, l);

	return l->ip == 6 && there(w, l->ip_end) &&
	       bytes_match(l->src_ip, s->val.src_ip, s->mask.src_ip, 16) &&
	       bytes_match(l->dst_ip, s->val.dst_ip, s->mask.dst_ip, 16) &&
	       match32(l->flow_label, s->val.flow_label, s->mask.flow_label) &&
	       bytes_match(&proto, &s->val.next_hdr, &s->mask.next_hdr, 1) &&
	       bytes_match(&l->tos, &s->val.traffic_class, &s->mask.traffic_class, 1) &&
	       bytes_match(&l->ttl, &s->val.hop_limit, &s->mask.hop_limit, 1);
}

static bool ext_matches(const struct world_layer *l, const struct ibv_flow_spec_ipv4_ext *s)
{
	return bytes_match(&l->proto, &s->val.proto, &s->mask.proto, 1) &&
	       bytes_match(&l->tos, &s->val.tos, &s->mask.tos, 1) &&
	       bytes_match(&l->ttl, &s->val.ttl, &s->mask.ttl, 1) &&
	       bytes_match(&l->ip_flags, &s->val.flags, &s->mask.flags, 1);
}

static bool carries(const struct world_frame *w, const struct world_layer *l, uint8_t proto)
{
	return l->ip && l->proto == proto && there(w, l->transport_end);
}

static bool spec_matches(const struct world_frame *w, const struct ibv_flow_spec *s, uint32_t last)
{
	const struct world_layer *l = s->hdr.type & IBV_FLOW_SPEC_INNER ? &w->inner : &w->outer;

	switch ((uint32_t)s->hdr.type & ~(uint32_t)IBV_FLOW_SPEC_INNER) {
	case IBV_FLOW_SPEC_ETH:
		return eth_matches(w, l, &s->eth);
	case IBV_FLOW_SPEC_IPV4:
		return ip4_matches(w, l, s->ipv4.val.src_ip, s->ipv4.mask.src_ip,
				   s->ipv4.val.dst_ip, s->ipv4.mask.dst_ip);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return ip4_matches(w, l, s->ipv4_ext.val.src_ip, s->ipv4_ext.mask.src_ip,
				   s->ipv4_ext.val.dst_ip, s->ipv4_ext.mask.dst_ip) &&
		       ext_matches(l, &s->ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return ip6_matches(w, l, &s->ipv6);
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return carries(w, l, (s->hdr.type & 1) ? PROTO_UDP : PROTO_TCP) &&
		       match16(l->src_port, s->tcp_udp.val.src_port, s->tcp_udp.mask.src_port) &&
		       match16(l->dst_port, s->tcp_udp.val.dst_port, s->tcp_udp.mask.dst_port);
	case IBV_FLOW_SPEC_ESP:
		return carries(w, l, PROTO_ESP) &&
		       match32(l->spi, s->esp.val.spi, s->esp.mask.spi) &&
		       match32(l->seq, s->esp.val.seq, s->esp.mask.seq);
	case IBV_FLOW_SPEC_GRE:
		return there(w, w->gre_end) &&
		       match16(w->gre_flags, s->gre.val.c_ks_res0_ver, s->gre.mask.c_ks_res0_ver) &&
		       match16(w->gre_protocol, s->gre.val.protocol, s->gre.mask.protocol) &&
		       match32(w->gre_key, s->gre.val.key, s->gre.mask.key);
	case IBV_FLOW_SPEC_VXLAN_TUNNEL:
		return there(w, w->vxlan_end) &&
		       match32(w->vni, s->tunnel.val.tunnel_id, s->tunnel.mask.tunnel_id);
	default: /* MPLS */
		if (l == &w->outer && (last == IBV_FLOW_SPEC_UDP || last == IBV_FLOW_SPEC_GRE))
			return there(w, w->tunnel_mpls_end) &&
			       match32(w->tunnel_mpls, s->mpls.val.label, s->mpls.mask.label);
		return there(w, l->mpls_end) &&
		       match32(l->mpls, s->mpls.val.label, s->mpls.mask.label);
	}
}

bool world_matches(const struct spec_list *r, const struct world_frame *w)
{
	const uint8_t *at = (const uint8_t *)(&r->attr + 1);
	uint32_t last = 0;

	for (unsigned int i = 0; i < r->attr.num_of_specs; i++) {
		struct ibv_flow_spec s;
		uint16_t size = 0;

		memcpy(&size, at + 4, 2);
		memset(&s, 0, sizeof(s));
		memcpy(&s, at, size);
		if (s.hdr.type < IBV_FLOW_SPEC_ACTION_TAG && !spec_matches(w, &s, last))
			return false;
		if (s.hdr.type < IBV_FLOW_SPEC_ACTION_TAG)
			last = s.hdr.type;
		at += size;
	}
	return true;
}
