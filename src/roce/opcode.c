/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expands opcode.def into the lookup table and proves at compile time the properties that the rest
 * of the engine relies on.
 */
#include "roce/opcode.h"

#include "roce/const.h"
#include "roce/pkt.h"
#include "util/compiler.h"

/* The words in opcode.def's columns. */
enum hdr_bit {
	XRCETH = 1 << ROCE_HDR_XRCETH,
	DETH = 1 << ROCE_HDR_DETH,
	FETH = 1 << ROCE_HDR_FETH,
	RETH = 1 << ROCE_HDR_RETH,
	ATOMICETH = 1 << ROCE_HDR_ATOMICETH,
	AETH = 1 << ROCE_HDR_AETH,
	ATOMICACKETH = 1 << ROCE_HDR_ATOMICACKETH,
	IMMDT = 1 << ROCE_HDR_IMMDT,
	IETH = 1 << ROCE_HDR_IETH,
};

enum direction_of_kind {
	DIRECTION_SEND = ROCE_DIRECTION_REQUEST,
	DIRECTION_WRITE = ROCE_DIRECTION_REQUEST,
	DIRECTION_READ = ROCE_DIRECTION_REQUEST,
	DIRECTION_ATOMIC = ROCE_DIRECTION_REQUEST,
	DIRECTION_FLUSH = ROCE_DIRECTION_REQUEST,
	DIRECTION_ATOMIC_WRITE = ROCE_DIRECTION_REQUEST,
	DIRECTION_READ_RESPONSE = ROCE_DIRECTION_RESPONSE,
	DIRECTION_ATOMIC_ACK = ROCE_DIRECTION_RESPONSE,
	DIRECTION_ACK = ROCE_DIRECTION_RESPONSE,
	DIRECTION_CNP = ROCE_DIRECTION_NOTICE,
};

enum payload_limit {
	PAYLOAD_0 = 0,
	PAYLOAD_WORD = ROCE_ATOMIC_LEN,
	PAYLOAD_CNP = ROCE_CNP_RESERVED_LEN,
	PAYLOAD_MTU = ROCE_MAX_MTU,
};

enum recv_use {
	RECV_NONE = false,
	RECV_TAKES = true,
};

#define LEN_OF(set, hdr) ((set) & (hdr) ? ROCE_##hdr##_LEN : 0)
#define HDR_LEN(set)                                                                               \
	(ROCE_BTH_LEN + LEN_OF(set, XRCETH) + LEN_OF(set, DETH) + LEN_OF(set, FETH) +              \
	 LEN_OF(set, RETH) + LEN_OF(set, ATOMICETH) + LEN_OF(set, AETH) +                          \
	 LEN_OF(set, ATOMICACKETH) + LEN_OF(set, IMMDT) + LEN_OF(set, IETH))

#define OP(code_, service_, operation_, kind_, place_, headers_, payload_, recv_)                  \
	[code_] = {                                                                                \
		.name = #service_ "_" #operation_,                                                 \
		.hdrs = { headers_ },                                                              \
		.max_payload = PAYLOAD_##payload_,                                                 \
		.hdr_len = HDR_LEN(headers_),                                                      \
		.service = ROCE_SERVICE_##service_,                                                \
		.kind = ROCE_KIND_##kind_,                                                         \
		.direction = DIRECTION_##kind_,                                                    \
		.place = ROCE_PLACE_##place_,                                                      \
		.takes_recv = RECV_##recv_,                                                        \
	},
const struct roce_opcode_info roce_opcodes[256] = {
#include "roce/opcode.def"
};
#undef OP

/*
 * Headers fit the buffers and are a multiple of four bytes; the opcode's top bits are the service.
 */
