/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC against a bit-by-bit one over a second implementation of the pseudo header, the fields
 * it must ignore, and the check of packets whose IPv4 identification is not known.
 */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "roce/icrc.h"
#include "roce/pkt.h"
#include "unit/random.h"
#include "util/compiler.h"

enum { BUF = ROCE_MAX_PACKET };

/*
 * A small RC SEND ONLY and its ACK as Linux soft RoCE sent them, from tests/data/pcap/rc_send.pcap.
 */
static const struct {
	uint16_t src_port, ip_id;
	uint8_t src[4], dst[4];
	size_t len;
	uint8_t data[24];
} captured[] = {
	{ 55158, 0xfd47, { 10, 88, 0, 1 }, { 10, 88, 0, 2 }, 16,
	  { 0x04, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x4d, 0x80, 0x00, 0x01, 0x00,
	    0x70, 0xbd, 0xed, 0xa5 } },
	{ 55158, 0x825d, { 10, 88, 0, 2 }, { 10, 88, 0, 1 }, 20,
	  { 0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x4e, 0x00, 0x00, 0x01, 0x00,
	    0x1f, 0x00, 0x00, 0x01, 0x5c, 0x43, 0x8b, 0xcf } },
	{ 55158, 0xfd49, { 10, 88, 0, 1 }, { 10, 88, 0, 2 }, 20,
	  { 0x04, 0x30, 0xff, 0xff, 0x00, 0x00, 0x00, 0x4d, 0x80, 0x00, 0x01, 0x01,
	    0x41, 0x00, 0x00, 0x00, 0xf0, 0xf0, 0x3f, 0xf5 } },
	{ 55158, 0x8260, { 10, 88, 0, 2 }, { 10, 88, 0, 1 }, 20,
	  { 0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x4e, 0x00, 0x00, 0x01, 0x01,
	    0x1f, 0x00, 0x00, 0x02, 0xab, 0xbe, 0x3e, 0x89 } },
};

static uint32_t reference_crc(uint32_t crc, const uint8_t *p, size_t n)
{
	for (; n > 0; p++, n--) {
		crc ^= *p;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return crc;
}

static uint32_t reference_icrc(const struct net_path *path, uint16_t id, const uint8_t *data,
			       size_t len)
{
	size_t udp = 8 + len + 4;
	size_t v4 = udp + 20;
	uint8_t ip4[20] = { 0x45, 0xff, v4 >> 8, v4, id >> 8, id, 0x40, 0, 0xff, 17, 0xff, 0xff };
	uint8_t ip6[40] = { 0x6f, 0xff, 0xff, 0xff, udp >> 8, udp, 17, 0xff };
	uint8_t ports[8] = { path->src_port >> 8, path->src_port, path->dst_port >> 8,
			     path->dst_port, udp >> 8, udp, 0xff, 0xff };
	uint8_t ones[8], bth[12];
	uint32_t crc;

	memset(ones, 0xff, sizeof(ones));
	memcpy(ip4 + 12, path->src.raw + 12, 4);
	memcpy(ip4 + 16, path->dst.raw + 12, 4);
	memcpy(ip6 + 8, path->src.raw, 16);
	memcpy(ip6 + 24, path->dst.raw, 16);
	memcpy(bth, data, sizeof(bth));
	bth[4] = 0xff;
	crc = reference_crc(0xffffffff, ones, sizeof(ones));
	crc = net_is_ipv4(&path->dst) ? reference_crc(crc, ip4, 20) : reference_crc(crc, ip6, 40);
	crc = reference_crc(crc, ports, sizeof(ports));
	crc = reference_crc(crc, bth, sizeof(bth));
	return ~reference_crc(crc, data + 12, len - 12);
}

static void ipv4_addr(struct net_addr *a, const uint8_t *ip)
{
	memset(a, 0, sizeof(*a));
	memset(a->raw + 10, 0xff, 2);
	memcpy(a->raw + 12, ip, 4);
}

static struct net_path random_path(bool ipv4)
{
	struct net_path path;

	random_bytes(&path, sizeof(path));
	path.dst.raw[0] = 0x20;
	if (ipv4) {
		ipv4_addr(&path.src, path.src.raw);
		ipv4_addr(&path.dst, path.dst.raw);
	}
	return path;
}

/* Appends the ICRC in little endian; returns the whole length. */
static size_t add_icrc(const struct net_path *path, uint16_t id, uint8_t *data, size_t len)
{
	uint32_t crc = roce_icrc(path, id, data, len);

	for (int i = 0; i < 4; i++)
		data[len + i] = crc >> 8 * i;
	return len + 4;
}

static void same_as_bit_by_bit(void **state)
{
	static uint8_t data[BUF];

	random_start();
	for (int i = 0; i < 400; i++) {
		struct net_path path = random_path(i & 1);
		uint16_t id = (uint16_t)random_u64();
		size_t len = 12 + random_below(i < 300 ? 200 : 4100);

		random_bytes(data, len);
		assert_int_equal(roce_icrc(&path, id, data, len),
				 reference_icrc(&path, id, data, len));
	}
}

/* Packets of a few paths and lengths by turns, most with nothing in the variant byte. */
static void a_front_is_of_its_path_and_length(void **state)
{
	struct roce_icrc_front front = { 0 };
	struct net_path paths[4];
	uint8_t data[80];

	random_start();
	for (int i = 0; i < 4; i++)
		paths[i] = random_path(i & 1);
	paths[2] = paths[0];
	paths[2].src_port ^= 1;
	paths[3] = paths[1];
	paths[3].dst.raw[15] ^= 1;
	for (int i = 0; i < 2000; i++) {
		const struct net_path *path = &paths[random_below(4)];
		uint16_t id = random_below(2) ? random_below(64) : (uint16_t)random_u64();
		size_t len = 12 + random_below(2);

		random_bytes(data, len);
		if (random_below(4))
			data[4] = 0;
		assert_int_equal(roce_icrc_next(&front, path, id, data, len),
				 reference_icrc(path, id, data, len));
	}
}

static void captured_packets(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(captured); i++) {
		struct net_path path = { .src_port = captured[i].src_port, .dst_port = 4791 };
		uint16_t id = captured[i].ip_id;

		ipv4_addr(&path.src, captured[i].src);
		ipv4_addr(&path.dst, captured[i].dst);
		assert_int_equal(roce_icrc_check(&path, true, id, captured[i].data,
						 captured[i].len),
				 ROCE_ICRC_GOOD);
		assert_int_equal(roce_icrc_check(&path, true, id + 1, captured[i].data,
						 captured[i].len),
				 ROCE_ICRC_BAD);
		assert_int_equal(roce_icrc_check(&path, false, 0, captured[i].data,
						 captured[i].len),
				 ROCE_ICRC_GOOD_FOR_SOME_ID);
	}
}

