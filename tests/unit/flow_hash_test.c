/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Toeplitz hash against one that computes it bit by bit, and this one against the table that
 * Microsoft published for RSS; which fields of a frame are hashed, and in which order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <errno.h>

#include <cmocka.h>

#include "flow/hash.h"
#include "unit/flow_env.h"
#include "util/compiler.h"

static uint8_t secret[FLOW_HASH_KEY] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

enum {
	IP4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
	IP6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6,
	TCP = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP,
	UDP = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
};

static uint32_t hash(uint64_t fields, const struct frame *f)
{
	struct ibv_rx_hash_conf conf = { IBV_RX_HASH_FUNC_TOEPLITZ, sizeof(secret), secret,
					 fields };
	struct flow_hash h;
	struct flow_key key;

	assert_int_equal(flow_hash_init(&h, &conf), 0);
	flow_dissect(&key, f->data, f->len);
	return flow_hash(&h, &key);
}

static void add_ip(struct frame *f, const char *src, const char *dst, uint8_t proto)
{
	uint8_t from[16], to[16];

	if (inet_pton(AF_INET, src, from) == 1 && inet_pton(AF_INET, dst, to) == 1) {
		frame_ipv4(f, get_be32(from), get_be32(to), proto, 0, 20);
		return;
	}
	assert_int_equal(inet_pton(AF_INET6, src, from), 1);
	assert_int_equal(inet_pton(AF_INET6, dst, to), 1);
	frame_ipv6(f, from, to, proto, 20);
}

static struct frame tcp(const char *src, uint16_t sport, const char *dst, uint16_t dport)
{
	struct frame f = { .len = 0 };

	frame_eth(&f, "\2\0\0\0\0\1", "\2\0\0\0\0\2", strchr(src, ':') ? 0x86dd : 0x0800);
	add_ip(&f, src, dst, 6);
	frame_tcp(&f, sport, dport);
	return f;
}

static uint32_t reference_hash(const uint8_t *input, size_t len)
{
	uint32_t result = 0;

	for (size_t bit = 0; bit < len * 8; bit++) {
		uint32_t window = 0;

		if (!(input[bit / 8] >> (7 - bit % 8) & 1))
			continue;
		for (size_t i = bit; i < bit + 32; i++)
			window = window << 1 | (secret[i / 8] >> (7 - i % 8) & 1);
		result ^= window;
	}
	return result;
}

/* Two fields of len bytes. */
static void sort_pair(uint8_t *pair, size_t len)
{
	uint8_t first[16];

	if (memcmp(pair, pair + len, len) <= 0)
		return;
	memcpy(first, pair, len);
	memcpy(pair, pair + len, len);
	memcpy(pair + len, first, len);
}

