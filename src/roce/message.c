/* SPDX-License-Identifier: BSD-2-Clause */
/* See message.h. */
#include "roce/message.h"

#include <assert.h>
#include <string.h>

#include "roce/acknak.h"
#include "roce/const.h"
#include "roce/pace.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "util/compiler.h"

static const uint8_t opcodes[MESSAGE_OPS] = {
	[MESSAGE_SEND] = ROCE_RC_SEND_ONLY,
	[MESSAGE_SEND_IMM] = ROCE_RC_SEND_ONLY_WITH_IMMEDIATE,
	[MESSAGE_SEND_INV] = ROCE_RC_SEND_ONLY_WITH_INVALIDATE,
	[MESSAGE_WRITE_IMM] = ROCE_RC_WRITE_ONLY_WITH_IMMEDIATE,
};

/* The operation of a request that roce_requester_plain() returns. */
static enum message_op op_of(const struct send_wqe *w)
{
	switch (w->opcode) {
	case IBV_WR_SEND:
		return MESSAGE_SEND;
	case IBV_WR_SEND_WITH_IMM:
		return MESSAGE_SEND_IMM;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return MESSAGE_WRITE_IMM;
	default:
		return MESSAGE_SEND_INV;
	}
}

static uint8_t flags_of(const struct send_wqe *w)
{
	return (w->flags & IBV_SEND_SOLICITED ? MESSAGE_SOLICITED : 0) |
	       (w->flags & WQE_WHOLE ? MESSAGE_WHOLE : 0);
}

bool roce_is_plain(const struct roce_qp *qp)
{
	const struct wq_qp *wq = qp->wq;

	return (wq->type == IBV_QPT_RC || wq->type == IBV_QPT_UC) && wq->state == IBV_QPS_RTS &&
	       wq->pkey == ROCE_PKEY_DEFAULT && wq->mig_state == IBV_MIG_MIGRATED &&
	       !roce_is_paced(qp);
}

bool roce_awaits_word(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;

	for (uint32_t i = sq->next; i != sq->done; i--) {
		const struct send_wqe *w = sq_wqe(sq, i - 1);

		if (!roce_is_local_op(w))
			return w->flags & WQE_MESSAGE;
	}
	return false;
}

/* Pending answers leave first, as packets. */
static bool must_answer_first(const struct roce_qp *qp)
{
	return qp->resp.rd_pending || qp->resp.gap_nak_pending || qp->resp.cnp_pending ||
	       (qp->resp.ack.pending && !roce_ack_may_piggyback(qp));
}

/* Declines a key that fails: the packet then fails in the same way, and reports it. */
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
			 struct roce_piggyback_ack *ack)
{
	struct send_wqe *w = must_answer_first(qp) ? NULL : roce_requester_plain(qp);

	ack->any = false;
	if (!w || !find_payload(qp, w, buf, m))
		return false;
	roce_requester_sent_plain(qp, w);
	m->op = op_of(w);
	m->qpn = qp->wq->dest_qpn;
	m->psn = w->first_psn;
	m->imm = w->imm;
	m->va = w->remote_addr;
	m->rkey = w->rkey;
	m->flags = flags_of(w);
	m->signaled = w->flags & WQE_SIGNALED;
	qp->counters.sent_pkts++;
	qp->counters.sent_bytes += w->length;
	roce_ack_beside_message(qp, ack);
	roce_check(qp);
	return true;
}

/*
 * Is this the request that the responder expects, and can it be executed at once? Requests before
 * COMM_EST, errors and path changes are left to the engine, and so is one behind a READ, whose
 * bytes are read first.
 */
static bool takes_message(const struct roce_qp *qp, const struct message *m)
{
	const struct wq_qp *wq = qp->wq;

	return m->psn == qp->resp.epsn && m->op != MESSAGE_SEND_INV &&
	       (likely(m->len <= wq->mtu) || m->len <= wq->path_mtu ||
		(m->flags & MESSAGE_WHOLE && !qp->resp.pull_refused)) &&
	       (wq->state == IBV_QPS_RTS ||
		(wq->state == IBV_QPS_RTR && qp->resp.established)) &&
	       wq->pkey == ROCE_PKEY_DEFAULT && wq->mig_state == IBV_MIG_MIGRATED &&
	       qp->resp.msg == ROCE_MSG_NONE && !qp->resp.wqe && !roce_responses_pending(qp);
}

