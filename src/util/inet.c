/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/inet.h"

#include <string.h>

#include "util/be.h"

enum {
	IPV6_OPTIONS_HOP = 0,
	IPV6_OPTIONS_DST = 60,
	IPV6_OPTIONS = 4,	/* extension headers that are skipped */
	IPV4_DF = 0x4000,
	IPV4_FRAGMENT = 0x3fff,	/* more fragments, or an offset */
	TCP_MIN = 20,
	UDP_LEN = 8,
	TCP_FIN = 0x01,
	TCP_PSH = 0x08,
	TCP_CWR = 0x80,
	TAGS = 2,
};

static bool parse_ipv4(const uint8_t *p, uint32_t len, enum inet_end end, struct inet *f)
{
	uint32_t header = (p[f->ip] & 0xf) * 4;
	uint32_t total = end == INET_AT_END ? len - f->ip : get_be16(p + f->ip + 2);

	if (p[f->ip] >> 4 != 4 || header < INET_IPV4 || total < header || f->ip + total > len)
		return false;
	f->proto = p[f->ip + 9];
	f->end = f->ip + total;
	if (!(get_be16(p + f->ip + 6) & IPV4_FRAGMENT))
		f->l4 = f->ip + header;
	return true;
}

static bool parse_ipv6(const uint8_t *p, uint32_t len, enum inet_end end, struct inet *f)
{
	uint32_t at = f->ip + INET_IPV6;

	if (at > len || p[f->ip] >> 4 != 6)
		return false;
	f->ipv6 = true;
	f->proto = p[f->ip + 6];
	f->end = end == INET_AT_END ? len : at + get_be16(p + f->ip + 4);
	if (f->end > len)
		return false;
	for (int i = 0; i < IPV6_OPTIONS; i++) {
		if (f->proto != IPV6_OPTIONS_HOP && f->proto != IPV6_OPTIONS_DST)
			break;
		if (at + 8 > f->end)
			return true;
		f->proto = p[at];
		at += (p[at + 1] + 1) * 8;
	}
	if (at <= f->end)
		f->l4 = at;
	return true;
}

static void parse_l4(const uint8_t *p, struct inet *f)
{
	uint32_t room = f->l4 ? f->end - f->l4 : 0;
	uint32_t header;

	if (f->proto == INET_PROTO_TCP && room >= TCP_MIN) {
		header = (p[f->l4 + 12] >> 4) * 4;
		if (header < TCP_MIN || header > room)
			return;
		f->sum = f->l4 + 16;
		f->data = f->l4 + header;
	} else if (f->proto == INET_PROTO_UDP && room >= UDP_LEN) {
		f->sum = f->l4 + 6;
		f->data = f->l4 + UDP_LEN;
	}
}

bool inet_parse(const uint8_t *p, uint32_t len, uint16_t type, uint32_t ip, enum inet_end end,
		struct inet *f)
{
	bool ok = false;

	*f = (struct inet){ .ip = ip };
	if (len < ip + INET_IPV4)
		return false;
	if (type == INET_TYPE_IPV4)
		ok = parse_ipv4(p, len, end, f);
	else if (type == INET_TYPE_IPV6)
		ok = parse_ipv6(p, len, end, f);
	if (ok)
		parse_l4(p, f);
	return ok;
}

bool inet_parse_frame(const uint8_t *p, uint32_t len, enum inet_end end, struct inet *f)
{
	uint32_t at = INET_ETHERNET;
	uint16_t type;

	if (len < INET_ETHERNET)
		return false;
	type = get_be16(p + at - 2);
	for (int i = 0; i < TAGS && (type == INET_TYPE_CVLAN || type == INET_TYPE_SVLAN); i++) {
		at += INET_TAG;
		if (len < at)
			return false;
		type = get_be16(p + at - 2);
	}
	return inet_parse(p, len, type, at, end, f);
}

/*
 * Sums are kept in memory order, four bytes at a time: RFC 1071, 2 (B) and (C) say that this gives
 * the same, swapped.
 */
static uint64_t add_bytes(uint64_t sum, const uint8_t *p, uint32_t len)
{
	uint32_t word;
	uint64_t two;

	for (; len >= sizeof(two); p += sizeof(two), len -= sizeof(two)) {
		memcpy(&two, p, sizeof(two));
		sum += (two & 0xffffffff) + (two >> 32);
	}
	for (; len; p += sizeof(word), len -= sizeof(word)) {
		word = 0;
		if (len < sizeof(word)) {
			memcpy(&word, p, len);
			return sum + word;
		}
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	return sum;
}

/* The sum as a number. */
static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return be16toh((uint16_t)sum);
}

/* RFC 791: over the header, its checksum included. */
static uint16_t header_sum(const uint8_t *p, const struct inet *f)
{
	return ~fold(add_bytes(0, p + f->ip, (p[f->ip] & 0xf) * 4));
}

