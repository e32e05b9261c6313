/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/names.h"

#include <stddef.h>

#include <infiniband/verbs.h>

#include "util/compiler.h"

static const char *const status_names[] = {
#define STATUS(name) [IBV_WC_##name] = "IBV_WC_" #name
	STATUS(LOC_LEN_ERR), STATUS(LOC_QP_OP_ERR), STATUS(LOC_EEC_OP_ERR), STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR), STATUS(MW_BIND_ERR), STATUS(BAD_RESP_ERR), STATUS(LOC_ACCESS_ERR),
	STATUS(REM_INV_REQ_ERR), STATUS(REM_ACCESS_ERR), STATUS(REM_OP_ERR), STATUS(RETRY_EXC_ERR),
	STATUS(RNR_RETRY_EXC_ERR), STATUS(LOC_RDD_VIOL_ERR), STATUS(REM_INV_RD_REQ_ERR),
	STATUS(REM_ABORT_ERR), STATUS(INV_EECN_ERR), STATUS(INV_EEC_STATE_ERR), STATUS(FATAL_ERR),
	STATUS(RESP_TIMEOUT_ERR), STATUS(GENERAL_ERR), STATUS(TM_ERR), STATUS(TM_RNDV_INCOMPLETE),
#undef STATUS
};

const char *vrb_qp_state_name(unsigned int state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < ARRAY_SIZE(names) ? names[state] : "?";
}

const char *vrb_qp_type_name(unsigned int type)
{
	switch (type) {
	case IBV_QPT_RC: return "RC";
	case IBV_QPT_UC: return "UC";
	case IBV_QPT_UD: return "UD";
	case IBV_QPT_XRC_SEND: return "XRC_SEND";
	case IBV_QPT_XRC_RECV: return "XRC_RECV";
	default: return "RAW";
	}
}

const char *vrb_status_name(unsigned int status)
{
	return status < ARRAY_SIZE(status_names) ? status_names[status] : NULL;
}
