/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parsing and completing IP packets: compared with byte-by-byte checksums, at every length and
 * truncated everywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ip_sum.h"
#include "place.h"
#include "util/be.h"
#include "util/inet.h"

enum {
	IPV4 = 20,
	IPV6 = 40,
	TCP = 20,
	UDP = 8,
	MAX_DATA = 300,
	ROUNDS = 2000,
};

struct shape {
	unsigned int tags;
	bool ipv6;
	unsigned int options;	/* IPv4: words of options; IPv6: option headers */
	uint8_t proto;
	uint32_t data, padding;
};

/* Makes the frame of a shape, with random contents elsewhere; returns its length. */
static uint32_t make(uint8_t *p, const struct shape *s, uint64_t *seed)
{
	uint32_t at = INET_ETHERNET, l4 = s->proto == INET_PROTO_TCP ? TCP : UDP, ip, total;

	for (uint32_t i = 0; i < 512; i++)
		p[i] = place_next(seed);
	for (unsigned int i = 0; i < s->tags; i++, at += INET_TAG)
		put_be16(p + at - 2, i ? INET_TYPE_SVLAN : INET_TYPE_CVLAN);
	put_be16(p + at - 2, s->ipv6 ? INET_TYPE_IPV6 : INET_TYPE_IPV4);
	ip = at;
	if (s->ipv6) {
		p[ip] = 0x60;
		p[ip + 6] = s->options ? 0 : s->proto;
		at += IPV6;
		for (unsigned int i = 0; i < s->options; i++, at += 8) {
			p[at] = i + 1 < s->options ? 60 : s->proto;
			p[at + 1] = 0;
		}
		total = at - ip + l4 + s->data;
		put_be16(p + ip + 4, total - IPV6);
	} else {
		p[ip] = 0x45 + s->options;
		put_be16(p + ip + 6, 0x4000);
		p[ip + 9] = s->proto;
		at += IPV4 + 4 * s->options;
		total = at - ip + l4 + s->data;
		put_be16(p + ip + 2, total);
	}
	if (s->proto == INET_PROTO_TCP)
		p[at + 12] = TCP / 4 << 4;
	else
		put_be16(p + at + 4, l4 + s->data);
	return ip + total + s->padding;
}

static struct shape any_shape(uint64_t *seed)
{
	return (struct shape){
		.tags = place_next(seed) % 3,
		.ipv6 = place_next(seed) & 1,
		.options = place_next(seed) % 4,
		.proto = place_next(seed) & 1 ? INET_PROTO_TCP : INET_PROTO_UDP,
		.data = place_next(seed) % MAX_DATA,
		.padding = place_next(seed) % 7,
	};
}

/* Both checksums, computed as in the RFCs. */
static bool right(const uint8_t *p, const struct inet *f)
{
	uint32_t len = f->end - f->l4;
	uint32_t pseudo = ip_sum(len + f->proto, p + f->ip + (f->ipv6 ? 8 : 12), f->ipv6 ? 32 : 8);

	if (!f->ipv6 && ip_sum_fold(ip_sum(0, p + f->ip, (p[f->ip] & 15) * 4)) != 0xffff)
		return false;
	return ip_sum_fold(ip_sum(pseudo, p + f->l4, len)) == 0xffff;
}

static void test_parse_and_fill(void **state)
{
	uint64_t seed = place_seed();
	uint8_t p[1024];

	for (int i = 0; i < ROUNDS; i++) {
		struct shape s = any_shape(&seed);
		uint32_t len = make(p, &s, &seed);
		struct inet f;
		uint8_t *flipped;

		assert_true(inet_parse_frame(p, len, INET_BY_HEADER, &f));
		assert_int_equal(f.ip, INET_ETHERNET + s.tags * INET_TAG);
		assert_int_equal(f.ipv6, s.ipv6);
		assert_int_equal(f.proto, s.proto);
		assert_int_equal(f.end, len - s.padding);
		assert_int_equal(f.end - f.data, s.data);
		inet_fill_header_sum(p, &f);
		inet_fill_payload_sum(p, &f);
		assert_true(right(p, &f));
		assert_true(inet_sums_ok(p, &f));
		/* As devices do it: the pseudo header's sum first, the rest later. */
		put_be16(p + f.sum, inet_pseudo_sum(p, &f));
		inet_complete_sum(p, f.l4, f.sum - f.l4, f.end);
		assert_true(right(p, &f));
		/* every wrong bit is detected */
		flipped = p + f.l4 + place_next(&seed) % (f.end - f.l4);
		*flipped ^= 1 << place_next(&seed) % 8;
		if (flipped != p + f.l4 + 12 || s.proto != INET_PROTO_TCP)
			assert_false(inet_sums_ok(p, &f));
	}
}

/*
 * A checksum of zero is valid in a TCP segment. In a UDP datagram it means that there is none, so
 * it is never sent.
 */
