/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fault tables. Classes as in IBTA vol 1, 9.9.3: A and C end the connection with a NAK, B
 * (sequence and RNR) is retried and has no row here, D and E drop a message of an unacknowledged
 * service, J is a failed invalidation.
 */
#include "roce/faults.h"

#include "roce/const.h"
#include "util/compiler.h"

enum fault_class {
	CLASS_LOCAL,      /* A: the responder cannot execute the request */
	CLASS_RECV_LOCAL, /* A: the receive's own memory fails its check */
	/*
	 * C: message longer than the receive; D for UD, where any sender could otherwise stop the
	 * QP
	 */
	CLASS_RECV_SMALL,
	CLASS_REQUEST,    /* C: invalid request */
	/* C: remote access violation; a held receive belongs to a WRITE with immediate */
	CLASS_ACCESS,
	CLASS_INVALIDATE, /* J: the message has arrived, but its invalidation failed */
};

/*
 * One row per class: NAK code, receive status, event, and the action for RC, UC and UD. The event
 * replaces a completion: it is raised if no receive was held.
 */
static const struct roce_fault classes[] = {
	[CLASS_LOCAL] = { ROCE_NAK_REMOTE_OPERATIONAL_ERROR,
			  IBV_WC_LOC_QP_OP_ERR,
			  IBV_EVENT_QP_FATAL,
			  { ROCE_FAULT_NAK, ROCE_FAULT_COMPLETE, ROCE_FAULT_COMPLETE } },
	[CLASS_RECV_LOCAL] = { ROCE_NAK_REMOTE_OPERATIONAL_ERROR,
			       IBV_WC_LOC_PROT_ERR,
			       IBV_EVENT_QP_FATAL,
			       { ROCE_FAULT_NAK, ROCE_FAULT_COMPLETE, ROCE_FAULT_COMPLETE } },
	[CLASS_RECV_SMALL] = { ROCE_NAK_INVALID_REQUEST,
			       IBV_WC_LOC_LEN_ERR,
			       IBV_EVENT_QP_REQ_ERR,
			       { ROCE_FAULT_NAK, ROCE_FAULT_COMPLETE, ROCE_FAULT_DROP } },
	[CLASS_REQUEST] = { ROCE_NAK_INVALID_REQUEST,
			    IBV_WC_REM_INV_REQ_ERR,
			    IBV_EVENT_QP_REQ_ERR,
			    { ROCE_FAULT_NAK, ROCE_FAULT_DROP, ROCE_FAULT_DROP } },
	[CLASS_ACCESS] = { ROCE_NAK_REMOTE_ACCESS_ERROR,
			   IBV_WC_LOC_ACCESS_ERR,
			   IBV_EVENT_QP_ACCESS_ERR,
			   { ROCE_FAULT_NAK, ROCE_FAULT_DROP, ROCE_FAULT_DROP } },
	[CLASS_INVALIDATE] = { 0,
			       IBV_WC_REM_INV_REQ_ERR,
			       IBV_EVENT_QP_ACCESS_ERR,
			       { ROCE_FAULT_ACK, ROCE_FAULT_COMPLETE, ROCE_FAULT_COMPLETE } },
};

