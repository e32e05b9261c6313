/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPoIB packets: checksums of each kind of packet against a simple implementation; every bit that a
 * checksum covers; packets that must be left unchanged; and segments field by field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "roce/ipoib.h"
#include "util/be.h"
#include "util/compiler.h"

enum {
	ENCAP = 4,
	ROOM = 256,
	TCP_LEN = 20,
	UDP_LEN = 8,
	FIN = 0x01,
	PSH = 0x08,
	ACK = 0x10,
	CWR = 0x80,
};

struct packet {
	uint8_t bytes[ROOM];
	uint32_t len;
	uint32_t ip_len;	/* length of the IP packet */
	uint8_t proto;
	bool ipv6;
};

static uint8_t *ip_of(struct packet *p)
{
	return p->bytes + ENCAP;
}

static uint8_t *l4_of(struct packet *p)
{
	return ip_of(p) + p->ip_len;
}

static uint32_t l4_len(const struct packet *p)
{
	return p->len - ENCAP - p->ip_len;
}

static uint8_t *l4_sum(struct packet *p)
{
	return l4_of(p) + (p->proto == INET_PROTO_TCP ? 16 : 6);
}

/*
 * A packet with `data` bytes after its TCP or UDP header; lengths are filled in and checksums are
 * zero.
 */
static struct packet make(bool ipv6, uint8_t proto, uint32_t data)
{
	struct packet p = { .ipv6 = ipv6, .proto = proto, .ip_len = ipv6 ? 40 : 20 };
	uint32_t head = proto == INET_PROTO_TCP ? TCP_LEN : UDP_LEN;
	uint8_t *ip = ip_of(&p), *l4 = l4_of(&p);

	p.len = ENCAP + p.ip_len + head + data;
	for (uint32_t i = ENCAP; i < p.len; i++)
		p.bytes[i] = (uint8_t)(i * 37 + 11);
	put_be16(p.bytes, ipv6 ? 0x86dd : 0x0800);
	if (ipv6) {
		put_be32(ip, 0x60000000);
		put_be16(ip + 4, (uint16_t)(head + data));
		ip[6] = proto;
	} else {
		ip[0] = 0x45;
		put_be16(ip + 2, (uint16_t)(20 + head + data));
		put_be16(ip + 4, 0xfffe);
		put_be16(ip + 6, 0x4000);
		ip[9] = proto;
		put_be16(ip + 10, 0);
	}
	if (proto == INET_PROTO_TCP) {
		l4[12] = TCP_LEN / 4 << 4;
		l4[13] = ACK | PSH | FIN | CWR;
	} else {
		put_be16(l4 + 4, (uint16_t)(head + data));
	}
	put_be16(l4_sum(&p), 0);
	return p;
}

/* RFC 1071, without optimisation. */
static uint32_t add_bytes(uint32_t sum, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum += (uint32_t)p[i] << (i % 2 ? 0 : 8);
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* With the checksum in place, the sum over header and pseudo header is all ones. */
static bool payload_sum_right(struct packet *p)
{
	uint32_t sum = add_bytes(0, ip_of(p) + (p->ipv6 ? 8 : 12), p->ipv6 ? 32 : 8);

	return folded(add_bytes(sum + p->proto + l4_len(p), l4_of(p), l4_len(p))) == 0xffff;
}

static bool header_sum_right(struct packet *p)
{
	return p->ipv6 || folded(add_bytes(0, ip_of(p), 20)) == 0xffff;
}

static const struct {
	bool ipv6;
	uint8_t proto;
	uint32_t data;
} kinds[] = {
	{ false, INET_PROTO_TCP, 0 }, { false, INET_PROTO_TCP, 1 }, { false, INET_PROTO_TCP, 64 },
	{ false, INET_PROTO_UDP, 0 }, { false, INET_PROTO_UDP, 33 },
	{ true, INET_PROTO_TCP, 0 }, { true, INET_PROTO_TCP, 65 },
	{ true, INET_PROTO_UDP, 1 }, { true, INET_PROTO_UDP, 64 },
};

static void checksums_are_filled_in(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct packet p = make(kinds[i].ipv6, kinds[i].proto, kinds[i].data);

		assert_false(ipoib_checksums_ok(p.bytes, p.len));
		ipoib_fill_checksums(p.bytes, p.len);
		assert_true(header_sum_right(&p));
		assert_true(payload_sum_right(&p));
		assert_true(ipoib_checksums_ok(p.bytes, p.len));
		/* filling them in again changes nothing */
		ipoib_fill_checksums(p.bytes, p.len);
		assert_true(ipoib_checksums_ok(p.bytes, p.len));
	}
}

/* Bytes that no checksum covers: the encapsulation, and IPv6's flow label and hop limit. */
static bool covered(const struct packet *p, uint32_t at)
{
	return at >= ENCAP && !(p->ipv6 && (at < ENCAP + 4 || at == ENCAP + 7));
}

static void every_covered_bit_counts(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct packet p = make(kinds[i].ipv6, kinds[i].proto, kinds[i].data);

		ipoib_fill_checksums(p.bytes, p.len);
		for (uint32_t bit = 0; bit < p.len * 8; bit++) {
			p.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (covered(&p, bit / 8))
				assert_false(ipoib_checksums_ok(p.bytes, p.len));
			p.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		assert_true(ipoib_checksums_ok(p.bytes, p.len));
	}
}