static void test_sum_of_zero(void **state)
{
	static const uint8_t protos[] = { INET_PROTO_TCP, INET_PROTO_UDP };

	for (unsigned int i = 0; i < 2; i++) {
		const struct shape s = { .proto = protos[i], .data = 50 };
		uint64_t seed = 1;
		uint8_t p[1024];
		uint32_t len = make(p, &s, &seed);
		struct inet f;

		assert_true(inet_parse_frame(p, len, INET_BY_HEADER, &f));
		inet_fill_header_sum(p, &f);
		/* What the sum came to, as data, makes the next one zero. */
		put_be16(p + f.end - 2, 0);
		inet_fill_payload_sum(p, &f);
		put_be16(p + f.end - 2, get_be16(p + f.sum));
		inet_fill_payload_sum(p, &f);
		assert_int_equal(get_be16(p + f.sum), s.proto == INET_PROTO_TCP ? 0 : 0xffff);
		assert_true(right(p, &f));
		assert_true(inet_sums_ok(p, &f));
		put_be16(p + f.sum, 0);
		assert_int_equal(inet_sums_ok(p, &f), s.proto == INET_PROTO_TCP);
	}
}

/*
 * Truncated anywhere, in memory of just that size, a frame is parsed or refused without a read
 * beyond its end.
 */
static void test_cut_short(void **state)
{
	uint64_t seed = place_seed();
	uint8_t p[1024];

	for (int i = 0; i < 100; i++) {
		struct shape s = any_shape(&seed);
		uint32_t len = make(p, &s, &seed);

		for (uint32_t n = 0; n < len; n++) {
			uint8_t *copy = malloc(n ? n : 1);
			struct inet f;

			memcpy(copy, p, n);
			if (inet_parse_frame(copy, n, INET_BY_HEADER, &f))
				assert_true(f.end <= n);
			if (inet_parse_frame(copy, n, INET_AT_END, &f)) {
				assert_int_equal(f.end, n);
				inet_fill_header_sum(copy, &f);
				inet_fill_payload_sum(copy, &f);
				if (f.sum)
					assert_true(right(copy, &f));
			}
			free(copy);
		}
	}
}

/* No contents of a frame lead to a read outside it. */
static void test_noise(void **state)
{
	uint64_t seed = place_seed();

	for (int i = 0; i < 20000; i++) {
		struct shape s = any_shape(&seed);
		uint8_t p[1024], *copy;
		uint32_t len = make(p, &s, &seed);
		struct inet f;

		for (int k = 0; k < 3; k++)
			p[12 + place_next(&seed) % 70] = place_next(&seed);
		copy = malloc(len);
		memcpy(copy, p, len);
		if (inet_parse_frame(copy, len, INET_BY_HEADER, &f)) {
			assert_true(f.end <= len && f.l4 <= f.end && f.data <= f.end);
			inet_sums_ok(copy, &f);
			inet_fill_header_sum(copy, &f);
			inet_fill_payload_sum(copy, &f);
			inet_make_segment(copy, &f, &(struct inet_segment){ 1, 100, false });
		}
		inet_complete_sum(copy, place_next(&seed) % len, place_next(&seed) % 64, len);
		free(copy);
	}
}

static void test_fragment(void **state)
{
	const struct shape s = { .proto = INET_PROTO_UDP, .data = 50 };
	uint64_t seed = 1;
	uint8_t p[1024];
	uint32_t len = make(p, &s, &seed);
	struct inet f;

	put_be16(p + INET_ETHERNET + 6, 0x2000);
	assert_true(inet_parse_frame(p, len, INET_BY_HEADER, &f));
	assert_int_equal(f.l4, 0);
	assert_int_equal(f.sum, 0);
	inet_fill_header_sum(p, &f);
	assert_true(inet_header_sum_ok(p, &f));
	assert_false(inet_sums_ok(p, &f));
}

/* Compares a header built byte by byte with the parser's result. */
static void test_header(void **state)
{
	static const uint8_t v4[] = { 0x45, 0x03, 0x00, 0x78, 0x00, 0x00, 0x40, 0x00, 0x07, 0x11,
				      0xa4, 0xc4, 10,	0,    1,    2,	  192,	168,  3,    4 };
	static const uint8_t v6[8] = { 0x60, 0x3a, 0xbc, 0xde, 0x00, 0x64, 0x11, 0x07 };
	struct net_path path = { .traffic_class = 3, .hop_limit = 7, .flow_label = 0xfffabcde };
	uint8_t p[IPV6 + 100] = { 0 };
	struct inet f;

	memcpy(path.src.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\x01\x02", 16);
	memcpy(path.dst.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\xa8\x03\x04", 16);
	assert_ptr_equal(inet_put_header(p, &path, 100), p + IPV4);
	assert_memory_equal(p, v4, sizeof(v4));
	assert_true(inet_parse(p, IPV4 + 100, INET_TYPE_IPV4, 0, INET_BY_HEADER, &f));
	assert_true(inet_header_sum_ok(p, &f));

	memset(path.src.raw, 0xaa, 16);
	memset(path.dst.raw, 0xbb, 16);
	assert_ptr_equal(inet_put_header(p, &path, 100), p + IPV6);
	assert_memory_equal(p, v6, sizeof(v6));
	assert_memory_equal(p + 8, path.src.raw, 16);
	assert_memory_equal(p + 24, path.dst.raw, 16);
	assert_true(inet_parse(p, IPV6 + 100, INET_TYPE_IPV6, 0, INET_BY_HEADER, &f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_and_fill),
		cmocka_unit_test(test_sum_of_zero),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_fragment),
		cmocka_unit_test(test_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
