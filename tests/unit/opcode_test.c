/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table: code points and lengths as printed, its rules as invariants of all rows, and
 * the opcodes that requester and responder choose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "roce/opcode.h"
#include "roce/pkt.h"
#include "util/compiler.h"

#define WR_FLUSH 14

static const struct {
	uint8_t code;
	const char *name;
	uint8_t hdr_len;
	uint16_t max_payload;
} known[] = {
	{ 0x00, "RC_SEND_FIRST", 12, 4096 },
	{ 0x04, "RC_SEND_ONLY", 12, 4096 },
	{ 0x05, "RC_SEND_ONLY_WITH_IMMEDIATE", 16, 4096 },
	{ 0x06, "RC_WRITE_FIRST", 28, 4096 },
	{ 0x0b, "RC_WRITE_ONLY_WITH_IMMEDIATE", 32, 4096 },
	{ 0x0c, "RC_READ_REQUEST", 28, 0 },
	{ 0x0d, "RC_READ_RESPONSE_FIRST", 16, 4096 },
	{ 0x0e, "RC_READ_RESPONSE_MIDDLE", 12, 4096 },
	{ 0x11, "RC_ACKNOWLEDGE", 16, 0 },
	{ 0x12, "RC_ATOMIC_ACKNOWLEDGE", 24, 0 },
	{ 0x13, "RC_COMPARE_SWAP", 40, 0 },
	{ 0x14, "RC_FETCH_ADD", 40, 0 },
	{ 0x17, "RC_SEND_ONLY_WITH_INVALIDATE", 16, 4096 },
	{ 0x1c, "RC_FLUSH", 32, 0 },
	{ 0x1d, "RC_ATOMIC_WRITE", 28, 8 },
	{ 0x24, "UC_SEND_ONLY", 12, 4096 },
	{ 0x2b, "UC_WRITE_ONLY_WITH_IMMEDIATE", 32, 4096 },
	{ 0x64, "UD_SEND_ONLY", 20, 4096 },
	{ 0x65, "UD_SEND_ONLY_WITH_IMMEDIATE", 24, 4096 },
	{ 0x81, "CNP_NOTIFICATION", 12, 16 },
	{ 0xa1, "XRC_SEND_MIDDLE", 16, 4096 },
	{ 0xab, "XRC_WRITE_ONLY_WITH_IMMEDIATE", 36, 4096 },
	{ 0xae, "XRC_READ_RESPONSE_MIDDLE", 12, 4096 },
	{ 0xb1, "XRC_ACKNOWLEDGE", 16, 0 },
	{ 0xb4, "XRC_FETCH_ADD", 44, 0 },
	{ 0xb7, "XRC_SEND_ONLY_WITH_INVALIDATE", 20, 4096 },
	{ 0xbc, "XRC_FLUSH", 36, 0 },
};

static void code_points_and_lengths(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const struct roce_opcode_info *op = roce_opcode_info(known[i].code);

		assert_string_equal(op->name, known[i].name);
		assert_int_equal(op->hdr_len, known[i].hdr_len);
		assert_int_equal(op->max_payload, known[i].max_payload);
	}
}

static void unknown_codes_have_no_row(void **state)
{
	static const uint8_t unknown[] = { 0x15, 0x18, 0x1f, 0x2c, 0x31, 0x36, 0x3c, 0x40, 0x44,
					   0x60, 0x66, 0x80, 0x82, 0xb5, 0xb8, 0xc0, 0xe0, 0xff };
	unsigned rows = 0;

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		assert_null(roce_opcode_info(unknown[i])->name);
		assert_int_equal(roce_opcode_info(unknown[i])->kind, ROCE_KIND_NONE);
	}
	for (unsigned code = 0; code < 256; code++)
		rows += roce_opcode_info((uint8_t)code)->kind != ROCE_KIND_NONE;
	assert_int_equal(rows, 25 + 12 + 2 + 1 + 25);
}

static bool name_has(const struct roce_opcode_info *op, const char *word)
{
	return strstr(op->name, word) != NULL;
}

