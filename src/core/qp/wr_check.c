/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Validates work requests against the limits of the QP. Pure and table-driven.
 *
 *	opcode known  ->  legal on the QP type (table in ibv_post_send(3))  ->  flags legal with it
 *	->  number of SGEs  ->  inline size  ->  message length  ->  requirements of the opcode
 *
 * A device detects most errors when it executes the request, and reports them in its completion.
 * Posting fails only for requests from which no WQE can be built: the errno table at the end.
 */
#include "core/qp/wr_check.h"

#include <errno.h>

#include "core/device/ah.h"
#include "core/mem/pd.h"
#include "util/compiler.h"

/* QP types as bits. */
enum {
	RC = 1 << IBV_QPT_RC,
	UC = 1 << IBV_QPT_UC,
	UD = 1 << IBV_QPT_UD,
	XS = 1 << IBV_QPT_XRC_SEND,
	RAW = 1 << IBV_QPT_RAW_PACKET,
	SENDS = RC | UC | UD | XS | RAW,
	CONN = RC | UC | XS,
	ACKED = RC | XS,
};

/* Properties of an opcode. */
enum {
	INLINE_OK = 1 << 0,	/* accepts IBV_SEND_INLINE */
	NO_SGE = 1 << 1,	/* takes no SGEs; the length is not a payload length */
	RESULT = 1 << 2,	/* returns eight bytes; the SGE list may be longer */
	RD_ATOMIC = 1 << 3,	/* counts against max_rd_atomic */
	SEGMENTED = 1 << 4,	/* TSO: needs header and MSS */
};

static const struct rule {
	uint16_t types;
	uint16_t wants;
} rules[WR_OPCODES] = {
	[IBV_WR_RDMA_WRITE] = { CONN, INLINE_OK },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { CONN, INLINE_OK },
	[IBV_WR_SEND] = { CONN | UD | RAW, INLINE_OK },
	[IBV_WR_SEND_WITH_IMM] = { CONN | UD, INLINE_OK },
	[IBV_WR_RDMA_READ] = { ACKED, RD_ATOMIC },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { ACKED, RESULT | RD_ATOMIC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { ACKED, RESULT | RD_ATOMIC },
	[IBV_WR_LOCAL_INV] = { CONN, NO_SGE | INLINE_OK },
	[IBV_WR_BIND_MW] = { CONN, NO_SGE | INLINE_OK },
	[IBV_WR_SEND_WITH_INV] = { CONN, INLINE_OK },
	[IBV_WR_TSO] = { UD | RAW, INLINE_OK | SEGMENTED },
	[IBV_WR_FLUSH] = { ACKED, NO_SGE },
	[IBV_WR_ATOMIC_WRITE] = { ACKED, INLINE_OK },
};

/* 0: the type sends nothing. */
static unsigned int type_bit(enum ibv_qp_type type)
{
	return type <= IBV_QPT_XRC_SEND ? SENDS & 1u << type : 0;
}

bool wr_opcode_legal(enum ibv_qp_type type, uint32_t opcode)
{
	return opcode < WR_OPCODES && type <= IBV_QPT_XRC_SEND && rules[opcode].types >> type & 1;
}

static enum reason check_size(const struct wr_limits *limits, const struct wr_desc *wr,
			      unsigned int wants)
{
	if ((wants & NO_SGE) && wr->num_sge)
		return REASON_WR_SGE_COUNT;
	if (!wr->inline_data && wr->num_sge > limits->max_sge)
		return REASON_WR_SGE_COUNT;
	if (wr->inline_data && wr->length > limits->max_inline)
		return REASON_WR_INLINE_SIZE;
	if (wr->length > limits->max_msg)
		return REASON_WR_TOO_LONG;
	if ((wants & RESULT) && !wr->length)
		return REASON_WR_ATOMIC_SIZE;
	return REASON_NONE;
}

/* Checks the destination of a datagram and that it fits into one packet. */
static enum reason check_datagram(const struct wr_limits *limits, const struct wr_desc *wr,
				  unsigned int wants)
{
	if (!wr->ah || wr->ah->magic != VRB_AH_MAGIC)
		return REASON_WR_BAD_AH;
	if (to_vrb_pd(wr->ah->ibv.pd)->pdn != limits->pdn)
		return REASON_WR_AH_PD;
	if ((wants & SEGMENTED ? wr->tso_header + wr->mss : wr->length) > limits->mtu)
		return REASON_WR_MTU;
	return REASON_NONE;
}

static enum reason check_rd_atomic(const struct wr_limits *limits)
{
	return limits->max_rd_atomic ? REASON_NONE : REASON_WR_RD_ATOMIC_ZERO;
}

static enum reason check_segmented(const struct wr_limits *limits, const struct wr_desc *wr)
{
	if (!limits->max_tso_header)
		return REASON_WR_UNKNOWN;
	if (!wr->mss || wr->tso_header > limits->max_tso_header || wr->length > VRB_MAX_TSO)
		return REASON_WR_TSO;
	return REASON_NONE;
}

static bool is_known(enum ibv_qp_type type, uint32_t opcode)
{
	return type_bit(type) && opcode < WR_OPCODES && rules[opcode].types;
}

enum reason wr_check_send(const struct wr_limits *limits, const struct wr_desc *wr)
{
	const struct rule *rule;
	enum reason why;

	if (unlikely(!wr_opcode_legal(limits->qp_type, wr->opcode)))
		return is_known(limits->qp_type, wr->opcode) ? REASON_WR_OPCODE : REASON_WR_UNKNOWN;
	rule = &rules[wr->opcode];
	if (wr->inline_data && !(rule->wants & INLINE_OK))
		return REASON_WR_FLAGS;
	why = check_size(limits, wr, rule->wants);
	if (!why && rule->wants & (SEGMENTED | RD_ATOMIC))	/* no opcode is both */
		why = rule->wants & SEGMENTED ? check_segmented(limits, wr) :
						check_rd_atomic(limits);
	if (!why && limits->qp_type == IBV_QPT_UD)
		why = check_datagram(limits, wr, rule->wants);
	return why;
}

enum reason wr_check_recv(uint32_t max_sge, const struct ibv_recv_wr *wr, uint32_t *length)
{
	uint64_t total;

	if ((uint32_t)wr->num_sge > max_sge)	/* or negative */
		return REASON_WR_SGE_COUNT;
	total = wr_sge_total(wr->sg_list, wr->num_sge);
	*length = min(total, (uint64_t)UINT32_MAX);
	return REASON_NONE;
}

/*
 * Errors that posting reports. As in hardware drivers, which build the WQE at this point: the
 * request does not fit a WQE, no slot is free, or the WQE format cannot express the request.
 */
static const struct {
	enum reason why;
	int error;
} refusals[] = {
	{ REASON_WR_STATE, EINVAL },	   { REASON_WR_QUEUE_FULL, ENOMEM },
	{ REASON_WR_NO_MEMORY, ENOMEM },   { REASON_WR_UNKNOWN, EINVAL },
	{ REASON_WR_SGE_COUNT, EINVAL },   { REASON_WR_SGE_LIST, EINVAL },
	{ REASON_WR_FLAGS, EINVAL },	   { REASON_WR_TSO, EINVAL },
	{ REASON_WR_INLINE_SIZE, EINVAL }, { REASON_WR_BAD_AH, EINVAL },
};

int wr_refusal(enum reason why)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		if (refusals[i].why == why)
			return refusals[i].error;
	}
	return 0;
}