/* Fields that a router or a congested switch may change. */
/* An RC FLUSH that soft RoCE of Linux 6.12 sent. */
static const uint8_t soft_flush[] = {
	0x1c, 0x00, 0xff, 0xff, 0x00, 0x43, 0x41, 0xed, 0x80, 0xff, 0xff, 0xf5,
	0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x7f, 0x6a, 0xc0, 0xe5, 0xd0, 0x10,
	0xd0, 0x00, 0x01, 0x17, 0x00, 0x00, 0x13, 0x88, 0xb5, 0x68, 0x83, 0x7f,
};

static void flush_of_soft_roce(void **state)
{
	struct net_path path = { .src_port = 57575, .dst_port = 4791 };
	const size_t len = sizeof(soft_flush);
	const uint16_t id = 0xf2da;
	uint8_t data[sizeof(soft_flush)];
	uint32_t icrc;

	ipv4_addr(&path.src, (uint8_t[]){ 10, 78, 0, 2 });
	ipv4_addr(&path.dst, (uint8_t[]){ 10, 78, 0, 1 });
	assert_int_equal(roce_icrc_check(&path, true, id, soft_flush, len), ROCE_ICRC_BAD);
	icrc = htole32(roce_icrc_soft_flush(&path, id, soft_flush, len - 4));
	assert_memory_equal(&icrc, soft_flush + len - 4, 4);
	assert_true(roce_icrc_is_soft_flush(&path, true, id, soft_flush, len));
	assert_true(roce_icrc_is_soft_flush(&path, false, 0, soft_flush, len));
	assert_false(roce_icrc_is_soft_flush(&path, true, id + 1, soft_flush, len));
	for (size_t i = 0; i < len; i++) {
		memcpy(data, soft_flush, len);
		data[i] ^= 1;
		assert_false(roce_icrc_is_soft_flush(&path, true, id, data, len));
	}
	assert_false(roce_icrc_is_soft_flush(&path, true, id, soft_flush, len - 4));
}