static void check_row(const struct roce_opcode_info *op)
{
	bool request = roce_is_request(op);

	assert_int_equal(roce_has(op, ROCE_HDR_IMMDT), name_has(op, "IMMEDIATE"));
	assert_int_equal(roce_has(op, ROCE_HDR_IETH), name_has(op, "INVALIDATE"));
	assert_int_equal(roce_has(op, ROCE_HDR_DETH), op->service == ROCE_SERVICE_UD);
	assert_int_equal(roce_has(op, ROCE_HDR_XRCETH), op->service == ROCE_SERVICE_XRC && request);
	assert_int_equal(roce_has(op, ROCE_HDR_FETH), op->kind == ROCE_KIND_FLUSH);
	assert_int_equal(roce_has(op, ROCE_HDR_ATOMICETH), op->kind == ROCE_KIND_ATOMIC);
	assert_int_equal(roce_has(op, ROCE_HDR_ATOMICACKETH), op->kind == ROCE_KIND_ATOMIC_ACK);
	assert_int_equal(roce_has(op, ROCE_HDR_AETH),
			 roce_is_response(op) && op->place != ROCE_PLACE_MIDDLE);
	assert_int_equal(roce_starts(op), name_has(op, "FIRST") || op->place == ROCE_PLACE_ONLY);
	assert_int_equal(roce_ends(op), name_has(op, "LAST") || op->place == ROCE_PLACE_ONLY);
	assert_int_equal(op->place == ROCE_PLACE_MIDDLE, name_has(op, "MIDDLE"));
	if (op->kind == ROCE_KIND_SEND)
		assert_int_equal(op->takes_recv, roce_starts(op));
	else
		assert_int_equal(op->takes_recv, roce_has(op, ROCE_HDR_IMMDT));
	if (op->kind == ROCE_KIND_WRITE)
		assert_int_equal(roce_has(op, ROCE_HDR_RETH), roce_starts(op));
	assert_true(op->hdr_len >= ROCE_BTH_LEN && op->hdr_len <= ROCE_MAX_HDR);
}

static void rows_obey_the_rules(void **state)
{
	for (unsigned code = 0; code < 256; code++) {
		const struct roce_opcode_info *op = roce_opcode_info((uint8_t)code);

		if (op->kind != ROCE_KIND_NONE)
			check_row(op);
	}
}

/* An XRC operation is the RC one with an XRCETH on requests. */
static void xrc_mirrors_rc(void **state)
{
	for (unsigned code = 0; code < 32; code++) {
		const struct roce_opcode_info *rc = roce_opcode_info((uint8_t)code);
		const struct roce_opcode_info *xrc = roce_opcode_info((uint8_t)(0xa0 | code));

		assert_int_equal(rc->kind, xrc->kind);
		if (rc->kind == ROCE_KIND_NONE)
			continue;
		assert_int_equal(rc->place, xrc->place);
		assert_int_equal(rc->takes_recv, xrc->takes_recv);
		assert_int_equal(rc->max_payload, xrc->max_payload);
		assert_int_equal(rc->hdrs.bits | (roce_is_request(rc) ? 1 << ROCE_HDR_XRCETH : 0),
				 xrc->hdrs.bits);
		assert_string_equal(strchr(rc->name, '_'), strchr(xrc->name, '_'));
	}
}

static const struct {
	uint8_t code;
	bool rc, uc, ud, xrc_send, xrc_recv;
} accepted[] = {
	{ ROCE_RC_SEND_ONLY, true, false, false, false, false },
	{ ROCE_RC_ACKNOWLEDGE, true, false, false, false, false },
	{ ROCE_UC_SEND_ONLY, false, true, false, false, false },
	{ ROCE_UD_SEND_ONLY, false, false, true, false, false },
	{ ROCE_XRC_SEND_ONLY, false, false, false, false, true },
	{ ROCE_XRC_ACKNOWLEDGE, false, false, false, true, false },
	{ ROCE_CNP_NOTIFICATION, true, true, true, true, true },
	{ 0x15, false, false, false, false, false },
};

static void services_reach_their_own_queue_pairs(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		const struct roce_opcode_info *op = roce_opcode_info(accepted[i].code);

		assert_int_equal(roce_opcode_accepted(op, IBV_QPT_RC), accepted[i].rc);
		assert_int_equal(roce_opcode_accepted(op, IBV_QPT_UC), accepted[i].uc);
		assert_int_equal(roce_opcode_accepted(op, IBV_QPT_UD), accepted[i].ud);
		assert_int_equal(roce_opcode_accepted(op, IBV_QPT_XRC_SEND), accepted[i].xrc_send);
		assert_int_equal(roce_opcode_accepted(op, IBV_QPT_XRC_RECV), accepted[i].xrc_recv);
		assert_false(roce_opcode_accepted(op, IBV_QPT_RAW_PACKET));
	}
}

