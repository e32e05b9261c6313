/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decoder and encoder against an oracle that describes headers as bit positions only, every
 * truncation of every opcode's packet, and length limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "roce/opcode.h"
#include "roce/pkt.h"
#include "unit/random.h"
#include "util/compiler.h"

#define BTH	      ROCE_HDR_COUNT
#define FIELD(member) offsetof(struct roce_pkt, member), sizeof(((struct roce_pkt *)0)->member)

/*
 * The position of each field in its header (first bit, bits) and in struct roce_pkt. Bits without a
 * row are reserved.
 */
static const struct field {
	int hdr;
	unsigned bit, width;
	size_t offset, size;
} fields[] = {
	{ BTH, 0, 8, FIELD(bth.opcode) },
	{ BTH, 8, 1, FIELD(bth.solicited) },
	{ BTH, 9, 1, FIELD(bth.mig_req) },
	{ BTH, 10, 2, FIELD(bth.pad) },
	{ BTH, 12, 4, FIELD(bth.version) },
	{ BTH, 16, 16, FIELD(bth.pkey) },
	{ BTH, 32, 1, FIELD(bth.fecn) },
	{ BTH, 33, 1, FIELD(bth.becn) },
	{ BTH, 40, 24, FIELD(bth.dest_qpn) },
	{ BTH, 64, 1, FIELD(bth.ack_req) },
	{ BTH, 72, 24, FIELD(bth.psn) },
	{ ROCE_HDR_XRCETH, 8, 24, FIELD(xrc_srqn) },
	{ ROCE_HDR_DETH, 0, 32, FIELD(deth.qkey) },
	{ ROCE_HDR_DETH, 40, 24, FIELD(deth.src_qpn) },
	{ ROCE_HDR_FETH, 26, 2, FIELD(feth.selectivity) },
	{ ROCE_HDR_FETH, 28, 4, FIELD(feth.placement) },
	{ ROCE_HDR_RETH, 0, 64, FIELD(reth.va) },
	{ ROCE_HDR_RETH, 64, 32, FIELD(reth.rkey) },
	{ ROCE_HDR_RETH, 96, 32, FIELD(reth.len) },
	{ ROCE_HDR_ATOMICETH, 0, 64, FIELD(atomic.va) },
	{ ROCE_HDR_ATOMICETH, 64, 32, FIELD(atomic.rkey) },
	{ ROCE_HDR_ATOMICETH, 96, 64, FIELD(atomic.swap_add) },
	{ ROCE_HDR_ATOMICETH, 160, 64, FIELD(atomic.compare) },
	{ ROCE_HDR_AETH, 0, 8, FIELD(aeth.syndrome) },
	{ ROCE_HDR_AETH, 8, 24, FIELD(aeth.msn) },
	{ ROCE_HDR_ATOMICACKETH, 0, 64, FIELD(atomic_ack) },
	{ ROCE_HDR_IMMDT, 0, 32, FIELD(imm) },
	{ ROCE_HDR_IETH, 0, 32, FIELD(ieth_rkey) },
};

static const unsigned hdr_len[] = {
	[ROCE_HDR_XRCETH] = 4,	  [ROCE_HDR_DETH] = 8,	       [ROCE_HDR_FETH] = 4,
	[ROCE_HDR_RETH] = 16,	  [ROCE_HDR_ATOMICETH] = 28,   [ROCE_HDR_AETH] = 4,
	[ROCE_HDR_ATOMICACKETH] = 8, [ROCE_HDR_IMMDT] = 4,     [ROCE_HDR_IETH] = 4,
};

/* The offset of a header in a packet of this opcode; -1 if there is none. */
static int hdr_start(const struct roce_opcode_info *op, int hdr)
{
	int at = 12;

	if (hdr == BTH)
		return 0;
	if (!roce_has(op, (enum roce_hdr)hdr))
		return -1;
	for (int h = 0; h < hdr; h++)
		if (roce_has(op, (enum roce_hdr)h))
			at += (int)hdr_len[h];
	return at;
}

static uint64_t get_bits(const uint8_t *data, size_t bit, unsigned width)
{
	uint64_t v = 0;

	for (; width > 0; bit++, width--)
		v = v << 1 | (data[bit / 8] >> (7 - bit % 8) & 1);
	return v;
}

