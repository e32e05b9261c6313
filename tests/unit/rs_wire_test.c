/* SPDX-License-Identifier: BSD-2-Clause */
/* The wire format of rsockets, row by row: connection data, announcements, datagram headers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/rs_header.h"
#include "rsocket/rs_wire.h"
#include "util/compiler.h"

static const uint8_t conn_bytes[RS_CONN_LEN] = {
	1,    2,    0x01, 0x80,
	0,    0,    0,    0x81, /* version, flags, 384 credits, 256 mappings */
	0x11, 0x12, 0x13, 0x14,
	0x15, 0x16, 0x17, 0x18, /* announcements: address, */
	0x21, 0x22, 0x23, 0x24,
	0,    0,    0,    2, /* key, entries */
	0x31, 0x32, 0x33, 0x34,
	0x35, 0x36, 0x37, 0x38, /* ring */
	0x41, 0x42, 0x43, 0x44,
	0,    1,    0,    0,
};

static void connection(void **state)
{
	uint8_t again[RS_CONN_LEN];
	struct rs_conn c;

	assert_int_equal(rs_conn_decode(conn_bytes, sizeof(conn_bytes), &c), 0);
	assert_false(c.big_endian);
	assert_true(c.iomap);
	assert_int_equal(c.credits, 384);
	assert_int_equal(c.iomap_size, 256);
	assert_int_equal(c.sgl.addr, 0x1112131415161718);
	assert_int_equal(c.sgl.key, 0x21222324);
	assert_int_equal(c.sgl.length, 2);
	assert_int_equal(c.ring.addr, 0x3132333435363738);
	assert_int_equal(c.ring.key, 0x41424344);
	assert_int_equal(c.ring.length, 65536);
	rs_conn_encode(again, &c);
	assert_memory_equal(again, conn_bytes, sizeof(again));
}

static void bad_connection(void **state)
{
	uint8_t data[RS_CONN_LEN];
	struct rs_conn c;

	memcpy(data, conn_bytes, sizeof(data));
	for (size_t len = 1; len < RS_CONN_LEN; len++)
		assert_int_equal(rs_conn_decode(data, len, &c), EPROTO);
	assert_int_equal(rs_conn_decode(NULL, 0, &c), EPROTO);
	data[0] = 2;
	assert_int_equal(rs_conn_decode(data, sizeof(data), &c), ENOTSUP);
	data[0] = 1;
	data[23] = 0; /* no entries */
	assert_int_equal(rs_conn_decode(data, sizeof(data), &c), EPROTO);
}

static void scale(void **state)
{
	static const struct {
		uint32_t count, back;
	} row[] = {
		{ 0, 0 },           { 1, 1 },           { 128, 128 },           { 129, 128 },
		{ 255, 128 },       { 256, 256 },       { 511, 256 },           { 512, 512 },
		{ 0x7f00, 0x7f00 }, { 0x7fff, 0x7f00 }, { UINT32_MAX, 0x7f00 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(rs_unscale8(rs_scale8(row[i].count)), row[i].back);
}

static void announcements(void **state)
{
	static const uint8_t little[] = { 8, 7, 6, 5, 4, 3, 2, 1, 12, 11, 10, 9, 16, 15, 14, 13 };
	static const uint8_t big[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	const struct rs_region r = { 0x0102030405060708, 0x090a0b0c, 0x0d0e0f10 };
	const struct rs_mapping m = { 0x0102030405060708, r };
	uint8_t out[RS_IOMAP_LEN];
	struct rs_region back;

	rs_sge_encode(out, &r, false);
	assert_memory_equal(out, little, sizeof(little));
	rs_sge_encode(out, &r, true);
	assert_memory_equal(out, big, sizeof(big));
	rs_sge_decode(RS_BIG_ENDIAN ? big : little, &back);
	assert_memory_equal(&back, &r, sizeof(r));
	rs_mapping_encode(out, &m, true);
	assert_memory_equal(out, big, 8);
	assert_memory_equal(out + 8, big, 16);
}

static void immediate(void **state)
{
	assert_int_equal(rs_imm(RS_OP_DATA, 65536), 65536);
	assert_int_equal(rs_imm(RS_OP_SGL, 384), 0x80000180);
	assert_int_equal(rs_imm(RS_OP_CTRL, RS_CTRL_DISCONNECT), 0xe0000000);
	assert_int_equal(rs_imm_op(0xc0000003), RS_OP_IOMAP);
	assert_int_equal(rs_imm_arg(0xffffffff), 0x1fffffff);
}

static void udp_header(void **state)
{
	static const uint8_t v4[] = {
		0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 1, 2, 3, 10, 78, 0, 2
	};
	uint8_t out[RS_UDP_HEADER_MAX];
	struct rs_udp_header h;

	assert_int_equal(rs_udp_decode(v4, sizeof(v4), &h), 16);
	assert_int_equal(h.op, RS_UDP_DATA);
	assert_int_equal(h.qpn, 0x010203);
	assert_int_equal(rs_udp_encode(out, &h), 16);
	assert_memory_equal(out, v4, sizeof(v4));
	for (size_t len = 0; len < sizeof(v4); len++)
		assert_int_equal(rs_udp_decode(v4, len, &h), 0);
	for (size_t at = 0; at < 7; at++) {
		memcpy(out, v4, sizeof(v4));
		out[at] ^= 0x80;
		assert_int_equal(rs_udp_decode(out, sizeof(v4), &h), at == 5 ? 16 : 0);
	}
	h.from.version = 6;
	assert_int_equal(rs_udp_encode(out, &h), 28);
	assert_int_equal(rs_udp_decode(out, 28, &h), 28);
	assert_int_equal(rs_udp_decode(out, 27, &h), 0);
}

static void ud_header(void **state)
{
	static const uint8_t v4[] = { 4, 8, 0x1d, 0x2f, 10, 78, 0, 2 };
	uint8_t out[RS_UD_HEADER_MAX];
	struct rs_from from;

	assert_int_equal(rs_ud_decode(v4, sizeof(v4), &from), 8);
	assert_int_equal(from.port, 7471);
	assert_int_equal(rs_ud_encode(out, &from), 8);
	assert_memory_equal(out, v4, sizeof(v4));
	for (size_t len = 0; len < sizeof(v4); len++)
		assert_int_equal(rs_ud_decode(v4, len, &from), 0);
	from.version = 6;
	assert_int_equal(rs_ud_encode(out, &from), 24);
	assert_int_equal(rs_ud_decode(out, 24, &from), 24);
	assert_int_equal(rs_ud_decode(out, 23, &from), 0);
	out[0] = 5;
	assert_int_equal(rs_ud_decode(out, 24, &from), 0);
}

static void reset(void **state)
{
	uint8_t out[RS_RESET_LEN] = { 0 };
	uint64_t sent;

	assert_false(rs_reset_decode(out, &sent));
	rs_reset_encode(out, 0x123456789abcull);
	assert_true(rs_reset_decode(out, &sent));
	assert_true(sent == 0x123456789abcull);
	assert_int_equal(out[RS_RESET_LEN - 1], 0xbc);
	out[0] ^= 1;
	assert_false(rs_reset_decode(out, &sent));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connection), cmocka_unit_test(bad_connection),
		cmocka_unit_test(scale),      cmocka_unit_test(announcements),
		cmocka_unit_test(immediate),  cmocka_unit_test(udp_header),
		cmocka_unit_test(ud_header),  cmocka_unit_test(reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
