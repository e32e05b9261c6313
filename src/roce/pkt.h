/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A RoCE packet in host order, the result of decoding and the input of encoding. No other code
 * accesses header bytes, but icrc.c and the socket filters of src/wire. "The packet" is everything
 * after the UDP header: BTH, extended headers, payload, pad, ICRC.
 */
#ifndef VRB_ROCE_PKT_H
#define VRB_ROCE_PKT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

enum {
	ROCE_MIN_MTU = 256,
	ROCE_MAX_MTU = 4096,
	ROCE_BTH_LEN = 12,
	/* of all extended headers of a packet: an upper bound, static-asserted in opcode.c */
	ROCE_MAX_EXTENDED = 40,
	ROCE_MAX_HDR = ROCE_BTH_LEN + ROCE_MAX_EXTENDED,
	ROCE_MAX_PAD = 3,
	ROCE_ICRC_LEN = 4,
	/* size of a buffer for any packet */
	ROCE_MAX_PACKET = ROCE_MAX_HDR + ROCE_MAX_MTU + ROCE_MAX_PAD + ROCE_ICRC_LEN + 40,
};

/* Base Transport Header, IBTA 9.2. */
struct roce_bth {
	uint8_t opcode;
	bool solicited;
	bool mig_req;
	uint8_t pad;		/* 0..3 */
	uint8_t version;	/* 0 */
	uint16_t pkey;
	bool fecn;		/* Annex A17 */
	bool becn;
	uint32_t dest_qpn;	/* 24 bits */
	bool ack_req;
	uint32_t psn;		/* 24 bits */
};

struct wq_pull;

/*
 * An ACK that travels with a request of its QP instead of before it: the part that the request does
 * not carry itself. Only lanes can carry one, not the network (docs/SHM.md).
 */
struct roce_piggyback_ack {
	bool allowed;		/* set by the caller of roce_output_with() */
	bool any;
	uint8_t syndrome;
	uint32_t psn, msn;	/* 24 bits */
};

/*
 * A decoded packet. Header fields are valid where the opcode carries the header (enum roce_hdr in
 * opcode.h).
 */
struct roce_pkt {
	struct roce_bth bth;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint32_t len;
	} reth;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint64_t swap_add;
		uint64_t compare;
	} atomic;
	struct {
		uint8_t syndrome;
		uint32_t msn;		/* 24 bits */
	} aeth;
	uint64_t atomic_ack;		/* AtomicAckETH: original value */
	struct {
		uint32_t qkey;
		uint32_t src_qpn;	/* 24 bits */
	} deth;
	uint32_t xrc_srqn;		/* XRCETH, 24 bits */
	uint32_t imm;			/* ImmDt as on the wire (big endian) */
	uint32_t ieth_rkey;		/* host order */
	struct {
		uint8_t placement;
		uint8_t selectivity;
	} feth;				/* Annex A19 */
	const uint8_t *payload;		/* within the caller's packet buffer; without pad */
	uint32_t payload_len;
	/*
	 * A run: this packet, and as many more, each `stride` bytes of the buffer after the one
	 * before it. They differ only in their payload, in their PSN, which counts up, and in
	 * ack_req: that of the run is set if any has it, and one ACK answers them all.
	 */
	uint32_t more, stride;
	/* set by the caller: the payload (payload_len bytes) is in the sender's memory */
	const struct wq_pull *pull;
	/* set by the caller: all of a request's payload, whatever the MTU */
	bool whole;
	/* set by the caller: what brought it loses, repeats and reorders nothing */
	bool in_order;
	/* set by the caller: arrived with the packet, to be processed before it */
	const struct roce_piggyback_ack *ack;
	struct net_path path;		/* set by the caller: source and destination */
};

/* Is this a whole request of any length, in one packet? Only within the host. */
static inline bool roce_is_whole(const struct roce_pkt *pkt)
{
	return pkt->pull || pkt->whole;
}

/* Why a packet cannot be decoded; each reason has its own counter. */
enum roce_drop {
	ROCE_DECODED = 0,
	ROCE_DROP_SHORT,	/* shorter than its headers, pad and ICRC */
	ROCE_DROP_LONG,		/* payload above 4096, or any on an opcode that carries none */
	ROCE_DROP_VERSION,	/* BTH version is not 0 */
	ROCE_DROP_OPCODE,	/* unknown opcode */
};

/*
 * Decodes len bytes at data, which include the ICRC but do not check it (see icrc.h). Fills in all
 * of *pkt except path.
 */
enum roce_drop roce_decode(struct roce_pkt *pkt, const uint8_t *data, size_t len);

/*
 * Is the packet at `next`, of the same length, the next one of the run at `data`? Only packets in
 * the middle of a message form runs. roce_run_add() makes it part of the run; its ICRC is the
 * caller's to check.
 */
bool roce_run_continues(const struct roce_pkt *run, const uint8_t *data, const uint8_t *next);
void roce_run_add(struct roce_pkt *run, const uint8_t *next, size_t len);

/* The payload of the i-th packet of a run, and that packet alone. */
static inline const uint8_t *roce_run_payload(const struct roce_pkt *run, uint32_t i)
{
	return run->payload + (size_t)i * run->stride;
}

struct roce_pkt roce_run_packet(const struct roce_pkt *run, uint32_t i);

/* Members of the BTH of a packet that is long enough to have one. */
uint8_t roce_opcode_of(const uint8_t *packet);
uint32_t roce_dest_qpn(const uint8_t *packet);
uint32_t roce_psn_of(const uint8_t *packet);

/* Sets FECN (Annex A17) in the BTH of such a packet. */
void roce_set_fecn(uint8_t *packet);

/*
 * Writes the BTH and the extended headers of pkt->bth.opcode in wire order and returns their
 * length. buf has room for ROCE_MAX_HDR bytes. The caller adds payload, pad and ICRC.
 */
size_t roce_encode_headers(uint8_t *buf, const struct roce_pkt *pkt);

#endif
