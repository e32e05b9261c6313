/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts headers between bytes and struct roce_pkt. All lengths of a received packet are
 * validated here and nowhere else: after roce_decode(), a packet contains all that its opcode
 * requires.
 */
#include "roce/pkt.h"

#include <assert.h>
#include <string.h>

#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/psn.h"
#include "util/be.h"
#include "util/compiler.h"

/*
 * Base Transport Header, IBTA 9.2; fecn and becn of Annex A17.
 *
 *	 0                   1                   2                   3
 *	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 *	+---------------+-+-+---+-------+-------------------------------+
 *	|    opcode     |S|M|pad|version|             P_Key             |
 *	+-+-+-----------+-+-+---+-------+-------------------------------+
 *	|F|B| reserved  |                destination QP                 |
 *	+-+-+-----------+-----------------------------------------------+
 *	|A|  reserved   |                      PSN                      |
 *	+-+-------------+-----------------------------------------------+
 */
enum {
	BTH_SOLICITED = 0x80,
	BTH_MIG_REQ = 0x40,
	BTH_PAD_SHIFT = 4,
	BTH_PAD_MASK = 0x3,
	BTH_VERSION_MASK = 0x0f,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_ACK_REQ = 0x80,
	BTH_NUMBER = 0xffffff,
	BTH_PSN_WORD = 8,	/* where the third word begins */
};

static void get_bth(struct roce_bth *bth, const uint8_t *p)
{
	uint32_t first = get_be32(p), second = get_be32(p + 4), third = get_be32(p + 8);

	bth->opcode = first >> 24;
	bth->solicited = first >> 16 & BTH_SOLICITED;
	bth->mig_req = first >> 16 & BTH_MIG_REQ;
	bth->pad = first >> 16 >> BTH_PAD_SHIFT & BTH_PAD_MASK;
	bth->version = first >> 16 & BTH_VERSION_MASK;
	bth->pkey = first;
	bth->fecn = second >> 24 & BTH_FECN;
	bth->becn = second >> 24 & BTH_BECN;
	bth->dest_qpn = second & BTH_NUMBER;
	bth->ack_req = third >> 24 & BTH_ACK_REQ;
	bth->psn = third & BTH_NUMBER;
}

static uint8_t *put_bth(uint8_t *p, const struct roce_bth *bth)
{
	uint32_t flags = (bth->solicited ? BTH_SOLICITED : 0) | (bth->mig_req ? BTH_MIG_REQ : 0) |
			 (bth->pad & BTH_PAD_MASK) << BTH_PAD_SHIFT |
			 (bth->version & BTH_VERSION_MASK);
	uint32_t ecn = (bth->fecn ? BTH_FECN : 0) | (bth->becn ? BTH_BECN : 0);
	uint32_t ack = bth->ack_req ? BTH_ACK_REQ : 0;

	p = put_be32(p, (uint32_t)bth->opcode << 24 | flags << 16 | bth->pkey);
	p = put_be32(p, ecn << 24 | (bth->dest_qpn & BTH_NUMBER));
	return put_be32(p, ack << 24 | (bth->psn & BTH_NUMBER));
}

/*
 * The extended headers, 32 bits a line:
 *
 *	XRCETH		reserved:8 SRQ:24
 *	DETH		Q_Key | reserved:8 source QP:24
 *	FETH		reserved:26 selectivity:2 placement:4			Annex A19
 *	RETH		VA (64) | rkey | length
 *	AtomicETH	VA (64) | rkey | swap or add (64) | compare (64)
 *	AETH		syndrome:8 MSN:24
 *	AtomicAckETH	original (64)
 *	ImmDt		immediate data, never swapped
 *	IETH		rkey
 */
enum {
	FETH_PLACEMENT_MASK = 0xf,
	FETH_SELECTIVITY_SHIFT = 4,
	FETH_SELECTIVITY_MASK = 0x3,
};

static const uint8_t *get_xrceth(struct roce_pkt *pkt, const uint8_t *p)
{
	pkt->xrc_srqn = get_be24(p + 1);
	return p + ROCE_XRCETH_LEN;
}

static uint8_t *put_xrceth(uint8_t *p, const struct roce_pkt *pkt)
{
	p = put_u8(p, 0);
	return put_be24(p, pkt->xrc_srqn);
}