static uint64_t member(const struct roce_pkt *pkt, const struct field *f)
{
	const void *p = (const uint8_t *)pkt + f->offset;

	if (f->hdr == ROCE_HDR_IMMDT)
		return get_bits(p, 0, 32);	/* kept in wire order */
	switch (f->size) {
	case 1:
		return *(const uint8_t *)p;
	case 2:
		return *(const uint16_t *)p;
	case 4:
		return *(const uint32_t *)p;
	default:
		assert_int_equal(f->size, 8);
		return *(const uint64_t *)p;
	}
}

/* Sets the bits that belong to a field in the headers of this opcode. */
static void covered_bits(const struct roce_opcode_info *op, uint8_t *mask)
{
	memset(mask, 0, ROCE_MAX_HDR);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int start = hdr_start(op, fields[i].hdr);

		for (unsigned b = 0; start >= 0 && b < fields[i].width; b++) {
			size_t bit = (size_t)start * 8 + fields[i].bit + b;

			mask[bit / 8] |= 0x80 >> bit % 8;
		}
	}
}

/*
 * Random bytes in a valid shape: `payload` bytes, correct pad count, version 0. Returns the length.
 */
static size_t random_packet(uint8_t *data, uint8_t opcode, size_t payload)
{
	uint8_t pad = -payload & 3;
	size_t len = roce_opcode_info(opcode)->hdr_len + payload + pad + ROCE_ICRC_LEN;

	random_bytes(data, len);
	data[0] = opcode;
	data[1] = (data[1] & 0xc0) | pad << 4;
	return len;
}

static void check_fields(const struct roce_pkt *pkt, const struct roce_opcode_info *op,
			 const uint8_t *data)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];
		int start = hdr_start(op, f->hdr);
		uint64_t want = 0;

		if (start >= 0)
			want = get_bits(data, (size_t)start * 8 + f->bit, f->width);
		if (member(pkt, f) != want)
			fail_msg("%s: field %zu is wrong", op->name, i);
	}
}

static void check_encoding(const struct roce_pkt *pkt, const struct roce_opcode_info *op,
			   const uint8_t *data)
{
	uint8_t out[ROCE_MAX_HDR], mask[ROCE_MAX_HDR];

	memset(out, 0xa5, sizeof(out));
	assert_int_equal(roce_encode_headers(out, pkt), op->hdr_len);
	covered_bits(op, mask);
	for (size_t i = 0; i < op->hdr_len; i++)
		if (out[i] != (data[i] & mask[i]))
			fail_msg("%s: byte %zu is 0x%02x, not 0x%02x", op->name, i, out[i],
				 data[i] & mask[i]);
	for (size_t i = op->hdr_len; i < sizeof(out); i++)
		assert_int_equal(out[i], 0xa5);
}

static size_t some_payload(const struct roce_opcode_info *op)
{
	return op->max_payload ? random_below(op->max_payload + 1u) : 0;
}

static void for_each_opcode(void (*check)(uint8_t code, const struct roce_opcode_info *op))
{
	for (unsigned code = 0; code < 256; code++)
		if (roce_opcode_info((uint8_t)code)->kind != ROCE_KIND_NONE)
			check((uint8_t)code, roce_opcode_info((uint8_t)code));
}

static void check_round_trip(uint8_t code, const struct roce_opcode_info *op)
{
	static uint8_t data[ROCE_MAX_PACKET];

	for (int i = 0; i < 200; i++) {
		size_t payload = some_payload(op);
		size_t len = random_packet(data, code, payload);
		struct roce_pkt pkt;

		memset(&pkt, 0xa5, sizeof(pkt));
		assert_int_equal(roce_decode(&pkt, data, len), ROCE_DECODED);
		check_fields(&pkt, op, data);
		assert_ptr_equal(pkt.payload, data + op->hdr_len);
		assert_int_equal(pkt.payload_len, payload);
		assert_int_equal(pkt.path.src_port, 0xa5a5);
		assert_int_equal(roce_dest_qpn(data), pkt.bth.dest_qpn);
		check_encoding(&pkt, op, data);
	}
}

static void round_trip_against_the_oracle(void **state)
{
	random_start();
	for_each_opcode(check_round_trip);
}