static const struct {
	enum ibv_qp_type type;
	uint32_t wr;
	int first, middle, last, only;
} requests[] = {
	{ IBV_QPT_RC, IBV_WR_SEND, 0x00, 0x01, 0x02, 0x04 },
	{ IBV_QPT_RC, IBV_WR_SEND_WITH_IMM, 0x00, 0x01, 0x03, 0x05 },
	{ IBV_QPT_RC, IBV_WR_SEND_WITH_INV, 0x00, 0x01, 0x16, 0x17 },
	{ IBV_QPT_RC, IBV_WR_RDMA_WRITE, 0x06, 0x07, 0x08, 0x0a },
	{ IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 0x06, 0x07, 0x09, 0x0b },
	{ IBV_QPT_RC, IBV_WR_RDMA_READ, -1, -1, -1, 0x0c },
	{ IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, -1, -1, -1, 0x13 },
	{ IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, -1, -1, -1, 0x14 },
	{ IBV_QPT_RC, WR_FLUSH, -1, -1, -1, 0x1c },
	{ IBV_QPT_RC, IBV_WR_ATOMIC_WRITE, -1, -1, -1, 0x1d },
	{ IBV_QPT_RC, IBV_WR_LOCAL_INV, -1, -1, -1, -1 },
	{ IBV_QPT_RC, IBV_WR_BIND_MW, -1, -1, -1, -1 },
	{ IBV_QPT_RC, IBV_WR_TSO, -1, -1, -1, -1 },
	{ IBV_QPT_RC, 16, -1, -1, -1, -1 },
	{ IBV_QPT_RC, UINT32_MAX, -1, -1, -1, -1 },
	{ IBV_QPT_UC, IBV_WR_SEND, 0x20, 0x21, 0x22, 0x24 },
	{ IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM, 0x26, 0x27, 0x29, 0x2b },
	{ IBV_QPT_UC, IBV_WR_RDMA_READ, -1, -1, -1, -1 },
	{ IBV_QPT_UC, IBV_WR_ATOMIC_FETCH_AND_ADD, -1, -1, -1, -1 },
	{ IBV_QPT_UD, IBV_WR_SEND, -1, -1, -1, 0x64 },
	{ IBV_QPT_UD, IBV_WR_SEND_WITH_IMM, -1, -1, -1, 0x65 },
	{ IBV_QPT_UD, IBV_WR_SEND_WITH_INV, -1, -1, -1, -1 },
	{ IBV_QPT_UD, IBV_WR_RDMA_WRITE, -1, -1, -1, -1 },
	{ IBV_QPT_XRC_SEND, IBV_WR_SEND_WITH_IMM, 0xa0, 0xa1, 0xa3, 0xa5 },
	{ IBV_QPT_XRC_SEND, IBV_WR_RDMA_READ, -1, -1, -1, 0xac },
	{ IBV_QPT_XRC_SEND, WR_FLUSH, -1, -1, -1, 0xbc },
	{ IBV_QPT_XRC_RECV, IBV_WR_SEND, -1, -1, -1, -1 },
	{ IBV_QPT_RAW_PACKET, IBV_WR_SEND, -1, -1, -1, -1 },
};

static void requester_chooses(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		enum ibv_qp_type type = requests[i].type;
		uint32_t wr = requests[i].wr;

		assert_int_equal(roce_request_opcode(type, wr, true, false), requests[i].first);
		assert_int_equal(roce_request_opcode(type, wr, false, false), requests[i].middle);
		assert_int_equal(roce_request_opcode(type, wr, false, true), requests[i].last);
		assert_int_equal(roce_request_opcode(type, wr, true, true), requests[i].only);
	}
}

static void responder_chooses(void **state)
{
	assert_int_equal(roce_read_response(true, false), 0x0d);
	assert_int_equal(roce_read_response(false, false), 0x0e);
	assert_int_equal(roce_read_response(false, true), 0x0f);
	assert_int_equal(roce_read_response(true, true), 0x10);
	assert_int_equal(roce_response_opcode(IBV_QPT_RC, ROCE_RC_ACKNOWLEDGE), 0x11);
	assert_int_equal(roce_response_opcode(IBV_QPT_XRC_RECV, ROCE_RC_ACKNOWLEDGE), 0xb1);
	assert_int_equal(roce_response_opcode(IBV_QPT_XRC_RECV, roce_read_response(true, true)),
			 0xb0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_points_and_lengths),
		cmocka_unit_test(unknown_codes_have_no_row),
		cmocka_unit_test(rows_obey_the_rules),
		cmocka_unit_test(xrc_mirrors_rc),
		cmocka_unit_test(services_reach_their_own_queue_pairs),
		cmocka_unit_test(requester_chooses),
		cmocka_unit_test(responder_chooses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