static const struct {
	enum reason why;
	enum fault_class cls;
} responder_rows[] = {
	{ REASON_RKEY_UNKNOWN, CLASS_ACCESS },       { REASON_RKEY_PD, CLASS_ACCESS },
	{ REASON_RKEY_RANGE, CLASS_ACCESS },         { REASON_RKEY_ACCESS, CLASS_ACCESS },
	{ REASON_RKEY_UNMAPPED, CLASS_ACCESS },      { REASON_RKEY_WINDOW_QP, CLASS_ACCESS },
	{ REASON_QP_ACCESS, CLASS_REQUEST },         { REASON_REQ_OPCODE, CLASS_REQUEST },
	{ REASON_REQ_LENGTH, CLASS_REQUEST },        { REASON_REQ_RD_ATOMIC, CLASS_REQUEST },
	{ REASON_REQ_ATOMIC_ALIGN, CLASS_REQUEST },  { REASON_REQ_RECV_SMALL, CLASS_RECV_SMALL },
	{ REASON_RECV_TOO_SMALL, CLASS_RECV_SMALL }, { REASON_REQ_INVALIDATE, CLASS_INVALIDATE },
	{ REASON_REQ_XRC_SRQ, CLASS_REQUEST },       { REASON_RECV_LOCAL, CLASS_RECV_LOCAL },
	{ REASON_LKEY_UNKNOWN, CLASS_RECV_LOCAL },   { REASON_LKEY_PD, CLASS_RECV_LOCAL },
	{ REASON_LKEY_RANGE, CLASS_RECV_LOCAL },     { REASON_LKEY_ACCESS, CLASS_RECV_LOCAL },
	{ REASON_LKEY_UNMAPPED, CLASS_RECV_LOCAL },
};

static const struct {
	enum reason why;
	enum ibv_wc_status status;
} requester_rows[] = {
	{ REASON_WR_TOO_LONG, IBV_WC_LOC_LEN_ERR },  { REASON_WR_MTU, IBV_WC_LOC_LEN_ERR },
	{ REASON_WR_TOO_SHORT, IBV_WC_LOC_LEN_ERR },
	{ REASON_WR_MW_BIND, IBV_WC_MW_BIND_ERR },   { REASON_WR_INVALIDATE, IBV_WC_MW_BIND_ERR },
	{ REASON_LKEY_UNKNOWN, IBV_WC_LOC_PROT_ERR },
	{ REASON_LKEY_PD, IBV_WC_LOC_PROT_ERR },     { REASON_LKEY_RANGE, IBV_WC_LOC_PROT_ERR },
	{ REASON_LKEY_ACCESS, IBV_WC_LOC_PROT_ERR }, { REASON_LKEY_UNMAPPED, IBV_WC_LOC_PROT_ERR },
};

static const struct roce_nak_result naks[] = {
	[ROCE_NAK_INVALID_REQUEST] = { IBV_WC_REM_INV_REQ_ERR, REASON_NAK_INVALID_REQUEST },
	[ROCE_NAK_REMOTE_ACCESS_ERROR] = { IBV_WC_REM_ACCESS_ERR, REASON_NAK_REMOTE_ACCESS },
	[ROCE_NAK_REMOTE_OPERATIONAL_ERROR] = { IBV_WC_REM_OP_ERR, REASON_NAK_REMOTE_OPERATION },
	[ROCE_NAK_INVALID_RD_REQUEST] = { IBV_WC_REM_INV_RD_REQ_ERR, REASON_NAK_INVALID_RD },
};

enum roce_fault_column roce_fault_column(uint8_t qp_type)
{
	if (qp_type == IBV_QPT_UC)
		return ROCE_FAULT_UC;
	return qp_type == IBV_QPT_UD || qp_type == IBV_QPT_RAW_PACKET ? ROCE_FAULT_UD :
									ROCE_FAULT_RC;
}

const struct roce_fault *roce_fault(enum reason why)
{
	for (size_t i = 0; i < ARRAY_SIZE(responder_rows); i++) {
		if (responder_rows[i].why == why)
			return &classes[responder_rows[i].cls];
	}
	return &classes[CLASS_LOCAL];
}

enum ibv_wc_status roce_local_status(enum reason why)
{
	for (size_t i = 0; i < ARRAY_SIZE(requester_rows); i++) {
		if (requester_rows[i].why == why)
			return requester_rows[i].status;
	}
	return IBV_WC_LOC_QP_OP_ERR;
}

const struct roce_nak_result *roce_nak_result(uint8_t code)
{
	if (code >= ARRAY_SIZE(naks) || naks[code].status == IBV_WC_SUCCESS)
		return NULL;
	return &naks[code];
}
