/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Constants of the specification under its names: IBTA volume 1 chapter 9 (transport), Annex A14
 * (XRC), A17 (RoCEv2), A19 (FLUSH and ATOMIC WRITE). Header lengths and opcodes are in opcode.h.
 */
#ifndef VRB_ROCE_CONST_H
#define VRB_ROCE_CONST_H

#include <stdbool.h>
#include <stdint.h>

#include "util/compiler.h"
#include "util/time.h"

/* QP numbers and keys with a special meaning. */
enum {
	ROCE_QP0 = 0,			/* subnet management; not used on Ethernet */
	ROCE_QP1 = 1,			/* general services (GSI): connection manager */
	ROCE_QPN_MULTICAST = 0xffffff,	/* destination of multicast (IBTA vol 1, 10.5) */
	ROCE_QPN_MASK = 0xffffff,
	ROCE_PSN_MASK = 0xffffff,
	ROCE_SRQN_MASK = 0xffffff,
	ROCE_PKEY_DEFAULT = 0xffff,
	ROCE_PKEY_FULL_MEMBER = 0x8000,
	ROCE_PKEY_BASE_MASK = 0x7fff,
};

#define ROCE_QKEY_GSI	     0x80010000u /* the Q_Key of QP1 */
#define ROCE_QKEY_CONTROLLED                                                                       \
	0x80000000u /* set in a work request's Q_Key: the QP's own Q_Key is sent instead */

/*
 * Two P_Keys match if their bases are equal and at least one is a full member; the invalid key 0
 * matches none.
 */
static inline bool roce_pkey_match(uint16_t a, uint16_t b)
{
	return (a & ROCE_PKEY_BASE_MASK) == (b & ROCE_PKEY_BASE_MASK) &&
	       (a & ROCE_PKEY_BASE_MASK) != 0 && ((a | b) & ROCE_PKEY_FULL_MEMBER) != 0;
}

/*
 * AETH syndrome.
 *
 *	 7   6 5   4 3 2 1 0
 *	+---+-----+-----------+
 *	| 0 |class|   value   |
 *	+---+-----+-----------+
 */
enum roce_aeth_class {
	ROCE_AETH_ACK = 0,	/* value: credit count code */
	ROCE_AETH_RNR_NAK = 1,	/* value: RNR timer code */
	ROCE_AETH_RESERVED = 2,
	ROCE_AETH_NAK = 3,	/* value: enum roce_nak_code */
};

enum roce_nak_code {
	ROCE_NAK_PSN_SEQUENCE_ERROR = 0,
	ROCE_NAK_INVALID_REQUEST = 1,
	ROCE_NAK_REMOTE_ACCESS_ERROR = 2,
	ROCE_NAK_REMOTE_OPERATIONAL_ERROR = 3,
	ROCE_NAK_INVALID_RD_REQUEST = 4,
};

static inline uint8_t roce_syndrome(enum roce_aeth_class class, uint8_t value)
{
	return (uint8_t)(class << 5 | (value & 0x1f));
}

/* A syndrome with the reserved top bit set belongs to the reserved class. */
static inline enum roce_aeth_class roce_syndrome_class(uint8_t syndrome)
{
	return syndrome & 0x80 ? ROCE_AETH_RESERVED : (enum roce_aeth_class)(syndrome >> 5);
}

static inline uint8_t roce_syndrome_value(uint8_t syndrome)
{
	return syndrome & 0x1f;
}

/*
 * Both 5-bit codes of the AETH encode members of one series, which doubles every two steps:
 *
 *	code	0  1  2  3  4  5  6   7   8   9 ...    29     30     31     32
 *	series	0  1  2  3  4  6  8  12  16  24 ... 24576  32768  49152  65536
 */
static inline uint32_t roce_half_steps(uint32_t code)
{
	return code < 4 ? code : (2 + (code & 1)) << (code / 2 - 1);
}

/* Credit count code 31: the responder reports no credits and does not limit the requester. */
#define ROCE_CREDITS_INVALID   31
#define ROCE_CREDITS_UNLIMITED UINT32_MAX

/* Credit code of an ACK syndrome -> number of receive WQEs. */
static inline uint32_t roce_credits(uint8_t code)
{
	return code >= ROCE_CREDITS_INVALID ? ROCE_CREDITS_UNLIMITED : roce_half_steps(code);
}

/* Number of receive WQEs -> the largest code that does not exceed it: its two leading bits. */
static inline uint8_t roce_credit_code(uint32_t credits)
{
	unsigned int log2;

	if (credits < 2)
		return credits;
	log2 = 31 - __builtin_clz(credits);
	return min(2 * log2 + (credits >> (log2 - 1) & 1), ROCE_CREDITS_INVALID - 1u);
}

/*
 * RNR NAK timer code (5 bits) -> nanoseconds: 1 is 0.01 ms, 31 is 491.52 ms, and 0 is the longest,
 * 655.36 ms.
 */
static inline uint64_t roce_rnr_timer_ns(uint8_t code)
{
	code &= 0x1f;
	return roce_half_steps(code == 0 ? 32 : code) * 10 * VRB_USEC;
}

/* Local ACK timeout code (5 bits) -> 4.096 us * 2^code; 0 disables the timer. */
static inline uint64_t roce_ack_timeout_ns(uint8_t code)
{
	code &= 0x1f;
	return code == 0 ? VRB_NEVER : 4096ull << code;
}

/* Retry counts have 3 bits; this RNR retry count means unlimited. */
#define ROCE_RNR_RETRY_INFINITE 7

/* FETH, Annex A19: placement type and selectivity of a FLUSH. */
enum roce_flush_placement {
	ROCE_FLUSH_GLOBAL = 1 << 0,
	ROCE_FLUSH_PERSISTENT = 1 << 1,
};

enum roce_flush_selectivity {
	ROCE_FLUSH_RANGE = 0,
	ROCE_FLUSH_REGION = 1,
};

/* ECN field of the IP traffic class, RFC 3168. */
enum roce_ecn {
	ROCE_ECN_MASK = 3,
	ROCE_ECN_NOT_ECT = 0,
	ROCE_ECN_ECT1 = 1,
	ROCE_ECN_ECT0 = 2,
	ROCE_ECN_CE = 3,
};

/* Congestion notification packet, A17.9.3: BTH with BECN, then reserved zero bytes. */
#define ROCE_CNP_RESERVED_LEN 16

/* Payload length of an ATOMIC WRITE: one 64-bit word. */
#define ROCE_ATOMIC_LEN 8

/* UD: length of the area for the network header at the start of a receive buffer. */
#define ROCE_GRH_LEN 40

#endif