#define OP(code_, service_, operation_, kind_, place_, headers_, payload_, recv_)                  \
	_Static_assert(HDR_LEN(headers_) <= ROCE_MAX_HDR, #operation_);                            \
	_Static_assert(HDR_LEN(headers_) % 4 == 0, #operation_);                                   \
	_Static_assert(((code_) & ROCE_SERVICE_MASK) == ROCE_SERVICE_##service_, #operation_);
#include "roce/opcode.def"
#undef OP

_Static_assert(ROCE_MAX_MTU + ROCE_MAX_HDR + ROCE_MAX_PAD + ROCE_ICRC_LEN <= ROCE_MAX_PACKET,
	       "packet buffer");

bool roce_opcode_accepted(const struct roce_opcode_info *op, enum ibv_qp_type type)
{
	if (op->kind == ROCE_KIND_NONE)
		return false;
	if (op->kind == ROCE_KIND_CNP)
		return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
		       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
	switch (type) {
	case IBV_QPT_RC:
		return op->service == ROCE_SERVICE_RC;
	case IBV_QPT_UC:
		return op->service == ROCE_SERVICE_UC;
	case IBV_QPT_UD:
		return op->service == ROCE_SERVICE_UD;
	case IBV_QPT_XRC_RECV:
		return op->service == ROCE_SERVICE_XRC && roce_is_request(op);
	case IBV_QPT_XRC_SEND:
		return op->service == ROCE_SERVICE_XRC && roce_is_response(op);
	default:
		return false;
	}
}

/* An opcode that does not exist on any service. */
#define NO 0x1f

/* For each work request, the operation (bits 4..0) of a packet by its place. */
static const uint8_t request_operations[][4] = {
	/*				  FIRST	MIDDLE	LAST	ONLY */
	[IBV_WR_SEND] =			{ 0x00, 0x01,	0x02,	0x04 },
	[IBV_WR_SEND_WITH_IMM] =	{ 0x00, 0x01,	0x03,	0x05 },
	[IBV_WR_SEND_WITH_INV] =	{ 0x00, 0x01,	0x16,	0x17 },
	[IBV_WR_RDMA_WRITE] =		{ 0x06, 0x07,	0x08,	0x0a },
	[IBV_WR_RDMA_WRITE_WITH_IMM] =	{ 0x06, 0x07,	0x09,	0x0b },
	[IBV_WR_RDMA_READ] =		{ NO,	NO,	NO,	0x0c },
	[IBV_WR_ATOMIC_CMP_AND_SWP] =	{ NO,	NO,	NO,	0x13 },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] =	{ NO,	NO,	NO,	0x14 },
	[IBV_WR_LOCAL_INV] =		{ NO,	NO,	NO,	NO },
	[IBV_WR_BIND_MW] =		{ NO,	NO,	NO,	NO },
	[IBV_WR_TSO] =			{ NO,	NO,	NO,	NO },
	[IBV_WR_DRIVER1] =		{ NO,	NO,	NO,	NO },
	[IBV_WR_FLUSH] =		{ NO,	NO,	NO,	0x1c },
	[IBV_WR_ATOMIC_WRITE] =		{ NO,	NO,	NO,	0x1d },
};

static int request_service(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return ROCE_SERVICE_RC;
	case IBV_QPT_UC:
		return ROCE_SERVICE_UC;
	case IBV_QPT_UD:
		return ROCE_SERVICE_UD;
	case IBV_QPT_XRC_SEND:
		return ROCE_SERVICE_XRC;
	default:
		return -1;
	}
}

static enum roce_place place_of(bool first, bool last)
{
	if (first)
		return last ? ROCE_PLACE_ONLY : ROCE_PLACE_FIRST;
	return last ? ROCE_PLACE_LAST : ROCE_PLACE_MIDDLE;
}

int roce_request_opcode(enum ibv_qp_type type, uint32_t wr_opcode, bool first, bool last)
{
	int service = request_service(type);
	int opcode;

	if (service < 0 || wr_opcode >= ARRAY_SIZE(request_operations))
		return -1;
	opcode = service | request_operations[wr_opcode][place_of(first, last)];
	return roce_opcodes[opcode].kind == ROCE_KIND_NONE ? -1 : opcode;
}

uint8_t roce_response_opcode(enum ibv_qp_type type, enum roce_opcode rc_opcode)
{
	return type == IBV_QPT_XRC_RECV ? ROCE_SERVICE_XRC | rc_opcode : rc_opcode;
}

enum roce_opcode roce_read_response(bool first, bool last)
{
	static const enum roce_opcode by_place[] = {
		[ROCE_PLACE_FIRST] = ROCE_RC_READ_RESPONSE_FIRST,
		[ROCE_PLACE_MIDDLE] = ROCE_RC_READ_RESPONSE_MIDDLE,
		[ROCE_PLACE_LAST] = ROCE_RC_READ_RESPONSE_LAST,
		[ROCE_PLACE_ONLY] = ROCE_RC_READ_RESPONSE_ONLY,
	};

	return by_place[place_of(first, last)];
}
