/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP state table.
 *
 *	any state --> RESET
 *	any state but RESET --> ERR
 *
 *	RESET --> INIT --> RTR --> RTS <--> SQD
 *	                            ^
 *	                            +------ SQE		UC, UD and raw packet only
 *
 *	Attributes may change in INIT, RTS, SQD and ERR without a transition.  The transports
 *	also make the transitions RTS --> SQE and any --> ERR themselves.
 *
 * IBTA volume 1, 10.3.1 and the attribute tables of Modify Queue Pair, as ibv_modify_qp(3) lists
 * them.
 */
#include "core/control/qp_state.h"

#include <stddef.h>

#include "util/compiler.h"

enum {
	RC,
	UC,
	UD,
	XS,	/* XRC send */
	XR,	/* XRC receive */
	RAW,
	TYPES,
	STATES = IBV_QPS_ERR + 1,
};

/* Attribute masks by their short names, to keep the table readable. */
enum {
	CUR = IBV_QP_CUR_STATE,
	SQDN = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACC = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TMO = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR = IBV_QP_RNR_RETRY,
	RQPSN = IBV_QP_RQ_PSN,
	RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	RNRT = IBV_QP_MIN_RNR_TIMER,
	SQPSN = IBV_QP_SQ_PSN,
	DRD = IBV_QP_MAX_DEST_RD_ATOMIC,
	MIG = IBV_QP_PATH_MIG_STATE,
	DQPN = IBV_QP_DEST_QPN,
	RATE = IBV_QP_RATE_LIMIT,
};

struct masks {
	bool valid;
	int required;
	int optional;
};

/* No attributes, every type. */
#define PLAIN                                                                                      \
	{                                                                                          \
		[RC] = { true }, [UC] = { true }, [UD] = { true }, [XS] = { true },                \
		[XR] = { true }, [RAW] = { true },                                                 \
	}

static const struct masks table[STATES][STATES][TYPES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_INIT] = {
			[RC] = { true, PKEY | PORT | ACC, 0 },
			[UC] = { true, PKEY | PORT | ACC, 0 },
			[UD] = { true, PKEY | PORT | QKEY, 0 },
			[XS] = { true, PKEY | PORT | ACC, 0 },
			[XR] = { true, PKEY | PORT | ACC, 0 },
			[RAW] = { true, PORT, 0 },
		},
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_INIT] = {
			[RC] = { true, 0, PKEY | PORT | ACC },
			[UC] = { true, 0, PKEY | PORT | ACC },
			[UD] = { true, 0, PKEY | PORT | QKEY },
			[XS] = { true, 0, PKEY | PORT | ACC },
			[XR] = { true, 0, PKEY | PORT | ACC },
			[RAW] = { true, 0, PORT },
		},
		[IBV_QPS_RTR] = {
			[RC] = { true, AV | MTU | DQPN | RQPSN | DRD | RNRT, ALT | ACC | PKEY },
			[UC] = { true, AV | MTU | DQPN | RQPSN, ALT | ACC | PKEY },
			[UD] = { true, 0, PKEY | QKEY },
			[XS] = { true, AV | MTU | DQPN | RQPSN, ALT | ACC | PKEY },
			[XR] = { true, AV | MTU | DQPN | RQPSN | DRD | RNRT, ALT | ACC | PKEY },
			[RAW] = { true, 0, 0 },
		},
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[RC] = { true, SQPSN | TMO | RETRY | RNR | RD,
				 CUR | ALT | ACC | RNRT | MIG },
			[UC] = { true, SQPSN, CUR | ALT | ACC | MIG },
			[UD] = { true, SQPSN, CUR | QKEY },
			[XS] = { true, SQPSN | TMO | RETRY | RNR | RD, CUR | ALT | ACC | MIG },
			[XR] = { true, SQPSN | TMO, CUR | ALT | ACC | RNRT | MIG },
			[RAW] = { true, 0, CUR | RATE },
		},
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[RC] = { true, 0, CUR | ACC | ALT | MIG | RNRT },
			[UC] = { true, 0, CUR | ACC | ALT | MIG },
			[UD] = { true, 0, CUR | QKEY },
			[XS] = { true, 0, CUR | ACC | ALT | MIG },
			[XR] = { true, 0, CUR | ACC | ALT | MIG | RNRT },
			[RAW] = { true, 0, CUR | RATE },
		},
		[IBV_QPS_SQD] = {
			[RC] = { true, 0, SQDN },
			[UC] = { true, 0, SQDN },
			[UD] = { true, 0, SQDN },
			[XS] = { true, 0, SQDN },
			[XR] = { true, 0, SQDN },
			[RAW] = { true, 0, SQDN },
		},
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[RC] = { true, 0, CUR | ALT | ACC | RNRT | MIG },
			[UC] = { true, 0, CUR | ALT | ACC | MIG },
			[UD] = { true, 0, CUR | QKEY },
			[XS] = { true, 0, CUR | ALT | ACC | MIG },
			[XR] = { true, 0, CUR | ALT | ACC | RNRT | MIG },
			[RAW] = { true, 0, CUR },
		},
		[IBV_QPS_SQD] = {
			[RC] = { true, 0, PORT | AV | TMO | RETRY | RNR | RD | DRD | ALT | ACC |
						  PKEY | RNRT | MIG },
			[UC] = { true, 0, AV | ALT | ACC | PKEY | MIG },
			[UD] = { true, 0, PKEY | QKEY },
			[XS] = { true, 0, PORT | AV | TMO | RETRY | RNR | RD | ALT | ACC | PKEY |
						  MIG },
			[XR] = { true, 0, PORT | AV | TMO | DRD | ALT | ACC | PKEY | RNRT | MIG },
			[RAW] = { true, 0, 0 },
		},
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[UC] = { true, 0, CUR | ACC },
			[UD] = { true, 0, CUR | QKEY },
			[RAW] = { true, 0, CUR },
		},
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
	},
};

static int type_index(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_XRC_SEND:
		return XS;
	case IBV_QPT_XRC_RECV:
		return XR;
	case IBV_QPT_RAW_PACKET:
		return RAW;
	default:
		return -1;
	}
}

static const struct masks *lookup(enum ibv_qp_type type, enum ibv_qp_state cur,
				  enum ibv_qp_state next)
{
	int t = type_index(type);

	if (t < 0 || (unsigned int)cur >= STATES || (unsigned int)next >= STATES)
		return NULL;
	return table[cur][next][t].valid ? &table[cur][next][t] : NULL;
}

bool qp_state_masks(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		    int *required, int *optional)
{
	const struct masks *m = lookup(type, cur, next);

	if (!m)
		return false;
	*required = m->required;
	*optional = m->optional;
	return true;
}

bool qp_state_allowed(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		      int mask)
{
	const struct masks *m = lookup(type, cur, next);

	return m && (mask & m->required) == m->required &&
	       !(mask & ~(m->required | m->optional | IBV_QP_STATE));
}
