/* SPDX-License-Identifier: BSD-2-Clause */
/* See message.h. */
#include "roce/message.h"

#include <assert.h>
#include <string.h>

#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/retry.h"
#include "util/compiler.h"

static const uint8_t opcodes[MESSAGE_OPS] = {
	[MESSAGE_SEND] = ROCE_RC_SEND_ONLY,
	[MESSAGE_SEND_IMM] = ROCE_RC_SEND_ONLY_WITH_IMMEDIATE,
	[MESSAGE_SEND_INV] = ROCE_RC_SEND_ONLY_WITH_INVALIDATE,
};

/* Of a SEND. */
static enum message_op op_of(const struct send_wqe *w)
{
	switch (w->opcode) {
	case IBV_WR_SEND:
		return MESSAGE_SEND;
	case IBV_WR_SEND_WITH_IMM:
		return MESSAGE_SEND_IMM;
	default:
		return MESSAGE_SEND_INV;
	}
}

/*
 * Could the QP send any request as a message now? A message carries no P_Key and no MigReq. Pending
 * answers leave first, as packets.
 */
static bool sends_messages(const struct roce_qp *qp)
{
	const struct wq_qp *wq = qp->wq;

	return wq->type == IBV_QPT_RC && wq->state == IBV_QPS_RTS &&
	       wq->pkey == ROCE_PKEY_DEFAULT && wq->mig_state == IBV_MIG_MIGRATED &&
	       !roce_is_paced(qp) && !qp->resp.rd_owed && !qp->resp.gap_owed &&
	       !qp->resp.cnp_owed && (!qp->resp.ack.pending || roce_ack_may_piggyback(qp));
}

/* A key that fails is found again by the packet, which says so. */
static bool find_payload(struct roce_qp *qp, struct send_wqe *w, uint8_t *buf, struct message *m)
{
	m->len = w->length;
	m->payload = buf;
	if (w->flags & WQE_DATA_INLINE)
		m->payload = wqe_inline_data(w);
	else if (roce_gather(qp, w, 0, buf, w->length) != REASON_NONE)
		return false;
	return true;
}

bool roce_message_output(struct roce_qp *qp, struct message *m, uint8_t *buf,
			 struct roce_piggyback_ack *ack, uint64_t now)
{
	struct send_wqe *w = sends_messages(qp) ? roce_requester_plain(qp, now) : NULL;

	ack->any = false;
	if (!w || !find_payload(qp, w, buf, m) || !roce_burst_allows(qp, now))
		return false;
	m->op = op_of(w);
	m->qpn = qp->wq->dest_qpn;
	m->psn = w->first_psn;
	m->imm = w->imm;
	m->solicited = w->flags & IBV_SEND_SOLICITED;
	roce_requester_sent_plain(qp, w, now);
	qp->counters.sent_pkts++;
	qp->counters.sent_bytes += w->length;
	if (qp->resp.ack.pending)
		roce_ack_piggyback(qp, ack);
	roce_check(qp);
	return true;
}

void roce_message_packet(const struct message *m, struct roce_pkt *pkt)
{
	assert(m->op < MESSAGE_OPS);
	memset(pkt, 0, offsetof(struct roce_pkt, path));
	pkt->bth = (struct roce_bth){
		.opcode = opcodes[m->op],
		.solicited = m->solicited,
		.mig_req = true,
		.pad = -m->len & 3,
		.pkey = ROCE_PKEY_DEFAULT,
		.dest_qpn = m->qpn,
		.ack_req = true,
		.psn = m->psn,
	};
	pkt->imm = pkt->ieth_rkey = m->imm;
	pkt->payload = m->payload;
	pkt->payload_len = m->len;
}