/* A checksum of zero is sent as all ones, because zero means that there is none (RFC 768). */
static void udp_without_a_sum(void **state)
{
	struct packet p = make(false, INET_PROTO_UDP, 8);
	uint32_t sum;

	ipoib_fill_checksums(p.bytes, p.len);
	put_be16(l4_sum(&p), 0);
	assert_false(ipoib_checksums_ok(p.bytes, p.len));

	/* data with a checksum of zero */
	p = make(false, INET_PROTO_UDP, 2);
	put_be16(l4_of(&p) + UDP_LEN, 0);
	sum = folded(add_bytes(add_bytes(p.proto + l4_len(&p), ip_of(&p) + 12, 8), l4_of(&p),
			       l4_len(&p)));
	put_be16(l4_of(&p) + UDP_LEN, (uint16_t)(0xffff - sum));
	ipoib_fill_checksums(p.bytes, p.len);
	assert_int_equal(get_be16(l4_sum(&p)), 0xffff);
	assert_true(ipoib_checksums_ok(p.bytes, p.len));
}

static void left_alone(struct packet p, uint32_t len)
{
	const struct inet_segment s = { .index = 1, .offset = 8, .last = true };
	struct packet copy = p;

	ipoib_fill_checksums(p.bytes, len);
	ipoib_make_segment(p.bytes, len, &s);
	assert_memory_equal(p.bytes, copy.bytes, ROOM);
	assert_false(ipoib_checksums_ok(p.bytes, len));
}

static void other_packets_are_left_alone(void **state)
{
	struct packet p = make(false, INET_PROTO_UDP, 8);

	put_be16(p.bytes, 0x0806);	/* ARP */
	left_alone(p, p.len);
	p = make(false, INET_PROTO_UDP, 8);
	ip_of(&p)[0] = 0x65;		/* not what its EtherType says */
	left_alone(p, p.len);
	p = make(false, INET_PROTO_UDP, 8);
	ip_of(&p)[0] = 0x44;		/* a header that is too short */
	left_alone(p, p.len);
	p = make(false, 1, 8);		/* ICMP */
	left_alone(p, p.len);
	p = make(false, INET_PROTO_UDP, 8);
	/* a fragment: its checksum covers bytes of other fragments */
	put_be16(ip_of(&p) + 6, 0x2000);
	left_alone(p, p.len);
	p = make(false, INET_PROTO_UDP, 8);
	put_be16(ip_of(&p) + 6, 5);
	left_alone(p, p.len);
	p = make(true, 44, 8);		/* IPv6 with a fragment header */
	left_alone(p, p.len);
}

/* Truncated anywhere: nothing is written beyond the end, and no checksum is reported as correct. */
static void cut_short(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct packet p = make(kinds[i].ipv6, kinds[i].proto, kinds[i].data);
		uint32_t whole = p.len;

		ipoib_fill_checksums(p.bytes, p.len);
		for (uint32_t len = 0; len < whole; len++) {
			struct packet copy = p;

			assert_false(ipoib_checksums_ok(p.bytes, len));
			ipoib_fill_checksums(copy.bytes, len);
			assert_memory_equal(copy.bytes + len, p.bytes + len, ROOM - len);
		}
		assert_false(ipoib_checksums_ok(p.bytes, whole + 1));	/* padded */
	}
}

static void segments(void **state)
{
	static const struct inet_segment rows[] = {
		{ 0, 0, false }, { 1, 100, false }, { 2, 200, true }, { 0, 0, true },
		{ 70000, 0xfffffff0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct packet p = make(false, INET_PROTO_TCP, 60);
		const uint32_t seq = get_be32(l4_of(&p) + 4);
		uint8_t flags = ACK;

		put_be16(ip_of(&p) + 2, 9);	/* the total length does not fit */
		ipoib_make_segment(p.bytes, p.len, &rows[i]);
		assert_int_equal(get_be16(ip_of(&p) + 2), p.len - ENCAP);
		assert_int_equal(get_be16(ip_of(&p) + 4), (uint16_t)(0xfffe + rows[i].index));
		assert_int_equal(get_be32(l4_of(&p) + 4), seq + rows[i].offset);
		/* RFC 3168: CWR is set in the first segment; FIN and PSH in the last one. */
		flags |= rows[i].last ? FIN | PSH : 0;
		flags |= rows[i].index ? 0 : CWR;
		assert_int_equal(l4_of(&p)[13], flags);
		assert_true(header_sum_right(&p));
		assert_true(payload_sum_right(&p));
		assert_true(ipoib_checksums_ok(p.bytes, p.len));
	}
}

static void segments_of_ipv6(void **state)
{
	const struct inet_segment s = { .index = 1, .offset = 60, .last = true };
	struct packet p = make(true, INET_PROTO_TCP, 33);

	put_be16(ip_of(&p) + 4, 0);
	ipoib_make_segment(p.bytes, p.len, &s);
	assert_int_equal(get_be16(ip_of(&p) + 4), p.len - ENCAP - 40);
	assert_true(ipoib_checksums_ok(p.bytes, p.len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_are_filled_in),
		cmocka_unit_test(every_covered_bit_counts),
		cmocka_unit_test(udp_without_a_sum),
		cmocka_unit_test(other_packets_are_left_alone),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(segments),
		cmocka_unit_test(segments_of_ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