/* The buffer ends where the packet is truncated, so that a sanitizer reports a read beyond. */
static void check_cut(const uint8_t *data, size_t cut, size_t least)
{
	uint8_t *copy = malloc(cut ? cut : 1);
	struct roce_pkt pkt;
	enum roce_drop drop;

	memcpy(copy, data, cut);
	drop = roce_decode(&pkt, copy, cut);
	assert_int_equal(drop, cut < least || cut % 4 != 0 ? ROCE_DROP_SHORT : ROCE_DECODED);
	if (drop == ROCE_DECODED)
		assert_int_equal(pkt.payload - copy + pkt.payload_len + pkt.bth.pad + ROCE_ICRC_LEN,
				 cut);
	free(copy);
}

static void check_truncations(uint8_t code, const struct roce_opcode_info *op)
{
	static uint8_t data[ROCE_MAX_PACKET];

	for (size_t payload = 0; payload <= min(op->max_payload, 9u); payload++) {
		size_t len = random_packet(data, code, payload);
		size_t least = op->hdr_len + (-payload & 3) + ROCE_ICRC_LEN;

		for (size_t cut = 0; cut <= len; cut++)
			check_cut(data, cut, least);
	}
}

static void every_truncation(void **state)
{
	random_start();
	for_each_opcode(check_truncations);
}

static void check_payload_limit(uint8_t code, const struct roce_opcode_info *op)
{
	static uint8_t data[ROCE_MAX_PACKET + 8];
	struct roce_pkt pkt;
	size_t len = random_packet(data, code, op->max_payload);

	assert_int_equal(roce_decode(&pkt, data, len), ROCE_DECODED);
	assert_int_equal(pkt.payload_len, op->max_payload);
	for (uint8_t pad = 0; pad < 4; pad++) {
		data[1] = (data[1] & 0xc0) | pad << 4;
		assert_int_equal(roce_decode(&pkt, data, len + 4), ROCE_DROP_LONG);
	}
}

static void payload_limits(void **state)
{
	random_start();
	for_each_opcode(check_payload_limit);
}

static void other_versions_are_dropped(void **state)
{
	uint8_t data[ROCE_MAX_PACKET];
	size_t len = random_packet(data, ROCE_RC_SEND_ONLY, 8);
	struct roce_pkt pkt;

	for (uint8_t version = 1; version < 16; version++) {
		data[1] = version;
		assert_int_equal(roce_decode(&pkt, data, len), ROCE_DROP_VERSION);
	}
}

static void unknown_opcodes_are_dropped(void **state)
{
	uint8_t data[ROCE_MAX_PACKET] = { 0 };
	struct roce_pkt pkt;

	for (unsigned code = 0; code < 256; code++) {
		data[0] = (uint8_t)code;
		if (roce_opcode_info(data[0])->kind == ROCE_KIND_NONE)
			assert_int_equal(roce_decode(&pkt, data, 64), ROCE_DROP_OPCODE);
	}
}

/* A published example of a NIC's CNP (A17.9.3): BTH with BECN, sixteen reserved bytes, ICRC. */
static void congestion_notification_of_a_nic(void **state)
{
	static const uint8_t cnp[32] = { 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00, 0xd2,
					 [28] = 0xe4, 0x2d, 0xad, 0x81 };
	uint8_t out[ROCE_MAX_HDR];
	struct roce_pkt pkt;

	assert_int_equal(roce_decode(&pkt, cnp, sizeof(cnp)), ROCE_DECODED);
	assert_true(pkt.bth.becn);
	assert_false(pkt.bth.fecn);
	assert_int_equal(pkt.bth.dest_qpn, 0xd2);
	assert_int_equal(pkt.payload_len, 16);
	assert_int_equal(roce_encode_headers(out, &pkt), 12);
	assert_memory_equal(out, cnp, 12);
}

/* Values that are too wide do not change neighbouring fields. */
static void values_are_cut_to_their_fields(void **state)
{
	struct roce_pkt pkt = {
		.bth = { .opcode = ROCE_XRC_FLUSH, .pad = 0xff, .version = 0xf0, .psn = 0xff000001,
			 .dest_qpn = 0xff000002 },
		.feth = { .placement = 0xff, .selectivity = 0xff },
		.xrc_srqn = 0xff000003,
	};
	static const uint8_t want[] = { 0xbc, 0x30, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1,
					0,    0,    0, 3, 0, 0, 0, 0x3f };
	uint8_t out[ROCE_MAX_HDR];

	assert_int_equal(roce_encode_headers(out, &pkt), 36);
	assert_memory_equal(out, want, sizeof(want));
}