static enum reason place_write(struct roce_qp *qp, const struct message *m)
{
	struct wq_qp *wq = qp->wq;

	if (!m->len)	/* IBTA vol 1, 9.7.4: the R_Key of an empty message is not checked */
		return REASON_NONE;
	return wq->ops->mem_write(wq, m->rkey, m->va, m->payload, m->len, MEM_REMOTE_WRITE);
}

/* Copies the payload to where it goes. False: the message is declined. */
static bool place(struct roce_qp *qp, const struct message *m, const struct recv_wqe *w)
{
	if (unlikely(m->op == MESSAGE_WRITE_IMM))
		return qp->wq->access & IBV_ACCESS_REMOTE_WRITE &&
		       place_write(qp, m) == REASON_NONE;
	return !w->skip && m->len <= w->length &&
	       roce_scatter(qp, w->sge, w->num_sge, 0, m->payload, m->len, MEM_RECV_WRITE) ==
		       REASON_NONE;
}

/*
 * Takes a receive, which is then held, and places the payload; NULL: the message is declined, and
 * no receive is held.
 */
static struct recv_wqe *take_receive(struct roce_qp *qp, const struct message *m)
{
	const struct wq_head head = { .data = m->payload, .len = m->len, .whole = true };
	struct wq_qp *wq = qp->wq;
	enum reason why = REASON_NONE;
	struct recv_wqe *w = wq->ops->recv_take(
		wq, 0, likely(m->op != MESSAGE_WRITE_IMM) ? &head : NULL, &why);

	if (likely(w && place(qp, m, w)))
		return w;
	if (w)
		wq->ops->recv_untake(wq);
	return NULL;
}

bool roce_message_input(struct roce_qp *qp, const struct message *m,
			struct roce_piggyback_ack *ack)
{
	struct roce_resp *resp = &qp->resp;
	struct recv_wqe *w = takes_message(qp, m) ? take_receive(qp, m) : NULL;

	if (!w)
		return false;
	qp->counters.rcvd_pkts++;
	qp->counters.rcvd_bytes += m->len;
	resp->ack_psn = resp->epsn;
	resp->epsn = psn_next(resp->epsn);
	resp->psns++;
	resp->msn = psn_next(resp->msn);
	resp->nak_sent = resp->gap_nak_pending = resp->pull_refused = false;
	ack->any = false;
	roce_ack_publish(qp, ack);	/* before a receive is held that it would count */
	resp->wqe = w;
	return true;
}

/* ops->complete may fail the QP. */
void roce_message_complete(struct roce_qp *qp, const struct message *m, bool acked)
{
	struct wq_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = m->len,
		.acked = acked,
		.solicited = m->flags & MESSAGE_SOLICITED,
	};

	if (m->op != MESSAGE_SEND) {
		cqe.imm = m->imm;
		cqe.wc_flags = IBV_WC_WITH_IMM;
	}
	if (m->op == MESSAGE_WRITE_IMM)
		cqe.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	roce_responder_complete(qp, &cqe);
	roce_check(qp);
}

void roce_message_packet(const struct message *m, struct roce_pkt *pkt)
{
	assert(m->op < MESSAGE_OPS);
	memset(pkt, 0, offsetof(struct roce_pkt, path));
	pkt->bth = (struct roce_bth){
		.opcode = opcodes[m->op],
		.solicited = m->flags & MESSAGE_SOLICITED,
		.mig_req = true,
		.pad = -m->len & 3,
		.pkey = ROCE_PKEY_DEFAULT,
		.dest_qpn = m->qpn,
		.ack_req = true,
		.psn = m->psn,
	};
	pkt->imm = pkt->ieth_rkey = m->imm;
	if (m->op == MESSAGE_WRITE_IMM) {
		pkt->reth.va = m->va;
		pkt->reth.rkey = m->rkey;
		pkt->reth.len = m->len;
	}
	pkt->whole = m->flags & MESSAGE_WHOLE;
	pkt->payload = m->payload;
	pkt->payload_len = m->len;
}
