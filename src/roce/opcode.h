/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties of each BTH opcode, from the table in opcode.def.
 *
 * All code uses the table; none extracts opcode bits or adds up header lengths.
 */
#ifndef VRB_ROCE_OPCODE_H
#define VRB_ROCE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* The BTH opcode byte: ROCE_RC_SEND_FIRST = 0x00 ... */
enum roce_opcode {
#define OP(code, service, operation, ...) ROCE_##service##_##operation = code,
#include "roce/opcode.def"
#undef OP
};

/* Bits 7..5 of the opcode. RD (010) is not implemented. */
enum roce_service {
	ROCE_SERVICE_RC = 0x00,
	ROCE_SERVICE_UC = 0x20,
	ROCE_SERVICE_UD = 0x60,
	ROCE_SERVICE_CNP = 0x80,
	ROCE_SERVICE_XRC = 0xa0,
	ROCE_SERVICE_MASK = 0xe0,
};

/* The kind of a packet, independent of its service and its place in the message. */
enum roce_kind {
	ROCE_KIND_NONE,		/* unknown opcode */
	ROCE_KIND_SEND,
	ROCE_KIND_WRITE,
	ROCE_KIND_READ,		/* the request */
	ROCE_KIND_READ_RESPONSE, /* also acknowledges FLUSH and ATOMIC WRITE, then empty */
	ROCE_KIND_ATOMIC,	/* compare & swap, fetch & add */
	ROCE_KIND_ATOMIC_ACK,
	ROCE_KIND_ACK,
	ROCE_KIND_FLUSH,
	ROCE_KIND_ATOMIC_WRITE,
	ROCE_KIND_CNP,
};

enum roce_direction {
	ROCE_DIRECTION_REQUEST,	 /* for the responder */
	ROCE_DIRECTION_RESPONSE, /* for the requester */
	ROCE_DIRECTION_NOTICE,	 /* for neither: congestion */
};

/* The place of a packet in its message. */
enum roce_place {
	ROCE_PLACE_FIRST,
	ROCE_PLACE_MIDDLE,
	ROCE_PLACE_LAST,
	ROCE_PLACE_ONLY,
};

/* Extended headers in the order in which they follow the BTH. */
enum roce_hdr {
	ROCE_HDR_XRCETH,	/*  4 bytes: SRQ number */
	ROCE_HDR_DETH,		/*  8 bytes: Q_Key, source QP */
	ROCE_HDR_FETH,		/*  4 bytes: placement and selectivity of a FLUSH */
	ROCE_HDR_RETH,		/* 16 bytes: VA, rkey, length */
	ROCE_HDR_ATOMICETH,	/* 28 bytes: VA, rkey, swap or add, compare */
	ROCE_HDR_AETH,		/*  4 bytes: syndrome, MSN */
	ROCE_HDR_ATOMICACKETH,	/*  8 bytes: original value */
	ROCE_HDR_IMMDT,		/*  4 bytes: immediate data */
	ROCE_HDR_IETH,		/*  4 bytes: rkey to invalidate */
	ROCE_HDR_COUNT,
};

/* A set of headers, with a type of its own so that it cannot be mistaken for a header. */
struct roce_hdr_set {
	uint16_t bits;
};

enum {
	ROCE_XRCETH_LEN = 4,
	ROCE_DETH_LEN = 8,
	ROCE_FETH_LEN = 4,
	ROCE_RETH_LEN = 16,
	ROCE_ATOMICETH_LEN = 28,
	ROCE_AETH_LEN = 4,
	ROCE_ATOMICACKETH_LEN = 8,
	ROCE_IMMDT_LEN = 4,
	ROCE_IETH_LEN = 4,
};

struct roce_opcode_info {
	const char *name;		/* "RC_SEND_FIRST"; NULL if the opcode is unknown */
	struct roce_hdr_set hdrs;
	uint16_t max_payload;		/* 0, 8 (ATOMIC WRITE), 16 (CNP) or ROCE_MAX_MTU */
	uint8_t hdr_len;		/* BTH and extended headers */
	uint8_t service;		/* enum roce_service */
	uint8_t kind;			/* enum roce_kind */
	uint8_t direction;		/* enum roce_direction */
	uint8_t place;			/* enum roce_place */
	/* consumes a receive WQE: SEND first/only, WRITE with immediate */
	bool takes_recv;
};

/* Indexed by the opcode byte; unknown opcodes have kind NONE and no name. */
extern const struct roce_opcode_info roce_opcodes[256];

static inline const struct roce_opcode_info *roce_opcode_info(uint8_t opcode)
{
	return &roce_opcodes[opcode];
}

static inline bool roce_has(const struct roce_opcode_info *op, enum roce_hdr hdr)
{
	return op->hdrs.bits >> hdr & 1;
}

/* Is it the first or only packet of its message? */
static inline bool roce_starts(const struct roce_opcode_info *op)
{
	return op->place == ROCE_PLACE_FIRST || op->place == ROCE_PLACE_ONLY;
}

/* Can packets of this kind form a run (pkt.h)? They have no header but the BTH. */
static inline bool roce_forms_runs(const struct roce_opcode_info *op)
{
	return op->place == ROCE_PLACE_MIDDLE && !op->hdrs.bits;
}

/* Is it the last or only packet of its message? */
static inline bool roce_ends(const struct roce_opcode_info *op)
{
	return op->place == ROCE_PLACE_LAST || op->place == ROCE_PLACE_ONLY;
}

static inline bool roce_is_request(const struct roce_opcode_info *op)
{
	return op->direction == ROCE_DIRECTION_REQUEST;
}

static inline bool roce_is_response(const struct roce_opcode_info *op)
{
	return op->direction == ROCE_DIRECTION_RESPONSE;
}

/*
 * Is it a request without a completion at this end, where the program may watch its memory instead?
 */
static inline bool roce_is_one_sided(const struct roce_opcode_info *op)
{
	return roce_is_request(op) && op->kind != ROCE_KIND_SEND && !op->takes_recv;
}

/*
 * May a QP of this type receive the packet at all? The service must be its own; an XRC request is
 * for an XRC_RECV QP and an XRC response for an XRC_SEND QP; any type receives a CNP.
 */
bool roce_opcode_accepted(const struct roce_opcode_info *op, enum ibv_qp_type type);

/*
 * Returns the BTH opcode of one request packet of a work request (enum ibv_wr_opcode, including
 * FLUSH and ATOMIC WRITE) that is the first and/or the last of its message. Immediate and
 * invalidate follow from the work request. Returns -1 if that type of QP has no such request, or if
 * the request must fit one packet but does not.
 */
int roce_request_opcode(enum ibv_qp_type type, uint32_t wr_opcode, bool first, bool last);

/*
 * Returns the opcode of a response (READ_RESPONSE_*, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE, given in its
 * RC form) for this type of QP.
 */
uint8_t roce_response_opcode(enum ibv_qp_type type, enum roce_opcode rc_opcode);

/* Returns the opcode of one packet of a READ response, in RC form. */
enum roce_opcode roce_read_response(bool first, bool last);

#endif
