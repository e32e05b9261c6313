/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/stateless.h"

enum cm_addressee cm_addressee(const struct cm_msg *m, uint64_t *number)
{
	switch (m->type) {
	case CM_REQ:
		*number = m->req.service_id;
		return CM_TO_SERVICE;
	case CM_SIDR_REQ:
		*number = m->sidr_req.service_id;
		return CM_TO_SERVICE;
	case CM_SIDR_REP:
		*number = m->sidr_rep.request_id;
		return CM_TO_ID;
	case CM_REJ:
		*number = m->rej.remote_id;
		return m->rej.reason == CM_REJ_TIMEOUT && !m->rej.remote_id ? CM_TO_ALL : CM_TO_ID;
	case CM_MRA:
		*number = m->mra.remote_id;
		return CM_TO_ID;
	case CM_REP:
		*number = m->rep.remote_id;
		return CM_TO_ID;
	case CM_RTU:
		*number = m->rtu.remote_id;
		return CM_TO_ID;
	case CM_DREQ:
		*number = m->dreq.remote_id;
		return CM_TO_ID;
	case CM_DREP:
		*number = m->drep.remote_id;
		return CM_TO_ID;
	case CM_LAP:
		*number = m->lap.remote_id;
		return CM_TO_ID;
	case CM_APR:
		*number = m->apr.remote_id;
		return CM_TO_ID;
	}
	*number = 0;
	return CM_TO_ID;
}

void cm_refuse(struct cm_msg *answer, const struct cm_msg *m, unsigned int reason)
{
	if (m->type == CM_SIDR_REQ) {
		*answer = (struct cm_msg){ .type = CM_SIDR_REP, .tid = m->tid };
		answer->sidr_rep.request_id = m->sidr_req.request_id;
		answer->sidr_rep.service_id = m->sidr_req.service_id;
		answer->sidr_rep.status = (uint8_t)reason;
	} else {
		*answer = (struct cm_msg){ .type = CM_REJ, .tid = m->tid };
		answer->rej.remote_id = m->req.local_id;
		answer->rej.about = CM_ABOUT_REQ;
		answer->rej.reason = (uint16_t)reason;
	}
}

/*
 * Whoever asked has ended, and its own rejection is lost, or may be: the sender of the REP would
 * repeat that for a minute.
 */
static void refuse_rep(struct cm_msg *answer, const struct cm_msg *m)
{
	*answer = (struct cm_msg){ .type = CM_REJ, .tid = m->tid };
	answer->rej.local_id = m->rep.remote_id;
	answer->rej.remote_id = m->rep.local_id;
	answer->rej.about = CM_ABOUT_REP;
	answer->rej.reason = CM_REJ_INVALID_COMM_ID;
}

bool cm_stateless_reply(struct cm_msg *answer, const struct cm_msg *m)
{
	switch (m->type) {
	case CM_REQ:
		cm_refuse(answer, m, CM_REJ_INVALID_SERVICE_ID);
		return true;
	case CM_SIDR_REQ:
		cm_refuse(answer, m, CM_SIDR_NO_SERVICE);
		return true;
	case CM_REP:
		refuse_rep(answer, m);
		return true;
	case CM_DREQ:
		*answer = (struct cm_msg){ .type = CM_DREP, .tid = m->tid };
		answer->drep.local_id = m->dreq.remote_id;
		answer->drep.remote_id = m->dreq.local_id;
		return true;
	default:
		return false;
	}
}