static const uint8_t *get_deth(struct roce_pkt *pkt, const uint8_t *p)
{
	pkt->deth.qkey = get_be32(p);
	pkt->deth.src_qpn = get_be24(p + 5);
	return p + ROCE_DETH_LEN;
}

static uint8_t *put_deth(uint8_t *p, const struct roce_pkt *pkt)
{
	p = put_be32(p, pkt->deth.qkey);
	p = put_u8(p, 0);
	return put_be24(p, pkt->deth.src_qpn);
}

static const uint8_t *get_feth(struct roce_pkt *pkt, const uint8_t *p)
{
	pkt->feth.placement = p[3] & FETH_PLACEMENT_MASK;
	pkt->feth.selectivity = p[3] >> FETH_SELECTIVITY_SHIFT & FETH_SELECTIVITY_MASK;
	return p + ROCE_FETH_LEN;
}

static uint8_t *put_feth(uint8_t *p, const struct roce_pkt *pkt)
{
	p = put_be24(p, 0);
	return put_u8(p, (pkt->feth.placement & FETH_PLACEMENT_MASK) |
				 (pkt->feth.selectivity & FETH_SELECTIVITY_MASK)
					 << FETH_SELECTIVITY_SHIFT);
}

static const uint8_t *get_reth(struct roce_pkt *pkt, const uint8_t *p)
{
	pkt->reth.va = get_be64(p);
	pkt->reth.rkey = get_be32(p + 8);
	pkt->reth.len = get_be32(p + 12);
	return p + ROCE_RETH_LEN;
}

static uint8_t *put_reth(uint8_t *p, const struct roce_pkt *pkt)
{
	p = put_be64(p, pkt->reth.va);
	p = put_be32(p, pkt->reth.rkey);
	return put_be32(p, pkt->reth.len);
}

static const uint8_t *get_atomiceth(struct roce_pkt *pkt, const uint8_t *p)
{
	pkt->atomic.va = get_be64(p);
	pkt->atomic.rkey = get_be32(p + 8);
	pkt->atomic.swap_add = get_be64(p + 12);
	pkt->atomic.compare = get_be64(p + 20);
	return p + ROCE_ATOMICETH_LEN;
}

static uint8_t *put_atomiceth(uint8_t *p, const struct roce_pkt *pkt)
{
	p = put_be64(p, pkt->atomic.va);
	p = put_be32(p, pkt->atomic.rkey);
	p = put_be64(p, pkt->atomic.swap_add);
	return put_be64(p, pkt->atomic.compare);
}

static const uint8_t *get_aeth(struct roce_pkt *pkt, const uint8_t *p)
{
	pkt->aeth.syndrome = p[0];
	pkt->aeth.msn = get_be24(p + 1);
	return p + ROCE_AETH_LEN;
}

static uint8_t *put_aeth(uint8_t *p, const struct roce_pkt *pkt)
{
	p = put_u8(p, pkt->aeth.syndrome);
	return put_be24(p, pkt->aeth.msn);
}

static void get_extended(struct roce_pkt *pkt, const struct roce_opcode_info *op, const uint8_t *p)
{
	if (roce_has(op, ROCE_HDR_XRCETH))
		p = get_xrceth(pkt, p);
	if (roce_has(op, ROCE_HDR_DETH))
		p = get_deth(pkt, p);
	if (roce_has(op, ROCE_HDR_FETH))
		p = get_feth(pkt, p);
	if (roce_has(op, ROCE_HDR_RETH))
		p = get_reth(pkt, p);
	if (roce_has(op, ROCE_HDR_ATOMICETH))
		p = get_atomiceth(pkt, p);
	if (roce_has(op, ROCE_HDR_AETH))
		p = get_aeth(pkt, p);
	if (roce_has(op, ROCE_HDR_ATOMICACKETH)) {
		pkt->atomic_ack = get_be64(p);
		p += ROCE_ATOMICACKETH_LEN;
	}
	if (roce_has(op, ROCE_HDR_IMMDT)) {
		memcpy(&pkt->imm, p, ROCE_IMMDT_LEN);
		p += ROCE_IMMDT_LEN;
	}
	if (roce_has(op, ROCE_HDR_IETH))
		pkt->ieth_rkey = get_be32(p);
}