/* Changes to the second of two packets: does it still continue the run of the first? */
static void packets_that_continue_a_run(void **state)
{
	enum { LEN = 12 + 256 + 4 };
	static const struct {
		uint8_t opcode;		/* of both */
		bool ack_req;		/* of the first */
		size_t at;		/* byte of the second, */
		uint8_t flip;		/* bits of it */
		bool continues;
	} rows[] = {
		{ ROCE_RC_WRITE_MIDDLE, false, 0, 0, true },
		{ ROCE_RC_SEND_MIDDLE, false, 0, 0, true },
		{ ROCE_RC_READ_RESPONSE_MIDDLE, false, 0, 0, true },
		{ ROCE_RC_WRITE_MIDDLE, true, 0, 0, true },
		{ ROCE_RC_WRITE_LAST, false, 0, 0, false },
		{ ROCE_RC_SEND_ONLY, false, 0, 0, false },
		{ ROCE_XRC_WRITE_MIDDLE, false, 0, 0, false },	/* has an XRCETH */
		{ ROCE_RC_WRITE_MIDDLE, false, 0, 1, false },	/* another opcode: LAST */
		{ ROCE_RC_WRITE_MIDDLE, false, 1, 0x80, false },
		{ ROCE_RC_WRITE_MIDDLE, false, 1, 0x40, false },
		{ ROCE_RC_WRITE_MIDDLE, false, 2, 1, false },	/* P_Key */
		{ ROCE_RC_WRITE_MIDDLE, false, 4, 0x80, false }, /* FECN */
		{ ROCE_RC_WRITE_MIDDLE, false, 7, 1, false },	/* another QP */
		{ ROCE_RC_WRITE_MIDDLE, false, 8, 0x80, true },	/* requests an ACK */
		{ ROCE_RC_WRITE_MIDDLE, false, 8, 0x01, true },	/* reserved */
		{ ROCE_RC_WRITE_MIDDLE, false, 9, 1, false },	/* a gap */
		{ ROCE_RC_WRITE_MIDDLE, false, 11, 1, false },
		{ ROCE_RC_WRITE_MIDDLE, false, 12, 1, true },	/* payload */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct roce_pkt run, pkt = { .bth = { .opcode = rows[i].opcode, .pkey = 0xffff,
						      .ack_req = rows[i].ack_req,
						      .dest_qpn = 0x123456, .psn = 0xffffff } };
		bool asks = rows[i].ack_req || (rows[i].at == 8 && rows[i].flip == 0x80);
		uint8_t data[3 * LEN] = { 0 };

		roce_encode_headers(data, &pkt);
		pkt.bth.ack_req = false;
		pkt.bth.psn = 0;	/* it wraps */
		roce_encode_headers(data + LEN, &pkt);
		pkt.bth.psn = 1;
		roce_encode_headers(data + 2 * LEN, &pkt);
		data[LEN + rows[i].at] ^= rows[i].flip;
		assert_int_equal(roce_decode(&run, data, LEN), ROCE_DECODED);
		assert_int_equal(roce_run_continues(&run, data, data + LEN), rows[i].continues);
		if (!rows[i].continues)
			continue;
		roce_run_add(&run, data + LEN, LEN);
		assert_int_equal(run.more, 1);
		assert_ptr_equal(roce_run_payload(&run, 1), data + LEN + 12);
		assert_int_equal(run.bth.ack_req, asks);
		assert_true(roce_run_continues(&run, data, data + 2 * LEN));
		roce_run_add(&run, data + 2 * LEN, LEN);
		assert_int_equal(run.bth.ack_req, asks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_that_continue_a_run),
		cmocka_unit_test(round_trip_against_the_oracle),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(payload_limits),
		cmocka_unit_test(other_versions_are_dropped),
		cmocka_unit_test(unknown_opcodes_are_dropped),
		cmocka_unit_test(congestion_notification_of_a_nic),
		cmocka_unit_test(values_are_cut_to_their_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
