/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses a frame from its first byte. Every step reads a cursor that never leaves the frame,
 * consumes its header if the header is complete, and returns the type of the next.
 */
#include "flow/dissect.h"

#include <stdbool.h>
#include <string.h>

#include "flow/const.h"
#include "util/be.h"

_Static_assert(sizeof(struct flow_layer) == 80, "no padding between members");
_Static_assert(sizeof(struct flow_key) == 176, "no padding between members");

enum {
	IPV4_MORE = 0x2000,
	IPV4_DONT = 0x4000,
	IPV4_OFFSET = 0x1fff,
	IPV6_OFFSET = 0xfff8,
	MPLS_BOTTOM = 0x100,
	VXLAN_VNI_VALID = 0x08,
	GRE_CHECKSUM = 0x8000,
	GRE_ROUTING = 0x4000,
	GRE_KEY = 0x2000,
	GRE_SEQUENCE = 0x1000,
	GRE_VERSION = 0x0007,
};

/* The rest of the frame. */
struct rest {
	const uint8_t *p;
	size_t len;
};

static bool take(struct rest *r, size_t len)
{
	if (r->len < len)
		return false;
	r->p += len;
	r->len -= len;
	return true;
}

static uint16_t raw16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t raw32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/*
 * Skips a label stack; *first is its first entry. Returns false if the bottom is not in the frame.
 */
static bool mpls(struct rest *r, uint32_t *first)
{
	const uint8_t *p = r->p;

	do {
		if (!take(r, MPLS_LEN))
			return false;
	} while (!(get_be32(r->p - MPLS_LEN) & MPLS_BOTTOM));
	*first = raw32(p);
	return true;
}

/*
 * No field names the protocol after a label stack, but the first four bits of IP are its version.
 */
static uint16_t ip_by_version(const struct rest *r)
{
	switch (r->len ? r->p[0] >> 4 : 0) {
	case 4:
		return ETHERTYPE_IPV4;
	case 6:
		return ETHERTYPE_IPV6;
	default:
		return 0;
	}
}

/* Returns the type of the next header in *r; 0: unknown. */
static uint16_t ethernet(struct flow_layer *l, struct rest *r)
{
	const uint8_t *p = r->p;
	uint16_t type;

	if (!take(r, ETH_LEN))
		return 0;
	l->headers |= FLOW_ETH;
	memcpy(l->dst_mac, p, 6);
	memcpy(l->src_mac, p + 6, 6);
	type = get_be16(p + 12);
	while (is_vlan(type) && take(r, VLAN_LEN)) {
		if (!(l->headers & FLOW_VLAN)) {
			l->headers |= FLOW_VLAN;
			l->vlan_tag = raw16(r->p - 4);
		}
		type = get_be16(r->p - 2);
	}
	l->ether_type = htobe16(type);
	if (!is_mpls(type))
		return type;
	if (!mpls(r, &l->mpls))
		return 0;
	l->headers |= FLOW_MPLS;
	return ip_by_version(r);
}

/* The IP length, if it covers at least the header, ends the packet before the frame's padding. */
static void cut(struct rest *r, size_t len)
{
	if (len < r->len)
		r->len = len;
}

static bool ipv4(struct flow_layer *l, struct rest *r)
{
	const uint8_t *p = r->p;
	size_t hdr, total;
	uint16_t frag;

	if (r->len < IPV4_LEN || p[0] >> 4 != 4)
		return false;
	hdr = (size_t)(p[0] & 0xf) * 4;
	if (hdr < IPV4_LEN || hdr > r->len)
		return false;
	total = get_be16(p + 2);
	if (total) /* 0: a burst that is longer than 64 KiB and not segmented yet */
		cut(r, total < hdr ? hdr : total);
	take(r, hdr);
	frag = get_be16(p + 6);
	l->headers |= FLOW_IPV4;
	l->tos = p[1];
	l->ttl = p[8];
	l->proto = p[9];
	l->ip_flags = (frag >> 15) | (frag & IPV4_DONT ? FLOW_IP_DF : 0) |
		      (frag & IPV4_MORE ? FLOW_IP_MF : 0);
	memcpy(l->src_ip, p + 12, 4);
	memcpy(l->dst_ip, p + 16, 4);
	if (!(frag & IPV4_OFFSET))
		return true;
	l->headers |= FLOW_FRAGMENT;
	return false;
}

/* Returns false if the transport header is not in this frame. */
static bool extensions(struct flow_layer *l, struct rest *r)
{
	while (is_extension(l->proto)) {
		const uint8_t *p = r->p;
		size_t len = 8;

		if (r->len < len)
			return false;
		if (l->proto == PROTO_AH)
			len = ((size_t)p[1] + 2) * 4;
		else if (l->proto != PROTO_FRAGMENT)
			len = ((size_t)p[1] + 1) * 8;
		if (l->proto == PROTO_FRAGMENT && get_be16(p + 2) & IPV6_OFFSET) {
			l->headers |= FLOW_FRAGMENT;
			l->proto = p[0];
			return false;
		}
		if (!take(r, len))
			return false;
		l->proto = p[0];
	}
	return true;
}