static uint8_t *put_extended(uint8_t *p, const struct roce_opcode_info *op,
			     const struct roce_pkt *pkt)
{
	if (roce_has(op, ROCE_HDR_XRCETH))
		p = put_xrceth(p, pkt);
	if (roce_has(op, ROCE_HDR_DETH))
		p = put_deth(p, pkt);
	if (roce_has(op, ROCE_HDR_FETH))
		p = put_feth(p, pkt);
	if (roce_has(op, ROCE_HDR_RETH))
		p = put_reth(p, pkt);
	if (roce_has(op, ROCE_HDR_ATOMICETH))
		p = put_atomiceth(p, pkt);
	if (roce_has(op, ROCE_HDR_AETH))
		p = put_aeth(p, pkt);
	if (roce_has(op, ROCE_HDR_ATOMICACKETH))
		p = put_be64(p, pkt->atomic_ack);
	if (roce_has(op, ROCE_HDR_IMMDT)) {
		memcpy(p, &pkt->imm, ROCE_IMMDT_LEN);
		p += ROCE_IMMDT_LEN;
	}
	if (roce_has(op, ROCE_HDR_IETH))
		p = put_be32(p, pkt->ieth_rkey);
	return p;
}

uint8_t roce_opcode_of(const uint8_t *packet)
{
	return packet[0];
}

uint32_t roce_dest_qpn(const uint8_t *packet)
{
	return get_be24(packet + 5);
}

uint32_t roce_psn_of(const uint8_t *packet)
{
	return get_be24(packet + 9);
}

void roce_set_fecn(uint8_t *packet)
{
	packet[4] |= BTH_FECN;	/* the first byte of the second word */
}

enum roce_drop roce_decode(struct roce_pkt *pkt, const uint8_t *data, size_t len)
{
	const struct roce_opcode_info *op;
	size_t room;

	memset(pkt, 0, offsetof(struct roce_pkt, path));
	if (unlikely(len < ROCE_BTH_LEN + ROCE_ICRC_LEN))
		return ROCE_DROP_SHORT;
	get_bth(&pkt->bth, data);
	if (unlikely(pkt->bth.version != 0))
		return ROCE_DROP_VERSION;
	op = roce_opcode_info(pkt->bth.opcode);
	if (unlikely(op->kind == ROCE_KIND_NONE))
		return ROCE_DROP_OPCODE;
	/*
	 * Every packet is padded to a multiple of four bytes. Any other length means that the end
	 * of the pad is missing.
	 */
	if (unlikely(len < op->hdr_len + (size_t)ROCE_ICRC_LEN || len % 4 != 0))
		return ROCE_DROP_SHORT;
	room = len - op->hdr_len - ROCE_ICRC_LEN;
	if (unlikely(room < pkt->bth.pad))
		return ROCE_DROP_SHORT;
	if (unlikely(room - pkt->bth.pad > op->max_payload))
		return ROCE_DROP_LONG;
	if (op->hdrs.bits)
		get_extended(pkt, op, data + ROCE_BTH_LEN);
	pkt->payload = data + op->hdr_len;
	pkt->payload_len = (uint32_t)(room - pkt->bth.pad);
	return ROCE_DECODED;
}

bool roce_run_continues(const struct roce_pkt *run, const uint8_t *data, const uint8_t *next)
{
	return roce_forms_runs(roce_opcode_info(run->bth.opcode)) &&
	       !memcmp(data, next, BTH_PSN_WORD) &&
	       (get_be32(next + BTH_PSN_WORD) & BTH_NUMBER) ==
		       psn_add(run->bth.psn, run->more + 1);
}

void roce_run_add(struct roce_pkt *run, const uint8_t *next, size_t len)
{
	run->more++;
	run->stride = (uint32_t)len;
	run->bth.ack_req |= (next[BTH_PSN_WORD] & BTH_ACK_REQ) != 0;
}

struct roce_pkt roce_run_packet(const struct roce_pkt *run, uint32_t i)
{
	struct roce_pkt pkt = *run;

	pkt.bth.psn = psn_add(run->bth.psn, i);
	pkt.bth.ack_req = run->bth.ack_req && i == run->more;
	pkt.payload = roce_run_payload(run, i);
	pkt.more = pkt.stride = 0;
	return pkt;
}

size_t roce_encode_headers(uint8_t *buf, const struct roce_pkt *pkt)
{
	const struct roce_opcode_info *op = roce_opcode_info(pkt->bth.opcode);
	uint8_t *p = put_bth(buf, &pkt->bth);

	if (op->hdrs.bits)
		p = put_extended(p, op, pkt);
	assert(p - buf == op->hdr_len);
	return (size_t)(p - buf);
}