static void variant_fields_are_ignored(void **state)
{
	uint8_t data[64];

	random_start();
	for (int ipv4 = 0; ipv4 < 2; ipv4++) {
		struct net_path path = random_path(ipv4);
		size_t len;

		random_bytes(data, 40);
		len = add_icrc(&path, 7, data, 40);
		path.traffic_class ^= 0xff;
		path.hop_limit ^= 0xff;
		path.flow_label ^= 0xfffff;
		data[4] ^= 0xff;
		assert_int_equal(roce_icrc_check(&path, true, 7, data, len), ROCE_ICRC_GOOD);
	}
}

static void every_identification_is_found(void **state)
{
	struct net_path path = random_path(true);
	uint8_t data[64];

	random_bytes(data, 60);
	for (unsigned id = 0; id < 65536; id++) {
		size_t len = add_icrc(&path, (uint16_t)id, data, 28);

		assert_int_equal(roce_icrc_check(&path, false, 0, data, len),
				 ROCE_ICRC_GOOD_FOR_SOME_ID);
	}
}

static void identification_is_found_at_every_length(void **state)
{
	static uint8_t data[65536];
	struct net_path path;

	random_start();
	path = random_path(true);
	random_bytes(data, sizeof(data));
	for (size_t body = 12; body < 4200; body++) {
		size_t len = add_icrc(&path, (uint16_t)random_u64(), data, body);

		assert_int_equal(roce_icrc_check(&path, false, 0, data, len),
				 ROCE_ICRC_GOOD_FOR_SOME_ID);
	}
	for (int i = 0; i < 200; i++) {
		size_t len =
			add_icrc(&path, (uint16_t)random_u64(), data, 12 + random_below(65400));

		assert_int_equal(roce_icrc_check(&path, false, 0, data, len),
				 ROCE_ICRC_GOOD_FOR_SOME_ID);
	}
}

/* With IPv6 no field is unknown. */
static void ipv6_needs_no_identification(void **state)
{
	struct net_path path = random_path(false);
	uint8_t data[64];
	size_t len;

	random_bytes(data, 60);
	len = add_icrc(&path, 0, data, 28);
	assert_int_equal(roce_icrc_check(&path, false, 99, data, len), ROCE_ICRC_GOOD);
	data[20] ^= 1;
	assert_int_equal(roce_icrc_check(&path, false, 99, data, len), ROCE_ICRC_BAD);
}

static void every_changed_byte_is_caught(void **state)
{
	struct net_path path = random_path(true);
	uint8_t data[64];
	size_t len;

	random_bytes(data, 40);
	len = add_icrc(&path, 3, data, 40);
	for (size_t at = 0; at < len; at++) {
		for (unsigned flip = 1; at != 4 && flip < 256; flip++) {
			data[at] ^= flip;
			assert_int_equal(roce_icrc_check(&path, true, 3, data, len), ROCE_ICRC_BAD);
			data[at] ^= flip;
		}
	}
}

/*
 * Without the identification 16 bits of the check remain: of 2^16 random packets about one passes.
 */
static void random_packets_pass_once_in_65536(void **state)
{
	struct net_path path = random_path(true);
	unsigned passed = 0;
	uint8_t data[60];

	random_start();
	for (int i = 0; i < 65536; i++) {
		random_bytes(data, sizeof(data));
		passed += roce_icrc_check(&path, false, 0, data, sizeof(data)) != ROCE_ICRC_BAD;
	}
	assert_true(passed < 10);
}

static void impossible_lengths(void **state)
{
	static uint8_t data[65536];
	struct net_path path = random_path(true);

	assert_int_equal(roce_icrc_check(&path, false, 0, data, 0), ROCE_ICRC_BAD);
	assert_int_equal(roce_icrc_check(&path, true, 0, data, 15), ROCE_ICRC_BAD);
	assert_int_equal(roce_icrc_check(&path, false, 0, data, sizeof(data)), ROCE_ICRC_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_as_bit_by_bit),
		cmocka_unit_test(a_front_is_of_its_path_and_length),
		cmocka_unit_test(captured_packets),
		cmocka_unit_test(flush_of_soft_roce),
		cmocka_unit_test(variant_fields_are_ignored),
		cmocka_unit_test(every_identification_is_found),
		cmocka_unit_test(identification_is_found_at_every_length),
		cmocka_unit_test(ipv6_needs_no_identification),
		cmocka_unit_test(every_changed_byte_is_caught),
		cmocka_unit_test(random_packets_pass_once_in_65536),
		cmocka_unit_test(impossible_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