/* RFC 9293 3.1, RFC 768, RFC 8200 8.1. */
static uint64_t add_pseudo(const uint8_t *p, const struct inet *f)
{
	const uint8_t *addresses = p + f->ip + (f->ipv6 ? 8 : 12);

	return add_bytes(htobe32(f->proto + (f->end - f->l4)), addresses, f->ipv6 ? 32 : 8);
}

static uint16_t payload_sum(const uint8_t *p, const struct inet *f)
{
	return ~fold(add_bytes(add_pseudo(p, f), p + f->l4, f->end - f->l4));
}

uint16_t inet_pseudo_sum(const uint8_t *p, const struct inet *f)
{
	return fold(add_pseudo(p, f));
}

static uint8_t *put_ipv4(uint8_t *header, const struct net_path *path, uint32_t len)
{
	uint8_t *p = header;

	p = put_u8(p, 0x45);
	p = put_u8(p, path->traffic_class);
	p = put_be16(p, (uint16_t)(INET_IPV4 + len));
	p = put_be16(p, 0);
	p = put_be16(p, IPV4_DF);
	p = put_u8(p, path->hop_limit);
	p = put_u8(p, INET_PROTO_UDP);
	p = put_be16(p, 0);
	memcpy(p, path->src.raw + 12, 4);
	memcpy(p + 4, path->dst.raw + 12, 4);
	put_be16(header + 10, ~fold(add_bytes(0, header, INET_IPV4)));
	return p + 8;
}

static uint8_t *put_ipv6(uint8_t *p, const struct net_path *path, uint32_t len)
{
	p = put_be32(p,
		     6u << 28 | (uint32_t)path->traffic_class << 20 | (path->flow_label & 0xfffff));
	p = put_be16(p, (uint16_t)len);
	p = put_u8(p, INET_PROTO_UDP);
	p = put_u8(p, path->hop_limit);
	memcpy(p, path->src.raw, 16);
	memcpy(p + 16, path->dst.raw, 16);
	return p + 32;
}

uint8_t *inet_put_header(uint8_t *p, const struct net_path *path, uint32_t len)
{
	return net_is_ipv4(&path->dst) ? put_ipv4(p, path, len) : put_ipv6(p, path, len);
}

void inet_fill_header_sum(uint8_t *p, const struct inet *f)
{
	if (f->ipv6)
		return;
	put_be16(p + f->ip + 10, 0);
	put_be16(p + f->ip + 10, header_sum(p, f));
}

void inet_fill_payload_sum(uint8_t *p, const struct inet *f)
{
	uint16_t sum;

	if (!f->sum)
		return;
	put_be16(p + f->sum, 0);
	sum = payload_sum(p, f);
	/* RFC 768: zero means that there is none. */
	put_be16(p + f->sum, sum == 0 && f->proto == INET_PROTO_UDP ? 0xffff : sum);
}

void inet_complete_sum(uint8_t *p, uint32_t start, uint32_t offset, uint32_t end)
{
	uint16_t sum;

	if (start + offset + 2 > end)
		return;
	sum = ~fold(add_bytes(0, p + start, end - start));
	put_be16(p + start + offset, sum ? sum : 0xffff);
}

bool inet_header_sum_ok(const uint8_t *p, const struct inet *f)
{
	return f->ipv6 || header_sum(p, f) == 0;
}

bool inet_sums_ok(const uint8_t *p, const struct inet *f)
{
	if (!inet_header_sum_ok(p, f) || !f->sum)
		return false;
	/* A datagram's zero means that there is none; a TCP segment's is a sum like any other. */
	if (f->proto == INET_PROTO_UDP && get_be16(p + f->sum) == 0)
		return false;
	return payload_sum(p, f) == 0;
}

static void set_lengths(uint8_t *p, const struct inet *f)
{
	if (f->ipv6)
		put_be16(p + f->ip + 4, f->end - f->ip - INET_IPV6);
	else
		put_be16(p + f->ip + 2, f->end - f->ip);
	if (f->proto == INET_PROTO_UDP)
		put_be16(p + f->l4 + 4, f->end - f->l4);
}

/* FIN and PSH belong to the last segment, CWR (RFC 3168, 6.1.2) to the first. */
static void set_tcp(uint8_t *tcp, const struct inet_segment *s)
{
	put_be32(tcp + 4, get_be32(tcp + 4) + s->offset);
	if (!s->last)
		tcp[13] &= ~(TCP_FIN | TCP_PSH);
	if (s->index)
		tcp[13] &= ~TCP_CWR;
}

void inet_make_segment(uint8_t *p, const struct inet *f, const struct inet_segment *s)
{
	if (!f->sum)
		return;
	set_lengths(p, f);
	if (!f->ipv6)
		put_be16(p + f->ip + 4, get_be16(p + f->ip + 4) + s->index);
	if (f->proto == INET_PROTO_TCP)
		set_tcp(p + f->l4, s);
}
