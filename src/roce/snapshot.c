/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/snapshot.h"

#include <stddef.h>
#include <string.h>

#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/rd_atomic.h"

enum { PSN_LIMIT = 1 << 24 };

static uint32_t resources_in_use(const struct roce_qp *qp)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < roce_rd_used(qp); i++)
		if (qp->rd_atomic[i].kind != ROCE_RD_FREE)
			used = i + 1;
	return used;
}

size_t roce_snapshot_take(const struct roce_qp *qp, void *buf)
{
	const struct roce_resp *resp = &qp->resp;
	struct roce_snapshot s = {
		.epsn = resp->epsn,
		.psns = resp->psns,
		.ack_psn = resp->ack_psn,
		.msn = resp->msn,
		.va = resp->va,
		.rkey = resp->rkey,
		.resid = resp->resid,
		.received = resp->received,
		.packet = resp->packet,
		.rd_next = resp->rd_next,
		.n_rd = resources_in_use(qp),
		.state = qp->wq->state,
		.msg = resp->msg,
		.nak_sent = resp->nak_sent,
		.pull_refused = resp->pull_refused,
		.established = resp->established,
		.rd_pending = resp->rd_pending,
		.last_psn = resp->ack.psn,
		.fatal_nak = roce_snapshot_has_fatal_nak(qp) ? resp->ack.syndrome : 0,
		.counters = qp->counters,
	};

	memcpy(buf, &s, sizeof(s));
	if (s.n_rd)
		memcpy((uint8_t *)buf + sizeof(s), qp->rd_atomic, s.n_rd * sizeof(*qp->rd_atomic));
	return sizeof(s) + s.n_rd * sizeof(*qp->rd_atomic);
}

size_t roce_snapshot_take_idle(const struct roce_qp *qp, void *buf)
{
	size_t len = roce_snapshot_take(qp, buf);

	((uint8_t *)buf)[offsetof(struct roce_snapshot, msg)] = ROCE_MSG_NONE;
	return len;
}

static bool makes_sense(const struct roce_qp *qp, const struct roce_snapshot *s, size_t len)
{
	if (s->n_rd > roce_rd_slots(qp) || len != sizeof(*s) + s->n_rd * sizeof(*qp->rd_atomic))
		return false;
	if (s->epsn >= PSN_LIMIT || s->ack_psn >= PSN_LIMIT || s->msn >= PSN_LIMIT ||
	    s->msg > ROCE_MSG_WRITE)
		return false;
	if (s->rd_next && s->rd_next >= roce_rd_slots(qp))
		return false;
	if (s->fatal_nak && (s->state != IBV_QPS_ERR || s->last_psn >= PSN_LIMIT ||
			     roce_syndrome_class(s->fatal_nak) != ROCE_AETH_NAK))
		return false;
	return s->state >= IBV_QPS_RTR && s->state <= IBV_QPS_ERR && s->state != IBV_QPS_SQE;
}

/*
 * Clears the resource's pending answers; an invalid resource becomes free. One that is answered
 * neither waits for a FLUSH nor has failed: `held` would stop all later answers.
 */
static void settle(struct roce_rd_atomic *rd)
{
	rd->pending = rd->fresh = rd->held = false;
	rd->why = REASON_NONE;
	if (rd->kind > ROCE_RD_EMPTY || rd->first_psn >= PSN_LIMIT || rd->last_psn >= PSN_LIMIT)
		rd->kind = ROCE_RD_FREE;
}

static void restore_resources(struct roce_qp *qp, const struct roce_snapshot *s,
			      const uint8_t *from)
{
	roce_rd_reset(qp);
	for (uint32_t i = 0; i < s->n_rd; i++) {
		memcpy(&qp->rd_atomic[i], from + i * sizeof(*qp->rd_atomic),
		       sizeof(*qp->rd_atomic));
		settle(&qp->rd_atomic[i]);
	}
	qp->resp.rd_next = qp->resp.rd_due = s->rd_next;
}

bool roce_snapshot_restore(struct roce_qp *qp, const void *buf, size_t len)
{
	struct roce_resp *resp = &qp->resp;
	struct roce_snapshot s;

	if (len < sizeof(s))
		return false;
	memcpy(&s, buf, sizeof(s));
	if (!makes_sense(qp, &s, len))
		return false;
	restore_resources(qp, &s, (const uint8_t *)buf + sizeof(s));
	resp->epsn = s.epsn;
	resp->psns = s.psns;
	resp->ack_psn = s.ack_psn;
	resp->msn = s.msn;
	resp->va = s.va;
	resp->rkey = s.rkey;
	resp->msg = s.state == IBV_QPS_ERR ? ROCE_MSG_NONE : s.msg;
	resp->resid = resp->msg == ROCE_MSG_WRITE ? s.resid : 0;
	resp->received = s.received;
	resp->packet = s.packet;
	resp->wqe = NULL;
	resp->nak_sent = s.nak_sent != 0;
	resp->pull_refused = s.pull_refused != 0;
	resp->established = s.established != 0;
	resp->ack.pending = resp->gap_nak_pending = resp->cnp_pending = false;
	qp->counters = s.counters;
	if (s.state == IBV_QPS_ERR) {
		qp->wq->state = IBV_QPS_ERR;
		qp->flushed = true;
		qp->dying = s.fatal_nak != 0;
		if (qp->dying)
			roce_nak_pend(qp, s.fatal_nak, s.last_psn);
	}
	return true;
}

void roce_snapshot_abandon(struct roce_qp *qp)
{
	qp->resp.wqe = NULL;
	qp->resp.msg = ROCE_MSG_NONE;
}

bool roce_snapshot_has_output(const struct roce_qp *qp)
{
	return roce_ack_due(qp) || qp->resp.rd_pending || qp->dying;
}

bool roce_snapshot_quiet(const struct roce_qp *qp)
{
	return qp->resp.msg == ROCE_MSG_NONE && !qp->resp.wqe && !roce_snapshot_has_output(qp);
}

bool roce_snapshot_has_fatal_nak(const struct roce_qp *qp)
{
	return qp->dying && !qp->resp.rd_pending && qp->resp.ack.pending &&
	       roce_syndrome_class(qp->resp.ack.syndrome) == ROCE_AETH_NAK;
}

void roce_snapshot_nak_handed_over(struct roce_qp *qp)
{
	qp->dying = qp->resp.ack.pending = false;
}

void roce_snapshot_lost(struct roce_qp *qp)
{
	roce_responder_fault(qp, REASON_REQ_XRC_OWNER);
	roce_check(qp);
}

void roce_snapshot_ask_again(struct roce_qp *qp)
{
	roce_responder_nak_gap(qp);
	roce_check(qp);
}
