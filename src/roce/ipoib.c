/* SPDX-License-Identifier: BSD-2-Clause */
/* IPoIB packets inside UD datagrams; ipoib.h has the contract. */
#include "roce/ipoib.h"

#include "util/be.h"

enum {
	ENCAP_LEN = 4, /* RFC 4391, 6: EtherType and two reserved bytes */
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	IPV4_MIN = 20,
	IPV6_LEN = 40,
	IPV4_FRAGMENT = 0x3fff, /* more fragments, or an offset */
	PROTO_TCP = 6,
	PROTO_UDP = 17,
	TCP_MIN = 20,
	UDP_LEN = 8,
	TCP_FIN = 0x01,
	TCP_PSH = 0x08,
	TCP_CWR = 0x80,
};

/* Where things are, as offsets in the datagram. */
struct frame {
	bool ipv6;
	uint8_t proto;
	uint32_t ip;
	uint32_t l4;
	uint32_t sum; /* of TCP or UDP */
};

static bool parse_ip(const uint8_t *p, uint32_t len, struct frame *f)
{
	uint32_t header = IPV6_LEN;

	f->ip = ENCAP_LEN;
	if (len < ENCAP_LEN + IPV4_MIN)
		return false;
	switch (get_be16(p)) {
	case TYPE_IPV4:
		f->ipv6 = false;
		header = (p[f->ip] & 0xf) * 4;
		f->proto = p[f->ip + 9];
		if (p[f->ip] >> 4 != 4 || header < IPV4_MIN ||
		    (get_be16(p + f->ip + 6) & IPV4_FRAGMENT))
			return false;
		break;
	case TYPE_IPV6:
		f->ipv6 = true;
		f->proto = p[f->ip + 6];
		if (p[f->ip] >> 4 != 6)
			return false;
		break;
	default:
		return false;
	}
	f->l4 = f->ip + header;
	return f->l4 <= len;
}

static bool parse(const uint8_t *p, uint32_t len, struct frame *f)
{
	if (!parse_ip(p, len, f))
		return false;
	if (f->proto == PROTO_TCP && len - f->l4 >= TCP_MIN)
		f->sum = f->l4 + 16;
	else if (f->proto == PROTO_UDP && len - f->l4 >= UDP_LEN)
		f->sum = f->l4 + 6;
	else
		return false;
	return true;
}

static uint64_t add_words(uint64_t sum, const uint8_t *p, uint32_t len)
{
	for (; len > 1; p += 2, len -= 2)
		sum += get_be16(p);
	return len ? sum + (uint32_t)(p[0] << 8) : sum;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* RFC 791: over the header, its checksum included. */
static uint16_t header_sum(const uint8_t *p, const struct frame *f)
{
	return fold(add_words(0, p + f->ip, f->l4 - f->ip));
}

/* RFC 9293 3.1 and RFC 768: over a pseudo header and what follows the IP header. */
static uint16_t payload_sum(const uint8_t *p, uint32_t len, const struct frame *f)
{
	const uint8_t *addresses = p + f->ip + (f->ipv6 ? 8 : 12);
	uint64_t sum = add_words(0, addresses, f->ipv6 ? 32 : 8);

	return fold(add_words(sum + f->proto + (len - f->l4), p + f->l4, len - f->l4));
}

static void fill(uint8_t *p, uint32_t len, const struct frame *f)
{
	uint16_t sum;

	if (!f->ipv6) {
		put_be16(p + f->ip + 10, 0);
		put_be16(p + f->ip + 10, header_sum(p, f));
	}
	put_be16(p + f->sum, 0);
	sum = payload_sum(p, len, f);
	/* RFC 768: zero means that there is none. */
	put_be16(p + f->sum, sum == 0 && f->proto == PROTO_UDP ? 0xffff : sum);
}

void ipoib_fill_checksums(uint8_t *datagram, uint32_t len)
{
	struct frame f;

	if (parse(datagram, len, &f))
		fill(datagram, len, &f);
}

static void set_lengths(uint8_t *p, uint32_t len, const struct frame *f)
{
	if (f->ipv6)
		put_be16(p + f->ip + 4, len - f->l4);
	else
		put_be16(p + f->ip + 2, len - f->ip);
	if (f->proto == PROTO_UDP)
		put_be16(p + f->l4 + 4, len - f->l4);
}

/* FIN and PSH belong to the last segment, CWR (RFC 3168, 6.1.2) to the first. */
static void set_tcp(uint8_t *tcp, const struct ipoib_segment *s)
{
	put_be32(tcp + 4, get_be32(tcp + 4) + s->offset);
	if (!s->last)
		tcp[13] &= ~(TCP_FIN | TCP_PSH);
	if (s->index)
		tcp[13] &= ~TCP_CWR;
}

void ipoib_make_segment(uint8_t *datagram, uint32_t len, const struct ipoib_segment *s)
{
	struct frame f;

	if (!parse(datagram, len, &f))
		return;
	set_lengths(datagram, len, &f);
	if (!f.ipv6)
		put_be16(datagram + f.ip + 4, get_be16(datagram + f.ip + 4) + s->index);
	if (f.proto == PROTO_TCP)
		set_tcp(datagram + f.l4, s);
	fill(datagram, len, &f);
}

bool ipoib_checksums_ok(const uint8_t *datagram, uint32_t len)
{
	struct frame f;

	if (!parse(datagram, len, &f))
		return false;
	if (f.ipv6 ? get_be16(datagram + f.ip + 4) != len - f.l4 :
		     get_be16(datagram + f.ip + 2) != len - f.ip || header_sum(datagram, &f))
		return false;
	return get_be16(datagram + f.sum) && payload_sum(datagram, len, &f) == 0;
}