static bool ipv6(struct flow_layer *l, struct rest *r)
{
	const uint8_t *p = r->p;
	size_t payload;

	if (r->len < IPV6_LEN || p[0] >> 4 != 6)
		return false;
	payload = get_be16(p + 4);
	if (payload) /* 0: the length is in a hop-by-hop option */
		cut(r, IPV6_LEN + payload);
	take(r, IPV6_LEN);
	l->headers |= FLOW_IPV6;
	l->tos = get_be16(p) >> 4;
	l->flow_label = htobe32(get_be32(p) & 0xfffff);
	l->proto = p[6];
	l->ttl = p[7];
	memcpy(l->src_ip, p + 8, 16);
	memcpy(l->dst_ip, p + 24, 16);
	return extensions(l, r);
}

static void ports(struct flow_layer *l, const uint8_t *p, uint32_t header)
{
	l->headers |= header;
	l->src_port = raw16(p);
	l->dst_port = raw16(p + 2);
}

static void transport(struct flow_layer *l, struct rest *r)
{
	const uint8_t *p = r->p;

	switch (l->proto) {
	case PROTO_TCP:
		if (take(r, TCP_LEN))
			ports(l, p, FLOW_TCP);
		return;
	case PROTO_UDP:
		if (take(r, UDP_LEN))
			ports(l, p, FLOW_UDP);
		return;
	case PROTO_ESP:
		if (!take(r, ESP_LEN))
			return;
		l->headers |= FLOW_ESP;
		l->spi = raw32(p);
		l->esp_seq = raw32(p + 4);
		return;
	}
}

/*
 * Parses IP and its payload; `type` is 0 if it is not IP. Returns true if it reached the transport
 * layer.
 */
static bool network(struct flow_layer *l, struct rest *r, uint16_t type)
{
	if (!(type == ETHERTYPE_IPV4 && ipv4(l, r)) && !(type == ETHERTYPE_IPV6 && ipv6(l, r)))
		return false;
	transport(l, r);
	return true;
}

/* Returns the type of the inner packet; 0: unknown or incomplete. */
static uint16_t tunnel_stack(struct flow_key *key, struct rest *r)
{
	if (!mpls(r, &key->tunnel_mpls))
		return 0;
	key->outer.headers |= FLOW_TUNNEL_MPLS;
	return ip_by_version(r);
}

static uint16_t gre(struct flow_key *key, struct rest *r)
{
	const uint8_t *p = r->p;
	uint16_t flags, protocol;
	size_t len = GRE_LEN;

	if (r->len < len)
		return 0;
	flags = get_be16(p);
	protocol = get_be16(p + 2);
	if (!(flags & (GRE_ROUTING | GRE_VERSION)))
		len += (flags & GRE_CHECKSUM ? 4 : 0) + (flags & GRE_KEY ? 4 : 0) +
		       (flags & GRE_SEQUENCE ? 4 : 0);
	if (!take(r, len))
		return 0;
	key->outer.headers |= FLOW_GRE;
	key->gre_flags = raw16(p);
	key->gre_protocol = raw16(p + 2);
	if (flags & (GRE_ROUTING | GRE_VERSION))
		return 0; /* of another layout */
	if (flags & GRE_KEY)
		key->gre_key = raw32(p + GRE_LEN + (flags & GRE_CHECKSUM ? 4 : 0));
	return is_mpls(protocol) ? tunnel_stack(key, r) : protocol;
}

static uint16_t vxlan(struct flow_key *key, struct rest *r)
{
	const uint8_t *p = r->p;

	if (r->len < VXLAN_LEN || !(p[0] & VXLAN_VNI_VALID))
		return 0;
	take(r, VXLAN_LEN);
	key->outer.headers |= FLOW_VXLAN;
	key->vni = htobe32(get_be24(p + 4));
	return ETHERTYPE_TEB;
}

static uint16_t tunnel(struct flow_key *key, struct rest *r)
{
	if (key->outer.proto == PROTO_GRE)
		return gre(key, r);
	if (!(key->outer.headers & FLOW_UDP))
		return 0;
	switch (be16toh(key->outer.dst_port)) {
	case PORT_VXLAN:
		return vxlan(key, r);
	case PORT_MPLS:
		return tunnel_stack(key, r);
	default:
		return 0;
	}
}

void flow_dissect(struct flow_key *key, const uint8_t *frame, size_t len)
{
	struct rest r = { frame, len };
	uint16_t type;

	memset(key, 0, sizeof(*key));
	type = ethernet(&key->outer, &r);
	if (!network(&key->outer, &r, type))
		return;
	type = tunnel(key, &r);
	if (type == ETHERTYPE_TEB)
		type = ethernet(&key->inner, &r);
	network(&key->inner, &r, type);
}