static void published_vectors(void **state)
{
	static const struct {
		const char *src, *dst;
		uint16_t sport, dport;
		uint32_t ip, with_tcp;
	} rows[] = {
		{ "66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178 },
		{ "199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea },
		{ "24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a },
		{ "38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f },
		{ "153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2 },
		{ "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5,
		  0x40207d3d },
		{ "3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c,
		  0xdde51bbf },
		{ "3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024,
		  0x4b61e985, 0x02d1feef },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct frame f = tcp(rows[i].src, rows[i].sport, rows[i].dst, rows[i].dport);
		bool ipv6 = strchr(rows[i].src, ':') != NULL;
		size_t len = ipv6 ? 16 : 4;
		uint8_t input[36];

		assert_int_equal(inet_pton(ipv6 ? AF_INET6 : AF_INET, rows[i].src, input), 1);
		assert_int_equal(inet_pton(ipv6 ? AF_INET6 : AF_INET, rows[i].dst, input + len), 1);
		put_be16(put_be16(input + 2 * len, rows[i].sport), rows[i].dport);
		assert_int_equal(reference_hash(input, 2 * len), rows[i].ip);
		assert_int_equal(reference_hash(input, 2 * len + 4), rows[i].with_tcp);
		sort_pair(input, len);
		sort_pair(input + 2 * len, 2);
		assert_int_equal(hash(ipv6 ? IP6 : IP4, &f), reference_hash(input, 2 * len));
		assert_int_equal(hash((ipv6 ? IP6 : IP4) | TCP, &f),
				 reference_hash(input, 2 * len + 4));
	}
}

/* Both directions of a connection have one hash. */
static void symmetric(void **state)
{
	struct frame there = tcp("66.9.149.187", 2794, "161.142.100.80", 1766),
		     back = tcp("161.142.100.80", 1766, "66.9.149.187", 2794);
	struct frame there6 = tcp("3ffe:501:8::1", 2794, "ff02::1", 1766),
		     back6 = tcp("ff02::1", 1766, "3ffe:501:8::1", 2794);

	assert_int_equal(hash(IP4 | TCP, &there), hash(IP4 | TCP, &back));
	assert_int_equal(hash(IP6 | TCP, &there6), hash(IP6 | TCP, &back6));
	assert_int_equal(hash(TCP, &there), hash(TCP, &back));
	assert_int_not_equal(hash(IBV_RX_HASH_SRC_IPV4, &there), hash(IBV_RX_HASH_SRC_IPV4, &back));
}

static void field_selection(void **state)
{
	static const struct {
		int err;
		uint8_t function, key_len;
		uint64_t fields;
	} rows[] = {
		{ 0, IBV_RX_HASH_FUNC_TOEPLITZ, 40, 0 },
		{ 0, IBV_RX_HASH_FUNC_TOEPLITZ, 40, IP4 | TCP },
		{ 0, IBV_RX_HASH_FUNC_TOEPLITZ, 40, IP6 | UDP | (uint64_t)IBV_RX_HASH_INNER },
		{ 0, IBV_RX_HASH_FUNC_TOEPLITZ, 40, IBV_RX_HASH_DST_PORT_UDP },
		{ 0, IBV_RX_HASH_FUNC_TOEPLITZ, 40, IP4 | IBV_RX_HASH_IPSEC_SPI },
		{ EINVAL, IBV_RX_HASH_FUNC_TOEPLITZ, 39, IP4 },
		{ EINVAL, IBV_RX_HASH_FUNC_TOEPLITZ, 41, IP4 },
		{ EINVAL, IBV_RX_HASH_FUNC_TOEPLITZ, 0, IP4 },
		{ EOPNOTSUPP, 0, 40, IP4 },
		{ EOPNOTSUPP, 2, 40, IP4 },
		{ EOPNOTSUPP, IBV_RX_HASH_FUNC_TOEPLITZ, 40, 1 << 9 },
		{ EOPNOTSUPP, IBV_RX_HASH_FUNC_TOEPLITZ, 40, 1ull << 32 },
		{ EINVAL, IBV_RX_HASH_FUNC_TOEPLITZ, 40,
		  IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV6 },
		{ EINVAL, IBV_RX_HASH_FUNC_TOEPLITZ, 40, IP4 | TCP | UDP },
		{ EINVAL, IBV_RX_HASH_FUNC_TOEPLITZ, 40, IP4 | TCP | IBV_RX_HASH_IPSEC_SPI },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ibv_rx_hash_conf conf = { rows[i].function, rows[i].key_len, secret,
						 rows[i].fields };
		struct flow_hash h;

		if (flow_hash_init(&h, &conf) != rows[i].err)
			fail_msg("row %zu", i);
	}
	assert_int_equal(flow_hash_init(&(struct flow_hash){ 0 },
					&(struct ibv_rx_hash_conf){ IBV_RX_HASH_FUNC_TOEPLITZ, 40,
								    NULL, IP4 }),
			 EINVAL);
}

/* A field that the frame lacks counts as zero. */
static void missing_fields(void **state)
{
	struct frame f = tcp("66.9.149.187", 2794, "161.142.100.80", 1766);
	struct frame none = { .len = 0 };

	assert_int_equal(hash(0, &f), 0);
	assert_int_equal(hash(IP6 | TCP, &none), 0);
	assert_int_equal(hash(IP4 | UDP, &f), 0x323e8fc2);
	assert_int_equal(hash(IP4 | IBV_RX_HASH_IPSEC_SPI, &f), 0x323e8fc2);
	assert_int_equal(hash(IP6, &f), 0);
	assert_int_equal(hash(IP4 | TCP | (uint64_t)IBV_RX_HASH_INNER, &f), 0);
	assert_int_not_equal(hash(IBV_RX_HASH_SRC_IPV4, &f), hash(IBV_RX_HASH_DST_IPV4, &f));
	assert_int_not_equal(hash(IBV_RX_HASH_SRC_PORT_TCP, &f), 0);
	assert_int_not_equal(hash(IBV_RX_HASH_SRC_PORT_TCP, &f),
			     hash(IBV_RX_HASH_DST_PORT_TCP, &f));
}

static void inside_a_tunnel(void **state)
{
	struct frame in = tcp("66.9.149.187", 2794, "161.142.100.80", 1766), f = { .len = 0 };

	frame_eth(&f, "\2\0\0\0\0\1", "\2\0\0\0\0\2", 0x0800);
	frame_ipv4(&f, 1, 2, 17, 0, 8 + 8 + in.len);
	frame_udp(&f, 7, 4789, 8 + in.len);
	frame_room(&f, 8)[0] = 8;
	memcpy(frame_room(&f, in.len), in.data, in.len);
	assert_int_equal(hash(IP4 | TCP | (uint64_t)IBV_RX_HASH_INNER, &f), hash(IP4 | TCP, &in));
	assert_int_not_equal(hash(IP4 | TCP, &f), hash(IP4 | TCP, &in));
}

static void security_parameters_index(void **state)
{
	struct frame f = { .len = 0 };
	uint8_t *esp;

	frame_eth(&f, "\2\0\0\0\0\1", "\2\0\0\0\0\2", 0x0800);
	add_ip(&f, "66.9.149.187", "161.142.100.80", 50);
	esp = frame_room(&f, 20);
	/* at the position of the ports in the published vector */
	put_be16(put_be16(esp, 2794), 1766);
	assert_int_equal(hash(IP4 | IBV_RX_HASH_IPSEC_SPI, &f), 0x51ccc178);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors),
		cmocka_unit_test(symmetric),
		cmocka_unit_test(field_selection),
		cmocka_unit_test(missing_fields),
		cmocka_unit_test(inside_a_tunnel),
		cmocka_unit_test(security_parameters_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
